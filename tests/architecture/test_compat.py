"""Test that deviations of ``--compat`` are named facts, not comparisons with a program's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from iallocator.compat import OURS, Behaviour
from iallocator.compat.hail import HailBehaviour

from .imports import nodes

READS_OPTION = {
    "iallocator.compat": "is about it",
    "iallocator.compat.htools.backend": "programs of htools behave as htools",
    "iallocator.compat.htools.hail": "programs of htools behave as htools",
    "iallocator.explain.explain": "writes the settings down",
    "iallocator.options.settings": "gives the behaviour",
    "iallocator.commands.planner_options": "its machine-readable form is hcheck's",
    "iallocator.commands.show": "config says where a value comes from",
}
"""Modules that may read the value of the option."""


def _names() -> Iterator[tuple[str, str]]:
    """Yield module, and every name, attribute, argument and keyword in it."""
    for module, node in nodes():
        if isinstance(node, ast.Name):
            yield module, node.id
        elif isinstance(node, ast.Attribute):
            yield module, node.attr
        elif isinstance(node, (ast.arg, ast.keyword)):
            yield module, node.arg or ""


def test_compat_is_read_only_by_permitted_modules() -> None:
    """Only permitted modules read the value of ``--compat``; others read a named deviation."""
    wrong = {
        f"{module}: {name}"
        for module, name in _names()
        if name.startswith("like_h") or (name == "compat" and module not in READS_OPTION)
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_every_deviation_is_used() -> None:
    """Every deviation is read by some code."""
    asked = {name for module, name in _names() if not module.startswith("iallocator.compat")}
    assert {name for name in vars(Behaviour) if not name.startswith("_")} <= asked


def test_behaviour_of_hail_differs_in_every_listed_deviation() -> None:
    """The behaviour of hail differs from the default in every listed deviation."""
    output = {
        name: value for name, value in vars(HailBehaviour).items() if not name.startswith("_")
    }
    assert output
    assert all(getattr(OURS, name) != value for name, value in output.items())
