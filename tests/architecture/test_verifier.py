"""Test that the verifier checks plans without the code that planners use to find them."""

from __future__ import annotations

from collections.abc import Iterable

from .imports import imports, sources

VERIFIER = ("planners.verify", "planners.outcome", "planners.restarts")

STAGES = {
    "batched_simulation", "bounds", "comparison", "counting", "failure_watch", "pools",
    "simulation", "simulation_arrays", "slots", "tolerance", "unrestarted",
}  # fmt: skip
"""Modules of `n1` with which planners check N+1; the verifier must not use them."""


FAST = {
    "limits.fit_horizon", "scoring.incremental", "scoring.incremental_batch",
    "scoring.incremental_pairs", "scoring.least_spread", "scoring.proportional_statistics",
    "solver.optimum",
}  # fmt: skip
"""Other modules with bounds, counts and arrays, by which planners decide."""

PROPOSING = {"n1.exact", "scoring"}
"""Modules that only propose restarts, which the limits then accept or reject."""


def reached(starts: Iterable[str], without: Iterable[str] = ()) -> dict[str, str]:
    """Return each module that `starts` import, directly or not, with one that imports it.

    The imports of modules in `without` are not followed. Imports for types alone do not count.
    """
    modules = sources()
    by_module: dict[str, set[str]] = {}
    for one in imports():
        if not one.typing and one.imported in modules:
            by_module.setdefault(one.module, set()).add(one.imported)
    ends = {f"iallocator.{name}" for name in without}
    found = {f"iallocator.{name}": "" for name in starts}
    assert found.keys() | ends <= modules.keys()
    waiting = list(found)
    while waiting:
        module = waiting.pop()
        for imported in () if module in ends else by_module.get(module, ()):
            if imported not in found:
                found[imported] = module
                waiting.append(imported)
    return found


def test_verifier_reaches_no_fast_check_of_planners() -> None:
    """The verifier imports no check of N+1, bound or count of planners, also not indirectly."""
    found = reached(VERIFIER)
    forbidden = {f"iallocator.n1.{name}" for name in STAGES}
    forbidden |= {f"iallocator.{name}" for name in FAST}
    assert forbidden <= sources().keys()
    assert "iallocator.n1.exact" in found
    wrong = [f"{name}, by {found[name]}" for name in sorted(forbidden & found.keys())]
    assert not wrong, "\n".join(wrong)


def test_verifier_uses_arrays_and_packing_only_to_propose_restarts() -> None:
    """The verifier uses arrays and packing only for proposing restarts."""
    found = reached(VERIFIER, without=PROPOSING)
    wrong = [
        f"{name}, by {by}"
        for name, by in found.items()
        if name.startswith(("iallocator.solver", "iallocator.packing", "iallocator.scoring.array"))
    ]
    assert not wrong, "\n".join(wrong)
