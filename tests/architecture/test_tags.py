"""Tags are read in few places: everything else asks what they mean."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .imports import nodes

MAY_READ = {
    "tags": "what this program's own tags mean",
    "constraints": "likewise, of instances",
    "wire": "documents are read there, storage pools by tags too",
    "sources": "text files are read and written there",
    "model.tags": "tags of clusters that give meaning to those of nodes and instances",
    "model.cluster": "where tags are kept",
    "model.instance": "where tags are kept",
    "settings": "settings may be tags",
    "engine": "asks whether any setting is a tag, to leave `settings` unloaded",
    "transition.step": "tags to be added or removed are steps",
    "ganeti.opcodes": "and opcodes",
    "ganeti.jobs": "and entries",
    "ganeti.commands": "and commands",
    "planners.check.overview": "says which there are",
    "planners.reboot.reboot": "an option names tags of nodes",
    "documents.overview": "likewise",
    "documents.lists": "a column of that name",
    "placement.several.joint": "instances with the same tags can be exchanged, whatever these mean",
    "placement.several.optimal": "likewise",
}
"""Module or package -> why it may read tags."""


def _reads() -> Iterator[tuple[str, int]]:
    """Module and line of every attribute ``tags`` in the package."""
    for module, node in nodes():
        if isinstance(node, ast.Attribute) and node.attr == "tags":
            yield module.removeprefix("iallocator."), node.lineno


def _reader(module: str) -> str:
    """Return the entry of the table that `module` falls under, or ""."""
    package = module.partition(".")[0]
    return next((name for name in (module, package) if name in MAY_READ), "")


def test_tags_are_read_only_where_the_table_says() -> None:
    """Handlers, planners and strategies consult constraints and no tag directly."""
    wrong = [f"{module}:{line} reads tags" for module, line in _reads() if not _reader(module)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("entry", MAY_READ)
def test_every_reader_in_the_table_reads_tags(entry: str) -> None:
    """A module that no longer reads tags is not in the table."""
    assert entry in {_reader(module) for module, _ in _reads()}
