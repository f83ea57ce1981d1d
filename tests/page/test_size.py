"""Test how fast the page of a large cluster opens in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import Shape, document

from .conftest import Show, Write

SECONDS = 2.0
"""Seconds within which a page with 1000 nodes must open."""


def seconds_of_renderers(session: Any) -> dict[int, float]:
    """Return the processor seconds of each rendering process of the browser, by its id."""
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return {one["id"]: one["cpuTime"] for one in found if one["type"] == "renderer"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_of_a_thousand_nodes_opens_within_two_seconds(
    scheme: str, write: Write, show: Show, browser: Any
) -> None:
    """The page of a thousand nodes opens within two seconds of processor time."""
    path: Path = write("show", document(Shape(1000, "drbd", per_node=5)))
    session = browser.new_browser_cdp_session()
    before = seconds_of_renderers(session)
    page = show(path, color_scheme=scheme)
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    after = seconds_of_renderers(session)
    spent = sum(time - before.get(process, 0.0) for process, time in after.items())
    data = json.loads(page.locator('script[type="application/json"]').first.inner_text())
    assert len(data["nodes"]) == 1000
    assert len(data["instances"]) == 5000
    assert 0 < spent < SECONDS
