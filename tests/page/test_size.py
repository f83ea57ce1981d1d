"""Test that the page of a large cluster opens in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import Shape, document

from .conftest import Show, Write

NODES, PER_NODE = 1000, 5

ELEMENTS_PER_NODE = 120
"""Most elements of the page for each node with its instances.

The time to open the page grows with them (``python -m benchmarks.pages``).
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_of_a_thousand_nodes_opens(
    scheme: str, write: Write, show: Show, browser: Any
) -> None:
    """A page of a thousand nodes is drawn, with few elements for each node."""
    path: Path = write("show", document(Shape(NODES, "drbd", per_node=PER_NODE)))
    page = show(path, color_scheme=scheme)
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    data = json.loads(page.locator('script[type="application/json"]').first.inner_text())
    assert len(data["nodes"]) == NODES
    assert len(data["instances"]) == NODES * PER_NODE
    elements = page.evaluate("document.getElementsByTagName('*').length")
    assert NODES < elements < ELEMENTS_PER_NODE * NODES
