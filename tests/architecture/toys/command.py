"""Follow the recipes for a planner and a command in ARCHITECTURE.md with a toy of one move."""

from __future__ import annotations

from . import Changes, Toy

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

from iallocator.planners import shift as planner

__all__ = ["shift"]


def shift(command, deadline):
    """Plan a move."""
    return planner.shift(command.source.cluster, command.effective, deadline)
'''

PLACES: Changes = {
    ("iallocator/planners/shift/__init__.py", ""): ("", PLANNER),
    ("iallocator/commands/shift.py", ""): ("", COMMAND),
    ("iallocator/commands/__init__.py", "COMMANDS"): (
        '    "show": Row(\n',
        '    "shift": Row(PLAN, "one instance moved to another node", PLANNER_MODULE, "shift",'
        ' "plan", states=PLANNED),\n<ANCHOR>',
    ),
    ("iallocator/commands/planner_options.py", "Balance"): (
        "class Balance(Planning, Balancing, Steady):\n",
        'class Shift(Planning):\n    """``iallocator shift``: one instance is moved."""'
        "\n\n\n<ANCHOR>",
    ),
    ("iallocator/commands/usage.py", "USAGE"): (
        '    "show": Usage(\n',
        '    "shift": Usage("", PLAN_FAILED, (Example("shift -", "Move one."),) * 2),\n<ANCHOR>',
    ),
    ("iallocator/commands/common_options.py", "PLANNERS"): (
        'PLANNERS = (\n    frozenset({"capacity",',
        'PLANNERS = (\n    frozenset({"shift", "capacity",',
    ),
}

TOY = Toy(
    "command",
    "command_paths.py",
    PLACES,
    most_files=6,
    phrases=[
        ("planner", "A package in `iallocator/planners/`"),
        ("command", "in a module of `iallocator/commands/`"),
    ],
)


def without_checks() -> Toy:
    """Return the toy with a planner that checks no limit."""
    planner = PLANNER.replace("evaluator.check(move) is None", "True")
    places = {**PLACES, ("iallocator/planners/shift/__init__.py", ""): ("", planner)}
    return Toy(TOY.recipe, TOY.script, places, TOY.most_files)
