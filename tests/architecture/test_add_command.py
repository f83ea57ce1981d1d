"""Follow the recipes for a planner and a command in ARCHITECTURE.md with a toy of one move."""

from __future__ import annotations

from pathlib import Path

import pytest

from .toys import Place, assert_follows, copy_with, recipe, run_paths

PLANNER = '''"""Move the first instance that can move to the first other node that accepts it."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.model.moves import FAILOVER_TO, Move
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.planners.plan import PlanEntry
from iallocator.planners.result import PlanResult
from iallocator.scoring.scalar import score_of

__all__ = ["shift"]


def shift(cluster, settings, deadline):
    """Return a plan of at most one move."""
    done = PlanResult("shift", State(cluster))
    context = Context(cluster, settings, deadline=deadline)
    scope = range(len(cluster.nodes))
    done.plan.before = score_of(context.state, scope)
    for instance in cluster.instances:
        evaluator = context.evaluator(cluster.nodes[instance.nodes[0]].group)
        for node in (one.index for one in cluster.nodes if one.online):
            check()
            move = Move.by_steps(instance, instance.nodes, [(FAILOVER_TO, node)])
            if node not in instance.nodes and evaluator.check(move) is None:
                move.apply(context.state)
                done.add([PlanEntry(move, score_of(context.state, scope))])
                return done
    done.plan.reason = "no instance can move"
    return done
'''

COMMAND = '''"""The command ``iallocator shift``."""

from __future__ import annotations

from iallocator.commands.planning import PlanCommand
from iallocator.planners.shift import shift

__all__ = ["Shift"]


class Shift(PlanCommand):
    """Plans a move."""

    def planner(self, source, settings, deadline):
        """Plan the move."""
        return shift(source.cluster, settings, deadline)
'''

TOY: dict[Place, tuple[str, str]] = {
    ("iallocator/planners/shift/__init__.py", ""): ("", PLANNER),
    ("iallocator/commands/shift.py", ""): ("", COMMAND),
    ("iallocator/commands/__init__.py", "COMMANDS"): (
        '    "show": Row("a cluster as it is',
        '    "shift": Row("one instance moved to another node", PLANNERS),\n<ANCHOR>',
    ),
    ("iallocator/commands/planner_options.py", "Balance"): (
        "class Balance(Planning, Balancing):\n",
        'class Shift(Planning):\n    """``iallocator shift``: one instance is moved."""'
        "\n\n\n<ANCHOR>",
    ),
    ("iallocator/commands/common_options.py", "PLANNERS"): (
        'frozenset({"capacity", "make-room", "place", "reboot",',
        'frozenset({"shift", "capacity", "make-room", "place", "reboot",',
    ),
}


def test_toy_planner_has_all_that_planners_have(tmp_path: Path) -> None:
    """Table, document, script, page, drawing, N+1, the check of its plan, help, execution."""
    done = run_paths(copy_with(tmp_path, TOY), "toy_command_paths.py")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("left_out", TOY, ids=": ".join)
def test_toy_planner_without_one_entry_of_the_recipe_fails(left_out: Place, tmp_path: Path) -> None:
    """Each entry of the recipe is needed."""
    assert run_paths(copy_with(tmp_path, TOY, left_out), "toy_command_paths.py").returncode != 0


def test_plan_of_a_toy_planner_that_breaks_a_limit_is_rejected(tmp_path: Path) -> None:
    """The check of every plan does not depend on the planner."""
    careless = PLANNER.replace("evaluator.check(move) is None", "True")
    toy = {**TOY, ("iallocator/planners/shift/__init__.py", ""): ("", careless)}
    done = run_paths(copy_with(tmp_path, toy), "toy_command_paths.py")
    assert done.returncode != 0
    assert "tight" in done.stderr, done.stderr[-3000:]


def test_toy_planner_follows_the_recipes() -> None:
    """The recipes name each place that the toy changes, and where the new modules lie."""
    assert_follows({place: TOY[place] for place in TOY if place[1]}, "command")
    assert "A package in `iallocator/planners/`" in recipe("planner")
    assert "in a module of `iallocator/commands/`" in recipe("command")
