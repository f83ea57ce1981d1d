"""Provide fixtures for tests of pages, among them a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from iallocator.cli import main
from tests.patience import PATIENCE

Show = Callable[..., Any]
Write = Callable[..., Path]

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Write:
    """Return a function that runs a command with ``--html`` and returns the path of the page."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    from tests.builders import as_bytes

    def write(command: str, document: Any, *words: str) -> Path:
        source, page = tmp_path / "document.json", tmp_path / "page.html"
        source.write_bytes(as_bytes(document))
        status = main([command, *words, f"--html={page}", str(source)])
        assert status in (0, 1), capsys.readouterr().err
        return page

    return write


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Yield a real browser without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = which("chromium") or which("google-chrome")
    if path is None:
        pytest.skip("no browser is installed (Debian: chromium)")
    try:
        playwright = api.sync_playwright().start()
    except Exception as error:
        pytest.skip(f"the browser's driver does not start here (Debian: libatomic1): {error}")
    found = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=PATIENCE * 1000)
    yield found
    found.close()
    playwright.stop()


@pytest.fixture
def show(browser: Any) -> Iterator[Show]:
    """Yield a function that opens a page; no script may fail, and nothing may be loaded.

    With `others`, the other pages of its folder may be opened.
    """
    wrong: list[str] = []
    contexts = []

    def show(path: Path, *, others: bool = False, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE * 1000)  # however slow the machine
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        own = path.as_uri()
        allowed = path.parent.as_uri() if others else own
        page.on(
            "request",
            lambda one: None if one.url.startswith(allowed) else wrong.append(one.url),
        )
        page.goto(own)
        return page

    yield show
    for context in contexts:
        context.close()
    assert wrong == []
