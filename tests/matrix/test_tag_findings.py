"""Misspelt tags × paths that answer requests: each path reports them.

Planners have no ``info``; `check` and `constraints` report the tags of their clusters.
"""

from __future__ import annotations

import pytest

from .paths import PATHS
from .requests import respond
from .worlds import BEST

ANSWERED = [
    name for name, path in PATHS.items() if path.ask is respond and not name.endswith("affinity")
]
"""With placement keys only the instance's own tags, because customers read the answer."""

WORDS = "tag iallocator:prority:7 is unknown: iallocator:priority is meant, perhaps"


@pytest.mark.parametrize("path", ANSWERED)
@pytest.mark.parametrize("owner", ["subject", "node"])
def test_misspelt_tag_is_told_wherever_it_was_to_decide(path: str, owner: str) -> None:
    """A misspelt tag of the requested instance and of a node is reported."""
    column = PATHS[path]
    scene = column.scene(column.kinds[0], False)
    assert "is meant" not in column.ask(scene).get("info", "")
    if owner == "node":
        scene.node(BEST)["tags"] = [*scene.node(BEST).get("tags", []), "iallocator:maintenence"]
    else:
        scene.subject["tags"] = [*scene.subject.get("tags", []), "iallocator:prority:7"]
    words = WORDS if owner == "subject" else "node best: tag iallocator:maintenence is unknown"
    assert words in column.ask(scene)["info"]
