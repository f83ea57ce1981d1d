"""Test orders of starts after an instance that cannot run: the answer names the chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from tests import builders
from tests.builders import Json
from tests.command import json_of, respond

AFTER_WEB = "starts after web (tag iallocator:order:after:web)"
AFTER_DB = "starts after db (tag iallocator:order:after:db)"


def shared(node: str, *tags: str, **members: Any) -> Json:
    """Return an instance on shared storage on `node`, with `tags`."""
    return builders.rbd(node, memory=512, tags=list(tags), **members)


def scenario(**changes: Any) -> Json:
    """Return a cluster in which ``web`` starts after ``db``; `changes` are members of ``db``."""
    instances = {
        "db": shared("node1", **changes),
        "web": shared("node2", "iallocator:order:after:db"),
    }
    return builders.cluster(3, instances=instances)


def without_db() -> Json:
    """Return a cluster in which ``web`` must start after an instance that does not exist."""
    document = scenario()
    document["instances"]["bd"] = document["instances"].pop("db")
    return document


def on_offline() -> Json:
    """Return a cluster in which ``web`` must start after ``db``, which is on an offline node."""
    document = scenario()
    document["nodes"]["node1"]["offline"] = True
    return document


BASES = {
    "misspelt": (without_db(), "does not exist"),
    "down": (scenario(admin_state="down"), "does not run"),
    "offline": (on_offline(), "is on node1, which is offline"),
}


@pytest.mark.parametrize("case", BASES)
def test_allocation_after_an_instance_that_cannot_run_names_the_chain(case: str) -> None:
    """An instance that must start after one that cannot run is placed; `info` names the chain.

    The instance that cannot run does not exist, is stopped, or is on an offline node.
    """
    document, why = BASES[case]
    tags = ["iallocator:order:after:web"]
    asked = builders.allocate_rbd(document, memory=512, tags=tags)
    reply = respond(asked)
    assert reply["success"]
    name = asked["request"]["name"]
    assert reply["info"].endswith(f"; {name} {AFTER_WEB}, which {AFTER_DB}, which {why}")


def test_allocation_after_a_running_instance_omits_the_order() -> None:
    """An answer does not name an order of starts if all of its instances run."""
    asked = builders.allocate_rbd(scenario(), memory=512,
                              tags=["iallocator:order:after:web"])  # fmt: skip
    assert "starts after" not in respond(asked)["info"]


@pytest.mark.parametrize("case", BASES)
def test_check_names_an_instance_that_runs_though_its_predecessor_cannot(case: str) -> None:
    """`check` reports an instance that runs although it must start after one that cannot run.

    The exit status is 1.
    """
    document, why = BASES[case]
    found = json_of("check", "--n1=off", document=document, status=1)["groups"][0]["findings"]
    violated = [one for one in found if one["kind"] == "musts"]
    assert [(one["instance"], one["text"]) for one in violated] == [
        ("web", f"runs, but {AFTER_DB}, which {why}")
    ]


@pytest.mark.parametrize("case", BASES)
def test_constraints_name_orders_that_cannot_be_satisfied(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`constraints` lists orders that cannot be satisfied with the tags that have no meaning."""
    document, why = BASES[case]
    document["instances"]["web"]["tags"].append("iallocator:colocate:must:wbe")
    path = tmp_path / "cluster.json"
    path.write_bytes(builders.as_bytes(document))
    main(["constraints", "--json", str(path)])
    assert json.loads(capsys.readouterr().out)["unusable_tags"] == [
        "web: iallocator:colocate:must:wbe: no other instance has that name",
        f"web: {AFTER_DB}, which {why}",
    ]


def test_rejection_by_affinity_names_the_offline_node_of_the_other_instance() -> None:
    """A rejection by colocation names the offline node on which the instance would have to be."""
    pair = ["iallocator:colocate:must:web"]
    document = builders.cluster(3, instances={"a": shared("node1", *pair)})
    document["nodes"]["node1"]["drained"] = True
    asked = builders.allocate_rbd(document, memory=512, tags=pair)
    reply = respond(asked)
    assert not reply["success"]
    assert "together with a (tag iallocator:colocate:must:web)" in reply["info"]
    assert reply["info"].endswith("which is on node1, which is drained")
