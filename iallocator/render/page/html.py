"""A `PageView` as HTML: the only user of the template library."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from iallocator import __version__
from iallocator.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jinja2 import Template

    from iallocator.render.page.view import PageView

__all__ = ["check_library", "html_of"]

TEMPLATES = Path(__file__).parent / "templates"


def check_library() -> None:
    """Say before any work that no page can be made.

    Raises
    ------
    UsageError
        If the template library is not installed.
    """
    if find_spec("jinja2") is None:
        raise UsageError("--html needs the module jinja2: pip install 'iallocator[html]'")


@cache
def _page() -> Template:
    """The template of every page; made once in a process."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def html_of(view: PageView) -> str:
    """The page as one document: style and script stand in it, and nothing is fetched.

    The page's own policy lets no script run but that one.
    """
    from markupsafe import Markup

    script = (TEMPLATES / "page.js").read_text("utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return _page().render(
        view=view,
        version=__version__,
        style=Markup((TEMPLATES / "page.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
    )
