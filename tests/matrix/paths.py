"""Define the paths of the matrix: all ways to select the nodes of an instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.builders import Json

from . import entry_points, planners, requests, rescues, running, shown
from .scenarios import DRBD, PAIR, PLAIN, SHARED, Scenario

__all__ = ["PATHS", "STRATEGIES", "Path"]


@dataclass(frozen=True)
class Path:
    """A column of the matrix: a type of request or a planner, which places the tested instance.

    Attributes
    ----------
    name:
        The name in the table.
    kinds:
        The kinds of tested instances that the path accepts, the usual kind first.
    between:
        Whether it chooses between groups.
    build:
        Return the scenario for a kind, with `best` and `next` in one group or in two.
    ask:
        Return the answer or the plan for a scenario.
    read:
        Return the nodes of the tested instance in the answer, primary first; [] if none.
    batch:
        Whether it accepts several instances.
    options:
        The options of the command line.
    checks_n1:
        Whether global N+1 has effect.
    shown:
        Whether it decides nothing, and only its output depends on the feature.
    forced:
        Whether the tested instance need not move to `next`: it does not fit, or may stay.
    """

    name: str
    kinds: tuple[str, ...]
    between: bool
    build: Callable[[str, bool], Scenario]
    ask: Callable[[Scenario], Json] = requests.respond
    read: Callable[[Scenario, Json], list[str]] = requests.read_homes
    batch: bool = False
    options: tuple[str, ...] = ()
    forced: bool = False
    checks_n1: bool = False
    shown: bool = False

    def homes(self, scenario: Scenario) -> list[str]:
        """Return the nodes of the tested instance, primary first; [] if none."""
        return self.read(scenario, self.ask(scenario))

    def scenario(self, kind: str, split: bool) -> Scenario:
        """Return the scenario of this path for a kind of tested instance, without the request."""
        scenario = self.build(kind, split)
        scenario.options += self.options
        if split:  # `best` is alone in its group, and no other node could take over from it
            scenario.disable_n1()
        return scenario


REQUESTS = [
    Path("allocate", (SHARED, PLAIN, PAIR), True, requests.allocate, checks_n1=True),
    Path(
        "multi-allocate",
        (SHARED, PLAIN, PAIR),
        True,
        requests.multi_allocate,
        batch=True,
        checks_n1=True,
    ),
    Path("allocate-secondary", (DRBD,), False, requests.allocate_secondary, checks_n1=True),
    Path("relocate", (SHARED, DRBD), False, requests.relocate),
    Path("evacuate primary-only", (SHARED,), False, requests.evacuate("primary-only"), batch=True),
    Path(
        "evacuate secondary-only", (DRBD,), False, requests.evacuate("secondary-only"), batch=True
    ),
    Path("evacuate all", (SHARED, PAIR), False, requests.evacuate("all"), batch=True),
    Path("change-group", (SHARED, PAIR), True, requests.change_group, batch=True, checks_n1=True),
    Path("multi-evacuate", (DRBD,), False, requests.multi_evacuate),
]


def _under(path: Path, strategy: str) -> Path:
    """Return a copy of `path` with another strategy."""
    options = (*path.options, f"--strategy={strategy}")
    return replace(path, name=f"{path.name}, {strategy}", options=options)


STRATEGIES = ("pacemaker-balanced", "affinity")

SEARCHES = [
    Path("exact search", (SHARED, PLAIN), True, planners.exact, forced=True, checks_n1=True),
    Path("exact search of moves", (SHARED,), False, planners.exact_moves, forced=True),
    Path(
        "--optimal",
        (SHARED, PLAIN),
        True,
        requests.multi_allocate,
        batch=True,
        checks_n1=True,
        options=("--optimal",),
    ),
    Path(
        "--top",
        (SHARED, PLAIN, PAIR),
        True,
        requests.allocate,
        read=requests.read_top,
        checks_n1=True,
        options=("--top=9",),
    ),
]

PLACING = planners.asking("place", "--strategy=pacemaker-balanced")


def _plan(
    name: str,
    kinds: tuple[str, ...],
    build: Callable[[str, bool], Scenario],
    *words: str,
    between: bool = False,
    forced: bool = False,
) -> Path:
    """Return the path of a planner; its command is `words`, or its name."""
    ask = planners.asking(*(words or (name,)))
    return Path(
        name, kinds, between, build, ask, planners.read_moves, checks_n1=True, forced=forced
    )


PLANNERS = [
    _plan("balance", (SHARED, DRBD), planners.balance),
    Path("balance --steady", (SHARED,), False, planners.steady, planners.ask_steady,
         planners.read_moves, checks_n1=True),
    _plan("swap", (SHARED,), planners.swap, "balance", forced=True),
    _plan("--cost", (SHARED, DRBD), planners.balance, "balance", "--cost=100"),
    _plan("squeeze down", (SHARED,), planners.squeeze_down, "squeeze"),
    _plan("squeeze up", (SHARED,), planners.squeeze_up, "squeeze", forced=True),
    _plan("squeeze exact", (SHARED,), planners.squeeze_exact, "squeeze", forced=True),
    _plan("squeeze --optimal", (SHARED,), planners.squeeze_exact, "squeeze", "--optimal",
          forced=True),
    *(
        Path(name, (kind,), False, planners.reboot, planners.ask_reboot, planners.read_moves,
             checks_n1=True)
        for name, kind in (("reboot", SHARED), ("reboot with drbd", DRBD))
    ),
    *(
        _plan(name, (kind,), planners.maintain, "maintain")
        for name, kind in (("maintain", SHARED), ("maintain with drbd", DRBD))
    ),
    *(
        Path(name, (kind,), False, planners.repair, planners.ask_repair, planners.read_repair,
             checks_n1=checks_n1)
        for name, kind, checks_n1 in (
            ("repair of secondaries", DRBD, False), ("repair anew", PLAIN, True)
        )
    ),
    *(
        Path(name, (kind,), False, planners.rescue, planners.ask_rescue, planners.read_moves,
             forced=True)
        for name, kind in (("rescue", SHARED), ("rescue of secondaries", DRBD))
    ),
    _plan("redistribute", (SHARED,), planners.redistribute, between=True, forced=True),
    _plan("compress", (SHARED,), planners.compress, between=True),
    *(
        _plan(f"{name} --optimal", (SHARED,), build, name, "--optimal", between=True, forced=forced)
        for name, build, forced in (
            ("redistribute", planners.redistribute, True), ("compress", planners.compress, False)
        )
    ),
    _plan("balance-groups", (SHARED,), planners.balance_groups, between=True, forced=True),
    Path("capacity", (SHARED, PLAIN), True, planners.capacity, planners.ask_capacity,
         planners.read_capacity, checks_n1=True),
    Path("capacity --optimal", (SHARED, PLAIN), True, planners.capacity, planners.ask_capacity,
         planners.read_capacity, checks_n1=True, options=("--optimal",)),
    Path("capacity --add-nodes", (SHARED, PLAIN), False, planners.capacity, planners.ask_purchase,
         planners.read_capacity, checks_n1=True),
    Path("capacity --forecast", (SHARED, PLAIN), False, planners.capacity, planners.ask_trend,
         planners.read_capacity, checks_n1=True),
    Path("place", (SHARED,), False, planners.place, PLACING, planners.read_placement, forced=True,
         checks_n1=True),
    Path("place --optimal", (SHARED,), False, planners.place, PLACING, planners.read_placement,
         forced=True, checks_n1=True, options=("--optimal",)),
    Path("detours", (SHARED,), False, planners.detour, PLACING, planners.read_detour),
]  # fmt: skip

ENTRY_POINTS = [
    Path(name, (SHARED, PLAIN, PAIR), True, requests.allocate, ask, checks_n1=True)
    for name, ask in {
        "ask": entry_points.ask,
        "snapshot": entry_points.snapshot,
        "--log and --capture": entry_points.captured,
        "configuration file": entry_points.configured,
    }.items()
]


def _in_group(path: Path, group: str) -> Path:
    """Return a copy of `path` that is restricted to one group."""
    options = (*path.options, f"--group={group}")
    between = path.between and group != "default"
    return replace(path, name=f"{path.name}, --group", between=between, options=options)


GROUPED = [
    _in_group(path, "home" if path.name == "compress" else "default")
    for path in (*ENTRY_POINTS, *PLANNERS)
    if path.name in ("ask", "capacity", "compress", "place")
]

RESCUES = [
    Path("live execution", (SHARED, DRBD), False, planners.balance, running.ask_executed,
         running.read_executed, checks_n1=True),
    Path("undo", (SHARED, DRBD), False, rescues.moved_away, rescues.ask_undo,
         planners.read_moves, checks_n1=True, forced=True),
    Path("make-room", (SHARED,), False, rescues.make_room, rescues.ask_make_room,
         planners.read_moves, checks_n1=True, forced=True),
    Path("check --failures", (SHARED,), False, rescues.failures, rescues.ask_failures,
         rescues.read_tolerated, forced=True),
    Path("check --racks", (SHARED,), False, rescues.racks, rescues.ask_failures,
         rescues.read_tolerated, forced=True),
    Path("capacity --replay", (SHARED, PLAIN), False, rescues.forecast, rescues.ask_forecast,
         rescues.read_forecast, forced=True),
]  # fmt: skip

SHOWN = [
    Path("show", (SHARED, DRBD), True, shown.cluster, shown.show, shown=True),
    Path("report and --html", (SHARED, DRBD), True, shown.cluster, shown.report, shown=True),
]

PATHS: dict[str, Path] = {
    path.name: path
    for path in [
        *REQUESTS,
        *[_under(path, name) for name in STRATEGIES for path in REQUESTS],
        *SEARCHES,
        *PLANNERS,
        *ENTRY_POINTS,
        *GROUPED,
        *RESCUES,
        *SHOWN,
    ]
}
"""Name -> path, in the order of the table."""
