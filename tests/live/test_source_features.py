"""Test that each feature of a cluster has one effect, whatever source it is read from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json

from .cluster_answers import luxi_answer, rapi_answers, write_answers
from .fakes import fake_luxi

Change = Callable[[Json], object]

DRBD = ("allocate", "--memory=1G", "--disk=1G", "--template=drbd")


def on(node: int, **fields: Any) -> Change:
    """Return a change of the fields of a node; nodes are counted from 0."""
    return lambda answers: answers["nodes"][node].update(fields)


def parameters(node: int, **values: Any) -> Change:
    """Return a change of the node parameters of a node."""
    return lambda answers: answers["nodes"][node]["ndparams"].update(values)


def policy(**members: Any) -> Change:
    """Return a change of the policy of the group named two."""
    return lambda answers: answers["groups"][1].update(
        ipolicy={**answers["groups"][1]["ipolicy"], **members}
    )


def tags(answers: Json, cluster: str, nodes: dict[int, str]) -> None:
    """Set tags of the cluster and of nodes in `answers`."""
    answers["info"]["tags"] = [*answers["info"]["tags"], cluster]
    for node, tag in nodes.items():
        answers["nodes"][node]["tags"] = [tag]


def instance_tags(answers: Json) -> None:
    """Give two instances on one node a common exclusion tag."""
    for instance in answers["instances"][:2]:
        instance["tags"] = ["srv:a"]


FEATURES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "offline": (on(4, offline=True), DRBD),
    "drained": (on(4, drained=True), DRBD),
    "not vm_capable": (on(4, vm_capable=False), DRBD),
    "policy": (policy(**{"disk-templates": ["plain"]}), DRBD),
    "cpu ratio": (policy(**{"vcpu-ratio": 0.1}), DRBD),
    "exclusion tags": (instance_tags, ("show",)),
    "location tags": (
        lambda a: tags(a, "htools:nlocation:power", dict.fromkeys((0, 1), "power:x")),
        ("show",),
    ),
    "migration tags": (
        lambda a: tags(a, "htools:migration:hv", {0: "hv:1", 1: "hv:2", 2: "hv:2"}),
        ("evacuate", "node1", "--mode=primary-only"),
    ),
    "networks": (
        lambda a: a["networks"][0]["group_list"].append(["two", "bridged", "br0", ""]),
        ("change-group", "inst5", "--to=two", "--n1=off"),
    ),
    "exclusive storage": (parameters(4, exclusive_storage=True), DRBD),
    "unallocable group": (
        lambda a: a["groups"][1].update(alloc_policy="unallocable"), DRBD,
    ),
    "cpu speed": (parameters(4, cpu_speed=0.01), ("allocate", "--memory=1G", "--disk=1G",
                                                 "--template=plain")),
    "not auto-balanced": (
        lambda a: a["instances"][0]["beparams"].update(auto_balance=False), ("show",),
    ),
    "stopped": (lambda a: a["instances"][0].update(status="ADMIN_down"), ("show",)),
    "static node memory": (
        lambda a: a["info"].update(default_hypervisor="kvm", enabled_hypervisors=["kvm"]),
        ("show",),
    ),
}  # fmt: skip
"""Feature -> the change that adds it, and a command that it affects."""

SOURCES = ("luxi", "document", "text")
"""Sources that are compared with RAPI."""


def decided(words: tuple[str, ...], source: tuple[str, ...], capsys: Capture) -> Json:
    """Return the decision of a command for a source, without other text."""
    command = words if words[0] == "show" else ("ask", *words)
    status = main([*command, "--json", *source])
    out = capsys.readouterr().out
    assert status == 0
    found: Json = json.loads(out)
    if words[0] == "show":
        return {key: found[key] for key in ("cluster_score", "node_fields", "instances")}
    return {key: found["response"][key] for key in ("success", "result")}


def elsewhere(
    kind: str, answers: Json, words: tuple[str, ...], folder: Path, capsys: Capture
) -> Json:
    """Return the decision of a command for the cluster from a source of type `kind`."""
    address = write_answers(folder / "rapi", answers)
    if kind == "rapi":
        return decided(words, ("-m", address), capsys)
    if kind == "luxi":
        with fake_luxi(folder, lambda method, args: luxi_answer(answers, method, args)) as server:
            return decided(words, (f"-L{server.path}",), capsys)
    assert main(["snapshot", "-m", address, "--form", "text" if kind == "text" else "json"]) == 0
    file = folder / "snapshot"
    file.write_text(capsys.readouterr().out)
    return decided(words, ("-t", str(file)) if kind == "text" else (str(file),), capsys)


@pytest.mark.parametrize("feature", FEATURES)
def test_feature_has_the_same_effect_through_every_source(
    feature: str, tmp_path: Path, capsys: Capture
) -> None:
    """Each feature changes the decision, and equally for all sources."""
    change, words = FEATURES[feature]
    changed = rapi_answers()
    change(changed)
    plain = elsewhere("rapi", rapi_answers(), words, tmp_path, capsys)
    wanted = elsewhere("rapi", changed, words, tmp_path, capsys)
    assert wanted != plain
    for kind in SOURCES:
        folder = tmp_path / kind
        folder.mkdir()
        found = elsewhere(kind, changed, words, folder, capsys)
        if kind == "document" and feature == "not auto-balanced":
            continue  # Ganeti's documents do not contain it
        assert _known(found, kind) == _known(wanted, kind)


def _known(found: Json, kind: str) -> Json:
    """Return the document without facts that a source of type `kind` lacks, such as networks."""
    if kind != "text" or "instances" not in found:
        return found
    instances = [{**one, "networks": []} for one in found["instances"]]
    return {**found, "instances": instances}
