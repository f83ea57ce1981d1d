"""Test that the verifier checks N+1 without the code that planners use for it."""

from __future__ import annotations

from .imports import imports, sources

VERIFIER = ("planners.verify", "planners.outcome", "planners.restarts")

STAGES = {
    "batched_simulation", "bounds", "comparison", "counting", "failure_watch", "pools",
    "simulation", "simulation_arrays", "slots", "tolerance", "unrestarted",
}  # fmt: skip
"""The modules of `n1` in which planners check N+1; an error in one of them must not pass a plan."""


def test_verifier_imports_no_stage_of_the_planners_checks() -> None:
    """Its modules, and those of `n1` that it needs, do not import such code, not even lazily."""
    modules = sources()
    waiting = [f"iallocator.{name}" for name in VERIFIER]
    assert set(waiting) <= modules.keys()
    stages = {f"iallocator.n1.{name}" for name in STAGES}
    wrong = []
    seen = set(waiting)
    while waiting:
        module = waiting.pop()
        for found in imports():
            if found.module != module or found.typing:
                continue
            if found.imported in stages:
                wrong.append(str(found))
            elif found.imported.startswith("iallocator.n1.") and found.imported not in seen:
                seen.add(found.imported)
                waiting.append(found.imported)
    assert "iallocator.n1.exact" in seen
    assert not wrong, "\n".join(wrong)
