"""Default plans, checked by a plain search: no failure loses more after the plan than before."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import pytest

from tests.builders import Json
from tests.command import json_of
from tests.n1.test_no_worse import lost_if, world
from tests.seeds import seeds

COMMANDS = (
    "balance --min-gain=0",
    "squeeze --all --target-resources=0.5 --minimal-resources=0.1",
    "place --strategy=pacemaker-utilization",
)


def carried_out(document: Json, plan: Json) -> Json:
    """Return the cluster after the plan; stopped instances use no memory."""
    done = deepcopy(document)
    for move in plan["moves"]:
        done["instances"][move["instance"]]["nodes"] = move["to"]
    for name, home in plan.get("placement", {}).items():
        if home is None:
            del done["instances"][name]
    for name in plan.get("nodes", ()) if "down" in (plan.get("action") or "") else ():
        done["nodes"][name]["drained"] = True
    return done


@pytest.mark.parametrize("template", ["rbd", "drbd", "mixed"])
def test_plan_by_default_leaves_no_failure_that_loses_more(template: str) -> None:
    """No node failure loses more instances or more memory than before the plan."""
    moved = 0
    for seed in seeds(2, 60):
        document = world(Random(f"plans/{template}/{seed}"), template)
        del document["request"]
        before = {name: lost_if(document, name) for name in document["nodes"]}
        for words in COMMANDS:
            done = carried_out(document, json_of(*words.split(), document=document))
            moved += done["instances"] != document["instances"]
            for name in (n for n, node in done["nodes"].items() if not node["drained"]):
                counts = zip(lost_if(done, name), before[name], strict=True)
                assert all(after <= first for after, first in counts), (seed, words, name)
    assert moved
