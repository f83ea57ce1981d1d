"""Test common properties of all strategies, and how a new strategy is added."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from iallocator import ranking as strategies
from iallocator.cli import answer
from iallocator.explain.explain import explain
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.ranking import STRATEGIES
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import respond

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def scenario() -> Json:
    """Return a small cluster on which requests of every type have something to do."""
    return cluster(
        {"default": 4, "annex": 3},
        memory=16384,
        instances={
            "mail": instance("node1", "node2", memory=2048),
            "rbd": rbd("node1"),
            "plain": instance("node3", disk_template="plain"),
        },
    )


def batch() -> Json:
    """Return a request for a batch of three instances."""
    wanted = [allocate({}, name=name)["request"] for name in ("a", "b", "c")]
    for one in wanted:
        del one["type"]
    return {"type": "multi-allocate", "instances": wanted}


REQUESTS: dict[str, Json] = {
    "single": allocate_rbd({})["request"],
    "pair": allocate({})["request"],
    "batch": batch(),
    "secondary": {"type": "allocate-secondary", "name": "plain"},
    "relocate": {
        "type": "relocate", "name": "mail", "required_nodes": 1, "relocate_from": ["node2"],
    },
    "evacuate": {"type": "node-evacuate", "instances": ["mail", "rbd"], "evac_mode": "all"},
    "change": {"type": "change-group", "instances": ["mail", "rbd"], "target_groups": []},
    "multi-evacuate": {"type": "multi-evacuate", "evac_nodes": ["node2"]},
}  # fmt: skip


@every_strategy
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_strategy_answers_every_request_with_a_permitted_placement(
    strategy: str, request_: Json
) -> None:
    """Each strategy answers each request with one of the placements possible by score."""
    asked = as_bytes({**scenario(), "request": request_})
    found = json.loads(answer(asked, [f"--strategy={strategy}", "--n1=off"]))
    assert found["success"]
    if request_["type"] != "allocate":
        return
    every = json.loads(answer(asked, ["--top=1000", "--n1=off"]))
    possible = {
        tuple(placed["nodes"]): placed["score"]
        for group in every["solutions"]
        for placed in group["placements"]
    }
    for group in found["solutions"]:
        assert group["score"] == possible[tuple(group["nodes"])]
        assert group.get("strategy", "score") == strategy


@every_strategy
@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_explanation_is_about_the_answer_of_the_strategy(strategy: str, request_: Json) -> None:
    """`explain` has the nodes of the strategy's answer, and the rule that selected them."""
    raw = as_bytes({**scenario(), "request": request_})
    settings = Settings()
    parse([f"--strategy={strategy}"], settings)
    reported = explain(raw, settings).document()
    solutions = reversed(reported["response"]["solutions"])
    entries = {entry.get("instance", "new"): entry["nodes"] for entry in solutions}
    for decision in reported["decisions"]:
        if request_["type"] != "allocate-secondary":
            assert decision["answer"]["nodes"] == entries[decision["instance"]]
        if strategy not in ("score", "lost-allocations"):
            assert decision["groups"][0]["ranked_by"] == strategy
            for comparison in decision["comparisons"]:
                assert comparison["decided_by"] or comparison["with"] != "runner-up"


def test_explanation_names_the_rule_and_both_figures() -> None:
    """`explain` names the rule that decided with both numbers of instances, and rejected nodes."""
    made = cluster(nodes=3, instances={"old": rbd("node1")})
    made["nodes"]["node3"]["tags"] = ["iallocator:score:-5"]
    settings = Settings()
    parse(["--strategy=pacemaker-default", "--n1=off"], settings)
    document = explain(as_bytes(allocate_rbd(made)), settings).document()
    group = document["decisions"][0]["groups"][0]
    assert group["refused_by_strategy"] == {"node3": "rule 3: score -5"}
    comparison = document["decisions"][0]["comparisons"][0]
    assert comparison["nodes"] == ["node1"]
    assert comparison["decided_by"] == "rule 4: fewer instances: 0 against 1"


def test_lost_allocations_rank_moves() -> None:
    """With --strategy=lost-allocations, lost allocations rank moves instead of the score."""
    made = cluster(nodes=3, memory=8192, changes={"node2": {"free_disk": 20000}})
    made["ipolicy"] = made["nodegroups"]["uuid-default"]["ipolicy"]
    made["ipolicy"]["minmax"][0]["min"] |= {"disk-size": 4096, "memory-size": 1024}
    made["instances"] = {"mail": instance("node1", "node3", memory=1024, disk=10240)}
    request = {"type": "relocate", "name": "mail", "required_nodes": 1, "relocate_from": ["node3"]}
    asked = {**made, "request": request}
    found = respond(asked, "--strategy=lost-allocations")
    assert found["solutions"][0]["strategy"] == "lost-allocations"
    assert found["result"] == ["node2"]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Add the strategy that the manual shows, and return its name."""
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "write-a-strategy.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.S)
    assert code is not None
    path = tmp_path / "longest_name.py"
    path.write_text(code[1])
    name = "iallocator.ranking.longest_name"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    line = re.search(r'`"(longest-name)": "(longest_name)"`', text)
    assert line is not None
    monkeypatch.setitem(strategies.STRATEGIES, line[1], line[2])
    return line[1]


def test_strategy_of_the_manual_works_everywhere(example: str) -> None:
    """The strategy of the manual answers and explains requests of all types."""
    made = scenario()
    made["nodes"]["node10"] = made["nodes"]["node1"] | {"free_memory": 16384}
    for request in REQUESTS.values():
        raw = as_bytes({**made, "request": request})
        assert json.loads(answer(raw, [f"--strategy={example}", "--n1=off"]))["success"]
    raw = as_bytes({**made, "request": REQUESTS["single"]})
    assert json.loads(answer(raw, [f"--strategy={example}"]))["result"] == ["node10"]
    settings = Settings()
    parse([f"--strategy={example}"], settings)
    reported = explain(raw, settings).document()["decisions"][0]["comparisons"][0]
    assert reported["decided_by"] == "letters: 6 against 5"
