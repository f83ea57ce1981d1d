"""Test that pages check global N+1 of each group by the mode of the group's tag."""

from __future__ import annotations

import re

import pytest

from tests.builders import cluster

from .conftest import Write

COMMANDS = (
    ("report", 1), ("check", 1), ("repair", 2), ("balance --all-groups", 2),
    ("capacity --disk-template=plain", 2),
)  # fmt: skip
"""Commands with a page, and how often the page shows failures."""


@pytest.mark.parametrize(("command", "states"), COMMANDS)
def test_page_group_with_its_own_mode_is_checked_by_it(
    command: str, states: int, write: Write
) -> None:
    """A page does not analyse failures of the group with the tag ``iallocator:n1:off``."""
    document = cluster({"home": 2, "away": 2})
    document["nodegroups"]["uuid-away"]["tags"] = ["iallocator:n1:off"]
    name, *options = command.split()
    text = write(name, document, *options).read_text()
    section = re.search(r'<section id="failures".*?</section>', text, re.DOTALL)
    assert section
    assert section[0].count("not checked") == 2 * states
    assert section[0].count(">tolerated<") == 2 * states
