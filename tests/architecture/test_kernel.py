"""Whether an instance may be somewhere is asked of an evaluator: few others ask the kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .imports import sources

QUESTIONS = {
    "singles", "pairs", "secondaries", "mirror_refusals", "checker", "primary_refusal",
    "secondary_refusal", "failing_primary", "failing_secondary",
}  # fmt: skip
"""Methods of kernels that say who may be where."""

MAKERS = {"Kernels", "ScalarKernel", "ArrayKernel"}
"""What makes kernels."""

MAY_ASK = {
    "scoring": "it is the kernel",
    "n1": "plays failures through, by hard limits",
    "placement": "the evaluator, and what makes kernels for it",
    "planners.capacity": "fills a cluster with equal instances, thousands at a time",
}
"""Room or module -> why it may."""

TO_BE_TAKEN_OVER = {
    "explain.record.what_if": "numbers of every limit of a node; a verdict has the first only",
    "planners.balance.units": "scores after several moves, by one kernel that is kept up to date",
    "planners.balance.unit_steps": "limits of each step; a balance has no context for evaluators",
    "planners.intergroup.ranking": "all groups in one pass; an evaluator is of one group",
    "planners.squeeze.exact": "nodes to be freed are offline then, yet nobody's move is forced",
}
"""Those who still do, and why: to be made shorter, never longer."""


def _asks() -> Iterator[tuple[str, int]]:
    """Module and line of every question to a kernel, and of everything that makes one."""
    for module, path in sources().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            named = isinstance(node.func, ast.Name) and node.func.id in MAKERS
            if named or (isinstance(node.func, ast.Attribute) and node.func.attr in QUESTIONS):
                yield module.removeprefix("iallocator."), node.lineno


def _entry(module: str) -> str:
    """The entry of either table that `module` falls under, or ""."""
    entries = (*MAY_ASK, *TO_BE_TAKEN_OVER)
    return next((one for one in entries if module == one or module.startswith(one + ".")), "")


def test_kernel_is_asked_only_where_the_tables_say() -> None:
    """Handlers, constraints, strategies and planners ask an evaluator."""
    wrong = [f"{module}:{line} asks the kernel" for module, line in _asks() if not _entry(module)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("entry", [*MAY_ASK, *TO_BE_TAKEN_OVER])
def test_every_entry_of_the_tables_asks_the_kernel(entry: str) -> None:
    """Who does not any more does not stay in the tables."""
    assert entry in {_entry(module) for module, _ in _asks()}
