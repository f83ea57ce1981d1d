"""Test Ctrl-C during a search: the answer is the best result so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iallocator import deadline
from iallocator.cli import answer, main
from iallocator.solver import highs
from tests import builders
from tests.builders import Json

pytest.importorskip("highspy")


INTERRUPTED = 130


def _batch() -> Json:
    """Return a batch that fits only in another order than that of the request."""
    document = builders.cluster(nodes=2, memory=8192)
    document["nodes"]["node1"]["free_memory"] = 2049
    document["nodes"]["node2"]["free_memory"] = 4097
    wanted = []
    for name, memory in (("medium", 2048), ("small", 1024), ("large", 3072)):
        request: Json = builders.allocate(document, name, memory=memory)["request"]
        del request["type"]
        wanted.append(request | {"disk_template": "rbd", "required_nodes": 1})
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def _evacuation() -> Json:
    """Return an evacuation that needs exact search."""
    instances = {
        name: builders.rbd("node3", memory=memory)
        for name, memory in (("medium", 2048), ("small", 1024), ("large", 3072))
    }
    document = builders.cluster(nodes=3, memory=8192, instances=instances)
    document["nodes"]["node1"]["free_memory"] = 2049
    document["nodes"]["node2"]["free_memory"] = 4097
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": list(instances)}
    return document | {"request": request}


def _signalled(*arguments: Any) -> Any:
    deadline.interrupt()
    return _solve(*arguments)


_solve = highs.solve


@pytest.mark.parametrize("document", [_batch(), _evacuation()])
def test_interrupted_search_prints_what_greedy_found_with_status_130(
    document: Json,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """After Ctrl-C during exact search, the greedy answer is printed, with status 130."""
    raw = builders.as_bytes(document)
    greedy = json.loads(answer(raw, ["--n1=off", "--exact-search=no"]))
    request = tmp_path / "request.json"
    request.write_bytes(raw)
    monkeypatch.setattr(highs, "solve", _signalled)
    status = main(["--n1=off", str(request)])
    response = json.loads(capsys.readouterr().out)
    assert status == INTERRUPTED
    assert response["result"] == greedy["result"]
    why = "; exact search found no answer before it was interrupted"
    assert why in response["info"]
    assert response["info"].replace(why, "") == greedy["info"]
