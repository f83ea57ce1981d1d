"""Test that every command that shows or checks a cluster reads the settings in tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from iallocator.cli import main
from tests.builders import Json, as_bytes, cluster, rbd

COMMANDS = (["show"], ["report"], ["check", "--no-simulation"], ["check"])


def overcommitted() -> Json:
    """Return a node of 4096 MiB with instances of 6144 MiB; its tag states 7168 MiB of memory."""
    held = {f"i{k}": rbd("node1", memory=1024) for k in range(6)}
    for one in held.values():
        one["tags"] = ["iallocator:utilization:memory:1024"]
    document = cluster(1, memory=4096, cpus=16, instances=held)
    document["nodes"]["node1"]["tags"] = ["iallocator:utilization:memory:7168"]
    document["nodes"]["node1"]["free_memory"] = 1000
    return document


def run(folder: Path, document: Json, *words: str) -> int:
    """Return the exit status of a command on `document`."""
    path = folder / "cluster.json"
    path.write_bytes(as_bytes(document))
    return main([*words, str(path)])


@pytest.mark.parametrize("words", COMMANDS)
def test_invalid_tag_is_reported_once(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command reports an invalid setting in a tag once."""
    document = {**cluster(2), "cluster_tags": ["iallocator:n1:sometimes"]}
    assert run(tmp_path, document, *words) == 0
    err = capsys.readouterr().err
    assert err.count("iallocator:n1:sometimes does not count") == 1


def test_memory_that_a_node_advertises_by_a_tagged_strategy_is_checked(tmp_path: Path) -> None:
    """`check` uses the memory that a node has by the strategy in a cluster tag."""
    document = overcommitted()
    assert run(tmp_path, document, "check", "--no-simulation", "--n1=off") == 1
    document["cluster_tags"] = ["iallocator:strategy:pacemaker-utilization"]
    assert run(tmp_path, document, "check", "--no-simulation", "--n1=off") == 0


def test_time_limit_of_a_tag_ends_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tag ``iallocator:time-limit:0`` has the effect of ``--time-limit 0``."""
    document = {**cluster(2), "cluster_tags": ["iallocator:time-limit:0"]}
    run(tmp_path, document, "check", "--simulation")
    assert "the time limit of 0 s was reached" in capsys.readouterr().err
