"""Build the manual with Sphinx: pages for a browser, and man pages from the pages of commands.

The source folder is the root of the project, so that links between the manual and the files beside
it work in a checkout and on the built pages. ``make docs`` and ``make manuals`` call it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from iallocator import __version__
from iallocator.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]

project = "iallocator"
release = version = __version__
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = [
    "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/**/*.md",
    "benchmarks/*.md", "fixtures/README.md",
]  # fmt: skip
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
suppress_warnings = ["misc.highlighting_failure"]
smartquotes = False
html_theme = "furo"
html_title = f"iallocator {__version__}"
html_show_sphinx = html_show_copyright = False
highlight_language = "text"

SECTIONS = {
    "Tutorials": ["docs/tutorial/*"],
    "How-to": ["docs/how-to/*"],
    "Commands": ["docs/reference/commands/*"],
    "Reference": ["docs/reference/*"],
    "Documents": ["docs/reference/fields/*"],
    "Explanation": ["docs/explanation/*"],
    "Development": [
        "README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "docs/design/*", "benchmarks/*",
        "fixtures/*",
    ],
}  # fmt: skip
"""Chapter of the manual -> its pages."""

PAGES = "docs/reference/commands"

man_pages = [
    (f"{PAGES}/iallocator", "iallocator", "place virtual machines on Ganeti clusters", [], 1),
    *((f"{PAGES}/{name}", f"iallocator-{name}", row.summary, [], 1)
      for name, row in COMMANDS.items()),
]  # fmt: skip


def setup(app: Any) -> None:
    """Change pages for the builder before they are read."""
    app.connect("source-read", adapt)


def adapt(app: Any, name: str, source: list[str]) -> None:
    """Add the table of contents to the first page, and drop links to folders.

    Tables of options become lists on man pages, which have no wide tables.
    """
    text = source[0]
    if name == root_doc:
        for title, pages in SECTIONS.items():
            listed = "\n".join(f"/{page}" for page in pages)
            text += f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n:glob:\n\n{listed}\n```\n"
    if app.builder.name == "man":
        text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
        text = re.sub(r"(?m)^# .*\n\nThis page describes .*\n\n", "# Page\n\n", text)
        text = re.sub(r"(?m)^\| (?:option|status|command) \| .*\n\|---\|---\|\n", "", text)
        text = re.sub(r"(?m)^\| (.*?) \| (.*) \|$", r"\1\n: \2\n", text).replace("\\|", "|")
    else:
        folder = (ROOT / f"{name}.md").parent
        text = re.sub(
            r"\[([^\]]+)\]\(([^)#:\s]+)\)",
            lambda found: found[1] if (folder / found[2]).is_dir() else found[0],
            text,
        )
    source[0] = text
