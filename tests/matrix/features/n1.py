"""Define features of global N+1: each mode, and states of instances that affect it."""

from __future__ import annotations

from collections.abc import Iterator

from tests import builders
from tests.builders import Json
from tests.matrix.scenarios import (
    BEST,
    DRBD,
    HELD,
    KEEPER,
    MEMORY,
    NEXT,
    PAIR,
    SHARED,
    SPARE,
    Scenario,
)

from .shared import only_best_can_rescue
from .table import FAILS_OVER, HERE, feature


def _mode(scenario: Scenario, mode: str, before: str) -> Iterator[None]:
    """Change the N+1 mode to `mode`; only the node `best` can restart an instance."""
    only_best_can_rescue(scenario)
    scenario.options.append(f"--n1={before}")
    yield
    scenario.options[-1] = f"--n1={mode}"


@feature("N+1 no-new")
def n1_no_new(scenario: Scenario) -> Iterator[None]:
    """Set N+1 to `no-new`; with the tested instance on `best`, a failure is no longer tolerated."""
    yield from _mode(scenario, "no-new", before="off")


@feature("N+1 no-worse")
def n1_no_worse(scenario: Scenario) -> Iterator[None]:
    """Set N+1 to `no-worse`; the tested instance on `best` makes a failure lose more."""
    yield from _mode(scenario, "no-worse", before="off")


@feature("N+1 off", expect=HERE)
def n1_off(scenario: Scenario) -> Iterator[None]:
    """Set N+1 to `off`, so that failures have no effect."""
    yield from _mode(scenario, "off", before="no-new")


@feature("N+1 strict", nowhere=True)
def n1_strict(scenario: Scenario) -> Iterator[None]:
    """Set N+1 to `strict`; the failure of some other node is not tolerated."""
    if scenario.request:
        scenario.document["nodegroups"]["uuid-doomed"] = builders.group(
            "doomed", alloc_policy="unallocable"
        )
        scenario.document["nodes"]["doomed"] = builders.node("doomed")
        scenario.add("lost", "doomed", disk_template="plain")
    else:
        home = scenario.node(BEST)["group"].removeprefix("uuid-")
        scenario.document["nodes"]["doomed"] = builders.node(home, memory=40000)
        scenario.add("lost", "doomed", disk_template="plain", memory=39000, auto_balance=False)
    scenario.options.append("--n1=no-new")
    yield
    scenario.options[-1] = "--n1=strict"


def _reserved_on_best(scenario: Scenario) -> Json:
    """Add a large instance with a secondary that reserves all free memory of the node `best`."""
    scenario.disable_n1()
    size = MEMORY[BEST] - HELD[BEST] - 256
    near = scenario.kind != DRBD and scenario.group_of(NEXT) is scenario.group_of(BEST)
    home, other = (NEXT, KEEPER) if near else (KEEPER, NEXT)
    if SPARE in scenario.document["nodes"]:
        scenario.node(SPARE)["drained"] = scenario.kind != PAIR
    scenario.node(home)["total_memory"] += size
    for number in range(1 if near else 2):
        scenario.add(f"another-{number}", home, other, disk_template="drbd", memory=0)
    return scenario.add("mirrored", home, BEST, disk_template="drbd", memory=size)


@feature("auto_balance off", expect=HERE)
def auto_balance_off(scenario: Scenario) -> Iterator[None]:
    """Clear auto-balancing of an instance, so that no memory is reserved for it."""
    held = _reserved_on_best(scenario)
    yield
    held["auto_balance"] = False


@feature("admin_state offline", expect=HERE)
def admin_offline(scenario: Scenario) -> Iterator[None]:
    """Mark an instance offline, so that no memory is reserved for it."""
    held = _reserved_on_best(scenario)
    yield
    held["admin_state"] = "offline"


@feature("not running", (SHARED, PAIR), expect=FAILS_OVER)
def not_running(scenario: Scenario) -> Iterator[None]:
    """Stop the tested instance, so that it cannot be migrated."""
    yield
    scenario.subject["admin_state"] = "down"
