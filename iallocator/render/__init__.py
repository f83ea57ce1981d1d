"""Show documents as text, pages for a browser, and drawings: the table of renderers.

A renderer is a function for one type of document and one medium. Renderers for text and pages take
the document, further facts that the medium shows (plain data from `iallocator.documents` or from
the command), and the page to which they add. The module of a renderer is loaded when it is needed.
Every document is written as JSON in the same way.
"""

from __future__ import annotations

import sys
from importlib import import_module

from iallocator.render.table import Page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.aliases import Json

__all__ = ["DRAWING", "PAGE", "RENDERERS", "TEXT", "drawing_of", "pages_of", "text_of"]

TEXT, PAGE, DRAWING = "text", "page", "drawing"
"""The media: plain text, a page for a browser, and a drawing of the steps as SVG or DOT."""

PLAN_RENDERERS = {TEXT: "plan:plan", PAGE: "page.plan_page:plan", DRAWING: "drawing:graph"}

RENDERERS = {
    "calls": {TEXT: "listings:calls"},
    "campaign": {**PLAN_RENDERERS, TEXT: "campaign:campaign"},
    "capacity": {TEXT: "capacity:capacity", PAGE: "page.capacity_page:capacity"},
    "check": {TEXT: "checkup:check", PAGE: "page.check_page:check"},
    "cluster": {TEXT: "listings:cluster", PAGE: "page.check_page:report"},
    "constraints": {TEXT: "listings:constraints", PAGE: "page.check_page:constraints"},
    "explanation": {
        TEXT: "explained:explanation",
        PAGE: "page.explain_page:explanation",
        DRAWING: "drawing:graph",
    },
    "files": {TEXT: "listings:files"},
    "health": {PAGE: "page.check_page:report"},
    "metrics": {TEXT: "metrics:metrics"},
    "outcomes": {TEXT: "listings:outcomes"},
    "plan": PLAN_RENDERERS,
    "reboots": {**PLAN_RENDERERS, TEXT: "plan:reboots"},
    "rescue": {**PLAN_RENDERERS, TEXT: "plan:rescue"},
    "repairs": {TEXT: "plan:repairs", PAGE: "page.plan_page:repairs"},
    "settings": {TEXT: "listings:settings"},
}
"""Type of a document -> medium -> ``module:function`` of the renderer in `iallocator.render`."""


def _renderer_of(kind: str, medium: str) -> Any:
    """Load the renderer for documents of the type `kind`."""
    module, _, function = RENDERERS[kind][medium].partition(":")
    return getattr(import_module(f"iallocator.render.{module}"), function)


def text_of(kind: str, document: Json, facts: Json, settings: Any) -> str:
    """Return a document of the type `kind` as text for standard output, as `settings` require."""
    page = Page.on(sys.stdout, settings)
    _renderer_of(kind, TEXT)(document, facts, page)
    page.say_left_out()
    page.say_shortened()
    return page.text()


def pages_of(kind: str, document: Json, facts: Json, folder: bool) -> dict[str, str]:
    """Return a document of the type `kind` as HTML: name of a file -> its text.

    Without `folder`, there is one page, with the name "". With `folder`, there are linked pages,
    which begin at ``index.html``.
    """
    from iallocator.render.page.view import PageView, html_of

    page = PageView(facts)
    _renderer_of(kind, PAGE)(document, facts, page)
    if not folder:
        return {"": html_of(page)}
    _renderer_of("constraints", PAGE)(facts.get("rules", {}), facts, page)
    current = ["index", *dict.fromkeys(section.page for section in page.sections)]
    return {f"{name}.html": html_of(page, name) for name in current}


def drawing_of(kind: str, transition: Json, path: str) -> str:
    """Return the steps of a document as a drawing: SVG if `path` ends with ``.svg``, or DOT."""
    drawing: str = _renderer_of(kind, DRAWING)(transition, path)
    return drawing
