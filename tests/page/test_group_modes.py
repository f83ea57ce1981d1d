"""Test that pages check global N+1 of each group by the mode that its tag names."""

from __future__ import annotations

import re

import pytest

from tests.builders import cluster

from .conftest import Write

COMMANDS = (
    ("report", 1), ("check", 1), ("repair", 2), ("balance --all-groups", 2),
    ("capacity --disk-template=plain", 2),
)  # fmt: skip
"""Commands, and at how many states their pages show failures."""


@pytest.mark.parametrize(("command", "states"), COMMANDS)
def test_page_group_with_its_own_mode_is_checked_by_it(
    command: str, states: int, write: Write
) -> None:
    """Only the failures of the group without the tag ``iallocator:n1:off`` are analysed."""
    document = cluster({"home": 2, "away": 2})
    document["nodegroups"]["uuid-away"]["tags"] = ["iallocator:n1:off"]
    name, *options = command.split()
    text = write(name, document, *options).read_text()
    section = re.search(r'<section id="failures".*?</section>', text, re.DOTALL)
    assert section
    assert section[0].count("not checked") == 2 * states
    assert section[0].count(">tolerated<") == 2 * states
