"""Test that only a few modules use the kernel directly; all others ask an evaluator."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .imports import nodes

QUESTIONS = {
    "singles", "pairs", "secondaries", "secondary_rejections", "checker", "primary_rejection",
    "secondary_rejection", "failing_primary", "failing_secondary",
}  # fmt: skip
"""Methods of kernels that decide where instances can be."""

MAKERS = {"Kernels", "ScalarKernel", "ArrayKernel"}
"""Functions that create kernels."""

MAY_ASK = {
    "scoring": "it is the kernel",
    "n1": "simulates failures by hard limits",
    "placement": "the evaluator, and what makes kernels for it",
    "compat.htools.first_fit": "takes the first node that the limits allow, as hroller",
    "planners.balance.colocation_groups": "asks for scores only, of states after several moves",
    "planners.balance.compound_moves": "asks for scores only, of states after several moves",
    "planners.capacity": "fills a cluster with equal instances, thousands at a time",
    "planners.restarts": "the simulation of the verifier, by hard limits; scores order the nodes",
}
"""Package or module -> why it may use the kernel."""


def _asks() -> Iterator[tuple[str, int]]:
    """Yield module and line of each call of a kernel, and of each construction of one."""
    for module, node in nodes():
        if not isinstance(node, ast.Call):
            continue
        named = isinstance(node.func, ast.Name) and node.func.id in MAKERS
        if named or (isinstance(node.func, ast.Attribute) and node.func.attr in QUESTIONS):
            yield module.removeprefix("iallocator."), node.lineno


def _entry(module: str) -> str:
    """Return the entry of the table that applies to `module`; "" if there is none."""
    return next((one for one in MAY_ASK if module == one or module.startswith(one + ".")), "")


def test_kernel_is_used_only_where_the_table_permits() -> None:
    """Only modules in the table use the kernel; others ask an evaluator."""
    wrong = [f"{module}:{line} asks the kernel" for module, line in _asks() if not _entry(module)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("entry", MAY_ASK)
def test_every_entry_of_the_table_uses_the_kernel(entry: str) -> None:
    """Every module in the table uses the kernel."""
    assert entry in {_entry(module) for module, _ in _asks()}
