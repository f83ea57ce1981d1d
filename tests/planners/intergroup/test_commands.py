"""Test `redistribute`, `compress` and `balance-groups`: their output, and how they end early."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.deadline import SIGNALLED, Stopped
from iallocator.planners.intergroup.moving import Mover
from tests.aliases import Capture
from tests.builders import Json, cluster
from tests.command import json_of, printed

from .scenarios import by_group, on_shared

COMMANDS = ("redistribute", "compress", "balance-groups")


def uneven() -> Json:
    """Return a cluster of several groups in which each command between groups has moves to make."""
    homes = ("node1", "node2", "node2", "node3", "node3", "node4", "node8")
    instances = {f"i{k}": on_shared(home, memory=512) for k, home in enumerate(homes)}
    groups = {"east": 4, "west": 3, "south": 3}
    return cluster(groups, instances=instances, changes={"node1": {"offline": True}})


def written(folder: Path, document: Json) -> str:
    """Write the document to a file in `folder`, and return the path of the file."""
    path = folder / "cluster.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_super_command_prints_groups_moves_and_commands(command: str, tmp_path: Path) -> None:
    """Each command between groups prints a table of groups and moves.

    -C adds the commands in job sets.
    """
    path = written(tmp_path, uneven())
    out = printed(command, "-C", path)
    assert all(f"  {name}" in out for name in ("east", "west", "south"))
    assert all(words in out for words in ("Moves", "The plan ends here: ", "Transition: "))
    plan = json_of(command, path)
    assert plan["moves"]
    for move in plan["moves"]:
        name, target = move["instance"], move["to"][0]
        assert any(
            f"gnt-instance {verb} -n {target} {name}" in out
            for verb in ("migrate -f", "failover -f", "failover -f --ignore-consistency")
        )
    assert "echo jobset 1, " in out
    positions = [position for job_set in plan["job_sets"] for position in job_set]
    assert positions == list(range(len(plan["moves"])))
    assert plan["transition"]["left"] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_super_command_writes_states_before_and_after(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    """-S writes the states before and after the plan as readable text files.

    -p prints nodes to stderr.
    """
    path, saved = written(tmp_path, uneven()), tmp_path / "saved"
    assert main([command, path, "-S", str(saved), "-p", "--print-instances"]) == 0
    output = capsys.readouterr().err
    assert output.index("Initial") < output.index("Final")
    again = json_of(command, "-t", f"{saved}.planned")
    if command == "redistribute":
        assert again["reason"] == "no group is unhealthy"
    assert (tmp_path / "saved.original").read_text() != (tmp_path / "saved.planned").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_super_command_runs_on_a_simulated_cluster(command: str) -> None:
    """A command between groups plans no moves for an empty simulated cluster, and reports that."""
    groups = ["--simulate=preferred,3,100G,16g,4"] * 2
    plan = json_of(command, *groups)
    assert plan["moves"] == []
    assert plan["reason"]


@pytest.mark.parametrize("command", COMMANDS)
def test_super_command_ends_when_time_is_up(command: str, tmp_path: Path) -> None:
    """Without time, a command between groups makes no move and ends with status 3 (incomplete)."""
    plan = json_of(command, "--time-limit=0", written(tmp_path, uneven()), status=3)
    assert (plan["moves"], plan["reason"]) == ([], "time is up")


def test_super_command_rejects_an_unknown_node(tmp_path: Path, capsys: Capture) -> None:
    """A command between groups rejects an option --offline that names no node of the cluster."""
    assert main(["redistribute", "-O", "node99", written(tmp_path, uneven())]) == 2
    assert "--offline: unknown node node99" in capsys.readouterr().err


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int, asked: str = "relocate") -> None:
    """Let the method `asked` of the mover stop as after Ctrl-C, from call `after` + 1 on."""
    find, count = getattr(Mover, asked), iter(range(after))

    def interrupt(mover: Mover, *rest: object) -> object:
        if next(count, None) is None:
            raise Stopped(SIGNALLED)
        return find(mover, *rest)

    monkeypatch.setattr(Mover, asked, interrupt)


def test_redistribute_interrupted_keeps_the_repaired_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C, `redistribute` keeps finished repairs.

    The unfinished group keeps all its instances.
    """
    document = uneven()
    document["instances"] |= {f"w{k}": on_shared("node5", memory=512) for k in range(3)}
    document["nodes"]["node5"]["offline"] = True
    interrupted(monkeypatch, after=3)
    plan = json_of("redistribute", written(tmp_path, document), status=130)
    assert [move["instance"] for move in plan["moves"]] == ["i0"]
    groups = by_group(plan)
    assert (groups["east"]["repaired"], groups["west"]["repaired"]) == (True, False)
    assert groups["west"]["reason"].endswith("interrupted")


def test_compress_interrupted_keeps_the_group_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C, `compress` chooses the best group tried so far."""
    document = uneven()
    document["instances"]["s"] = on_shared("node8", memory=512)
    interrupted(monkeypatch, after=2, asked="way")
    plan = json_of("compress", written(tmp_path, document), status=130)
    assert (plan["evacuable_groups"], plan["chosen_group"]) == (["south"], "south")
    east = by_group(plan)["east"]
    reported = (east["reason"], east["verdict"])
    assert reported == ("the plan ended while it was tried", "undecided")


def test_balance_groups_interrupted_keeps_the_moves_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C, `balance-groups` prints the moves made so far as a verified plan."""
    interrupted(monkeypatch, after=2)
    path = written(tmp_path, uneven())
    plan = json_of("balance-groups", "--verify-plan", path, status=130)
    assert (len(plan["moves"]), plan["reason"]) == (2, "interrupted")
