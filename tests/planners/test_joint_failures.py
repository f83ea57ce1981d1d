"""Test `check --failures --racks`: pairs of nodes and failure domains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator import deadline
from iallocator.cli import main
from iallocator.n1.tolerance import FailureTolerance
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance
from tests.schemas import conforms

ASKED = ("--no-simulation", "--failures=2", "--racks")


def racks() -> Json:
    """Return two racks of two nodes each.

    Instance ``together`` has both nodes in the first rack.
    """
    instances = {
        "together": instance("node1", "node2"),
        "apart": instance("node2", "node3", memory=2048),
    }
    where = {f"node{k}": {"tags": [f"rack:{'ab'[k > 2]}"]} for k in (1, 2, 3, 4)}
    return cluster(4, instances=instances, changes=where, tags=("htools:nlocation:rack",))


def check(folder: Path, document: Json, *words: str) -> int:
    """Run `check` on the document; return the exit status."""
    path = folder / "document.json"
    path.write_bytes(as_bytes(document))
    return main(["check", *words, str(path)])


def test_pairs_and_racks_name_the_instances_that_cannot_be_restarted(
    tmp_path: Path, capsys: Capture
) -> None:
    """`check` names the instances that cannot be restarted if two nodes or a rack fail."""
    check(tmp_path, racks(), "--json", *ASKED)
    document = json.loads(capsys.readouterr().out)
    conforms(document, "plan")
    found = document["node_failures"]
    pairs = found["sets"]
    assert (found["at_once"], pairs["set_count"], pairs["tolerated_count"], pairs["unknown"]) == (
        2,
        6,
        4,
        0,
    )
    lost = [(one["nodes"], one["lost"], one["lost_memory"]) for one in pairs["losing"]]
    assert lost == [
        (["node1", "node2"], ["together"], 1024), (["node2", "node3"], ["apart"], 2048),
    ]  # fmt: skip
    domains = [(one["domain"], one["tolerated"], one["lost"]) for one in found["domains"]]
    assert domains == [("rack:a", False, ["together"]), ("rack:b", True, [])]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_signal_ends_the_analysis_of_joint_failures(
    words: tuple[str, ...], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C, `check --failures` reports each failure that is not analysed as unknown."""
    original, calls = FailureTolerance.unrestarted, []

    def interrupting(self: FailureTolerance, failure: tuple[int, ...]) -> object:
        calls.append(failure)
        deadline.interrupt()
        return original(self, failure)

    monkeypatch.setattr(FailureTolerance, "unrestarted", interrupting)
    assert check(tmp_path, racks(), *words, *ASKED) == 130
    out, err = capsys.readouterr()
    assert calls == [(0, 1)]
    assert err.splitlines() == ["iallocator: interrupted before every failure was analysed"]
    if words:
        failures = json.loads(out)["node_failures"]
        assert [one["tolerated"] for one in failures["domains"]] == [False, None]
        assert failures["sets"]["unknown"] == failures["sets"]["set_count"] == 6
    else:
        assert "6 in all: 0 tolerated, 0 not tolerated, 6 not analysed" in out


def test_table_by_domain_counts_the_pairs_within(tmp_path: Path, capsys: Capture) -> None:
    """`check --failures` prints one line per rack, then the worst pairs of nodes."""
    check(tmp_path, racks(), *ASKED)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["rack:a", "2", "no", "1", "1024", "1", "1", "together"] in lines
    assert ["rack:b", "2", "yes", "0", "0", "1", "0"] in lines
    assert ["node2", "node3", "1", "2048", "apart"] in lines


def test_failures_of_offline_nodes_are_not_counted(tmp_path: Path, capsys: Capture) -> None:
    """`check --failures` counts failures of online nodes only."""
    document = racks()
    document["nodes"]["node4"]["offline"] = True
    check(tmp_path, document, "--json", "--no-simulation", "--failures=1")
    assert json.loads(capsys.readouterr().out)["node_failures"]["sets"]["set_count"] == 3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--racks",), "no node is in a failure domain"),
        (("--failures=3",), "a whole number from 1 to 2"),
        (("--failures=2", "--machine-readable"), "hcheck has no keys"),
    ],
)
def test_invalid_combinations_of_joint_failures_are_rejected(
    words: tuple[str, ...], why: str, tmp_path: Path, capsys: Capture
) -> None:
    """`check --failures` rejects invalid combinations of options in one line, with status 2."""
    assert check(tmp_path, cluster(2), *words) == 2
    assert why in capsys.readouterr().err
