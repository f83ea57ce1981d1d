"""Compare details of the programs of htools with the originals: N+1, loads, reasons, formats."""

from __future__ import annotations

import json
import shutil
from random import Random

import pytest

from tests.seeds import seeds

from .command_lines import Case, tight_request
from .htools import ours, theirs

installed = pytest.mark.skipif(shutil.which("hbal") is None, reason="htools are not installed")


def full_node(free: int, secondary: int, primary: int) -> str:
    """Return a cluster with a node that has this `free` memory.

    `secondary` and `primary`: the memory of an instance in this role there; 0: no instance.
    """
    instances = [
        f"i1|{secondary}|10|1|running|Y|n2|n1|drbd||1|-" if secondary else "",
        f"i2|{primary}|10|1|running|Y|n1|n3|drbd||1|-" if primary else "",
    ]
    if not any(instances):
        instances = ["i3|10|10|1|running|Y|n3|n2|drbd||1|-"]
    rows = [
        f"n1|2000|{2000 - free - primary}|{free}|1000|1000|4|N|u|1||N|0|1|1.0",
        f"n2|1000|0|{1000 - secondary}|1000|1000|4|N|u|1||N|0|1|1.0",
        "n3|1000|0|1000|1000|1000|4|N|u|1||N|0|1|1.0",
    ]
    lines = "\n".join(filter(None, instances))
    return "\n".join(["g|u|preferred||", "", *rows, "", lines, "", "", ""])


@installed
@pytest.mark.parametrize("free", [-100, 0, 100])
@pytest.mark.parametrize("held", [(0, 0), (0, 100), (50, 0), (100, 100), (150, 100)])
@pytest.mark.parametrize(
    "words",
    [
        "hcheck", "hbal -vvvv", "hinfo -v", "hspace -vvvv", "hspace -vvvv --independent-groups",
        "hspace -vvvv --accept-existing-errors",
    ],
)  # fmt: skip
def test_full_node_passes_n1_as_with_the_original(
    words: str, free: int, held: tuple[int, int]
) -> None:
    """Without a reserve, no free memory is needed. The bad nodes and groups are listed."""
    program, *options = words.split()
    one = Case(program, ("-t", "c.data", *options), {"c.data": full_node(free, *held)})
    assert ours(one) == theirs(one)


@installed
def test_only_nodes_that_pass_n1_are_checked_for_the_policy() -> None:
    """Hbal prints no number of nodes above a ratio if they fail N+1."""
    rows = "n1|1000|0|0|1000|1000|1|N|u|1||N|0|1|1.0\nn2|1000|0|1000|1000|1000|4|N|u|1||N|0|1|1.0"
    lines = "i1|500|10|5|running|Y|n1|n2|drbd||1|-\ni2|500|10|5|running|Y|n2|n1|drbd||1|-"
    text = f"g|u|preferred||\n\n{rows}\n\n{lines}\n\n\n"
    one = Case("hbal", ("-t", "c.data", "-vvvv"), {"c.data": text})
    assert "Bad nodes" in theirs(one).out
    assert ours(one) == theirs(one)


LONG_NAMES = """g|u|preferred||

n1.ex.com|2000|0|1000|1000|1000|4|N|u|1||N|0|1|1.0
n2.ex.com|2000|0|1000|1000|1000|4|N|u|1||N|0|1|1.0
n3.ex.com|2000|0|2000|1000|1000|4|N|u|1||N|0|1|1.0

i1.ex.com|500|10|1|running|Y|n1.ex.com|n2.ex.com|drbd||1|-
i2.ex.com|500|10|1|running|Y|n1.ex.com|n2.ex.com|drbd||1|-
i3.ex.com|1000|10|1|running|Y|n2.ex.com|n3.ex.com|drbd||1|-


"""


@installed
@pytest.mark.parametrize("program", ["hbal -v -v", "hcheck"])
@pytest.mark.parametrize(
    "loads",
    [
        "i1.ex.com 5 1 1 1\n", "i1 5 1 1 1\n", "i1.ex 5 1 1 1\n", "\n", "\n\n", "",
        "i1.ex.com 5 1 1 1\ni1.ex.com 7 1 1 1\n", "i1.ex.com NaN 1 1 1\n",
    ],
)  # fmt: skip
def test_loads_are_those_of_whole_names(program: str, loads: str) -> None:
    """Short names have no effect, and an empty line is an error."""
    name, *options = program.split()
    files = {"c.data": LONG_NAMES, "loads": loads}
    one = Case(name, ("-t", "c.data", "-U", "loads", *options), files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("kind", ["relocate", "node-evacuate", "change-group"])
def test_hail_words_its_reasons_as_the_original(kind: str) -> None:
    """The reason of each node, of the last pair of nodes, and of missing groups is equal."""
    for seed in seeds(12, 200):
        text = json.dumps(tight_request(Random(f"tight/{kind}/{seed}"), kind))
        one = Case("hail", ("request.json",), {"request.json": text})
        assert ours(one) == theirs(one), seed
