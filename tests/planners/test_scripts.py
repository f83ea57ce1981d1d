"""Test that the commands, jobs and job sets of every planner match its transition."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.ganeti.commands import step_command
from iallocator.ganeti.jobs import job_sets
from iallocator.model.cluster import Cluster, Group, Node
from iallocator.transition.paths import chain, stopping
from iallocator.transition.resources import Place
from iallocator.transition.step import FENCE, POWER_OFF, TAG, Step
from tests.builders import Json
from tests.conformance.documents import document
from tests.model.make import instance, policy
from tests.seeds import seeds

from .hsqueeze import standby_cluster, text_cluster
from .intergroup.scenarios import random_super_cluster
from .intergroup.test_commands import uneven

PLANNERS = {
    "balance": ("--all-groups",),
    "squeeze": ("--all",),
    "place": ("--strategy=pacemaker-balanced", "--exact-search=no"),
    "redistribute": (),
    "compress": ("--exact-search=no",),
    "balance-groups": (),
}
VERBS = {
    "migrate": "gnt-instance migrate", "failover": "gnt-instance failover",
    "replace-disks": "gnt-instance replace-disks", "start": "gnt-instance startup",
    "stop": "gnt-instance shutdown", "drain": "gnt-node modify --drained=yes",
    "offline": "gnt-node modify --offline=yes", "online": "gnt-node modify --offline=no",
    "power-on": "gnt-node power -f on", "power-off": "gnt-node power -f off",
    "tag": "gnt-node add-tags", "untag": "gnt-node remove-tags",
}  # fmt: skip


def of_line(line: str, steps: list[Json]) -> Json | None:
    """Return the first of `steps` that the command `line` executes; None if there is none."""
    for step in steps:
        name = step.get("instance") or step["node"]
        words = re.split(r"\s+", line.strip())
        by_hand = "by hand" in line and f"{step['kind']} {name}" in line
        if by_hand or (line.strip().startswith(VERBS.get(step["kind"], "?")) and name in words):
            return step
    return None


def documents(folder: Path) -> list[list[str]]:
    """Return options that name generated clusters, one list for each cluster."""
    found = []
    for number, raw in enumerate([uneven(), *map(random_super_cluster, seeds(1, 3))]):
        path = folder / f"groups{number}.json"
        path.write_text(json.dumps(raw))
        found.append([str(path)])
    for seed in seeds(1, 4):
        path = folder / f"{seed}.json"
        path.write_text(json.dumps(document(seed, ("relocate", "node-evacuate")[seed % 2])))
        found.append([str(path)])
        for name, text in (("full", text_cluster(seed)), ("standby", standby_cluster(seed))):
            path = folder / f"{name}{seed}.data"
            path.write_text(text)
            found.append(["-t", str(path)])
    return found


@pytest.mark.parametrize("command", PLANNERS)
def test_script_of_a_planner_has_the_steps_of_the_transition_in_a_legal_order(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script of a planner has each step in one line, below the steps it depends on."""
    compared = 0
    for options in documents(tmp_path):
        script = tmp_path / "script"
        if main([command, "--json", f"-C{script}", *PLANNERS[command], *options]):
            capsys.readouterr()
            continue
        steps = json.loads(capsys.readouterr().out)["transition"]["steps"]
        waiting = list(steps)
        done: set[int] = set()
        for line in script.read_text().splitlines():
            if re.match(r"\s*(#|set|echo job)", line):
                continue
            step = of_line(line, [one for one in waiting if set(one["depends_on"]) <= done])
            assert step is not None, (options, line)
            waiting.remove(step)
            done.add(step["number"])
        assert not waiting, options
        compared += len(steps)
    assert compared > 1


@pytest.mark.parametrize("command", PLANNERS)
def test_job_sets_of_a_planner_can_be_executed_one_after_the_other(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job sets of a planner have each move once, from where earlier moves left the instance."""
    for options in documents(tmp_path):
        if main([command, "--json", *PLANNERS[command], *options]):
            capsys.readouterr()
            continue
        plan = json.loads(capsys.readouterr().out)
        where: dict[str, list[str]] = {}
        positions = [position for one in plan["job_sets"] for position in one]
        assert sorted(positions) == list(range(len(plan["moves"])))
        for move in (plan["moves"][position] for position in positions):
            assert where.setdefault(move["instance"], move["from"]) == move["from"]
            where[move["instance"]] = move["to"]
        ends = {s["instance"]: s["to"] for s in plan["transition"]["steps"] if s.get("to")}
        assert all(ends[name] == nodes for name, nodes in where.items()), options


def two_nodes(program: str | None = None, first: str = "node1") -> Cluster:
    """Return a cluster of two nodes without instances; `program` switches the nodes' power."""
    group = Group(0, "uuid", "default", policy())
    nodes = [Node(name, group) for name in (first, "node2")]
    for node in nodes:
        node.oob_program = program
    return Cluster("cluster.example.com", (), [group], nodes, [])


def test_command_with_a_name_like_an_option_separates_it() -> None:
    """A command has ``--`` before a name that looks like an option."""
    cluster = two_nodes(first="-n")
    one = instance("rbd", name="-f", nodes=(1,))
    (step,) = chain(one, Place((1,), True), [("failover_to", 0)], cluster)
    assert step_command(step, cluster) == "gnt-instance migrate -f -n -n -- -f"
    (stop,) = stopping(one, Place((1,), True))
    assert step_command(stop, cluster) == "gnt-instance shutdown -- -f"
    tag = Step(TAG, node=0, tags=("a b",))
    assert step_command(tag, cluster) == "gnt-node add-tags -- -n 'a b'"


def test_command_off_an_offline_node_is_a_failover() -> None:
    """A command to move an instance off an offline node is a failover, not a migration."""
    cluster = two_nodes()
    cluster.nodes[0].offline, cluster.nodes[0].online = True, False
    one = instance("rbd", name="web", nodes=(0,))
    (step,) = chain(one, Place((0,), True), [("failover_to", 1)], cluster)
    assert step_command(step, cluster) == "gnt-instance failover -f -n node2 web"


@pytest.mark.parametrize(
    ("program", "power", "fence"), [(None, True, False), ("", False, False), ("/oob", True, True)]
)
def test_command_for_power_is_by_hand_without_an_out_of_band_program(
    program: str | None, power: bool, fence: bool
) -> None:
    """Without a program for power control, fencing is left to the administrator."""
    cluster = two_nodes(program)
    for kind, known in ((POWER_OFF, power), (FENCE, fence)):
        line = step_command(Step(kind, node=0), cluster)
        by_hand = f"echo 'by hand, then press Enter: {kind} node1' && read -r answer"
        assert line == ("gnt-node power -f off node1" if known else by_hand)


# Moves in job sets.


def test_job_sets_of_moves_without_common_nodes_are_one() -> None:
    """Moves without common nodes are in one job set."""
    assert job_sets([{1, 2}, {3, 4}, {5}]) == [[0, 1, 2]]


def test_move_to_a_busy_node_begins_a_new_job_set() -> None:
    """A move with a node that the job set already uses begins a new job set."""
    assert job_sets([{1, 2}, {3}, {2, 4}, {1}]) == [[0, 1], [2, 3]]


def test_job_sets_keep_the_order_of_moves() -> None:
    """A later move is never in an earlier job set, even if its nodes are unused there."""
    assert job_sets([{1}, {1}, {9}]) == [[0], [1, 2]]


def test_job_sets_of_no_moves_are_none() -> None:
    """An empty plan has no job sets."""
    assert job_sets([]) == []
