"""Compare details of the programs of htools with those of htools: N+1, loads, reasons, formats."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from benchmarks import clusters
from benchmarks.clusters import Shape, as_text
from iallocator.compat.htools.programs import PROGRAMS
from tests.seeds import seeds

from . import oracle
from .command_lines import OPTIONS, SHORT, Case, case, cluster_text, tight_request
from .documents import document
from .htools import LAUNCHER, ours, theirs

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
    """Programs find the nodes and groups that violate N+1 as htools do.

    A node without a reserve needs no free memory.
    """
    program, *options = words.split()
    one = Case(program, ("-t", "c.data", *options), {"c.data": full_node(free, *held)})
    assert ours(one) == theirs(one)


@installed
def test_only_nodes_that_pass_n1_are_checked_for_the_policy() -> None:
    """`hcheck` checks the ratios of a policy only on nodes that pass N+1, as htools do."""
    rows = "n1|1000|0|0|1000|1000|1|N|u|1||N|0|1|1.0\nn2|1000|0|1000|1000|1000|4|N|u|1||N|0|1|1.0"
    lines = "i1|500|10|5|running|Y|n1|n2|drbd||1|-\ni2|500|10|5|running|Y|n2|n1|drbd||1|-"
    text = f"g|u|preferred||\n\n{rows}\n\n{lines}\n\n\n"
    one = Case("hbal", ("-t", "c.data", "-vvvv"), {"c.data": text})
    assert "Bad nodes" in theirs(one).out
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("down", ["N", "Y"])
@pytest.mark.parametrize("options", ["", "--no-instance-moves", "--ignore-soft-errors"])
@pytest.mark.parametrize("free", [99, 100, 101])
def test_primary_fails_n1_at_equality_once_a_secondary_is_replaced(
    free: int, options: str, down: str
) -> None:
    """`hbal` decides as htools do whether a node with just the reserved memory free fails N+1.

    The result changes when an instance of the node gets another secondary.
    """
    rows = [
        f"n1|1000|{900 - free}|{free}|1000|800|4|N|u|1||N|0|1|1.0",
        f"n2|1000|0|900|1000|700|4|{down}|u|1||N|0|1|1.0",
        "n3|1000|0|1000|1000|1000|4|N|u|1||N|0|1|1.0",
    ]
    lines = [
        "i1|100|100|1|running|Y|n1|n2|drbd||1|-",
        "i2|100|100|1|running|Y|n2|n1|drbd||1|-",
        "i3|10|100|1|running|Y|n2|n3|drbd||1|-",
    ]
    text = "\n".join(["g|u|preferred||", "", *rows, "", *lines, "", "", ""])
    arguments = ("-t", "c.data", "--select-instances", "i1", *options.split())
    one = Case("hbal", arguments, {"c.data": text})
    assert ours(one) == theirs(one)


ROLLING = """g|u|preferred||

n1|16384|512|13312|204800|179200|8|M|u|1|red|N|0|1|1.0
n2|16384|512|13312|204800|179200|8|N|u|1||N|0|1|1.0
n3|16384|512|15872|204800|184320|8|N|u|1|red|N|0|1|1.0
n4|16384|512|15872|204800|204800|8|N|u|1||N|0|1|1.0
n5|16384|512|15872|204800|204800|8|N|u|1|red|N|0|1|1.0

i0|512|5120|1|running|Y|n1|n3|drbd||1|-
i1|512|5120|1|running|Y|n2||plain||1|-
i2|512|5120|1|running|Y|n1||plain||1|-
i3|512|5120|1|running|Y|n2|n3|drbd||1|-
i4|512|5120|1|running|Y|n1||plain||1|-
i5|512|5120|1|running|Y|n4||rbd||1|-
i6|512|5120|1|running|Y|n1|n3|drbd||1|-
i7|512|5120|1|running|Y|n2||plain||1|-
i8|512|5120|1|running|Y|n1||plain||1|-
i9|512|5120|1|running|Y|n2|n3|drbd||1|-


"""


@installed
@pytest.mark.parametrize("options", ["", "--full-evacuation", "--offline-maintenance"])
@pytest.mark.parametrize(
    "words",
    ["", "-O n2", "-O n4", "-O n2 -O n4", "--node-tags red", "--node-tags red -O n3",
     "--one-step-only -O n2", "--skip-non-redundant", "--ignore-non-redundant -O n4"],
)  # fmt: skip
def test_moves_of_reboots_are_those_of_the_original(words: str, options: str) -> None:
    """`hroller` also drains nodes between those that it reboots; with `--full-evacuation` twice."""
    one = Case(
        "hroller", ("-t", "c.data", "--print-moves", *words.split(), *options.split()),
        {"c.data": ROLLING},
    )  # fmt: skip
    assert ours(one) == theirs(one)


PLAIN = """g|u|preferred||

n1|2000|0|1000|1000|700|4|N|u|1||N|0|1|1.0
n2|2000|0|1900|1000|700|4|N|u|1||N|0|1|1.0
n3|2000|0|2000|1000|1000|4|N|u|1||N|0|1|1.0

i1|500|100|1|running|Y|n1|n2|drbd||1|-
i2|500|100|1|running|Y|n1|n2|drbd||1|-
i3|100|100|1|running|Y|n2|n1|drbd||1|-


|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd|4.0|32.0
g|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd|4.0|32.0
"""


@installed
@pytest.mark.parametrize("words", ["hbal -C -p", "hinfo -v -v", "hcheck", "hroller -f"])
@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"), f"\ufeff{PLAIN}", PLAIN.replace("|1.0\n", "|1.0 \n"),
        PLAIN.replace("i1|", "ì1|"),
        PLAIN.replace("i1|", "i-ß²٣|"), PLAIN.replace("\n\n", "\ng|v|preferred||\n\n", 1),
        PLAIN.removesuffix("\n"), f"{PLAIN}\n\nmore\n",
        PLAIN.replace("n1|2000|0|1000|", "n1|?|x|y|").replace("i3|100", "i3|?"),
    ],
    ids=["dos", "bom", "blank at end", "letters", "digits", "twice", "cut", "more", "unknown"],
)  # fmt: skip
def test_unusual_text_is_read_as_by_the_original(words: str, text: str) -> None:
    """Programs accept and reject byte order marks, blanks, and ends of lines as htools do."""
    program, *options = words.split()
    one = Case(program, ("-t", "c.data", *options), {"c.data": text})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["-v", "-v -v", "-v -v -v"])
@pytest.mark.parametrize("kind", ["allocate", "relocate", "node-evacuate", "multi-allocate"])
def test_hail_prints_the_data_of_the_cluster_as_the_original(kind: str, words: str) -> None:
    """`hail -v -v` prints groups, nodes and instances with the values of htools."""
    for seed in seeds(4, 100):
        files = {"request.json": json.dumps(document(seed, kind))}
        one = Case("hail", (*words.split(), "request.json"), files)
        assert ours(one) == theirs(one), seed


@installed
@pytest.mark.parametrize(
    "words", ["-t c.data", "--simulate p,2,100g,16g,8 --simulate u,1,100g,16g,4,4,True"]
)
def test_hail_prints_the_data_of_another_cluster_as_the_original(words: str) -> None:
    """`hail -v -v` prints the cluster of a text file or of a simulation."""
    states = [
        "running", "ADMIN_down", "ADMIN_offline", "USER_down", "ERROR_up", "ERROR_down",
        "ERROR_wrongnode", "ERROR_nodedown", "ERROR_nodeoffline",
    ]  # fmt: skip
    lines = [f"j{k}|9|10|1|{state}|Y|n1||rbd||1|-" for k, state in enumerate(states)]
    text = PLAIN.replace("i3|100|", "\n".join([*lines, "i3|100|"]))
    files = {"c.data": text, "request.json": json.dumps(document(0, "allocate"))}
    one = Case("hail", ("-v", "-v", *words.split(), "request.json"), files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("spec", ["", "p", "p,2,1g,1g", "p,2,1g,1g,1,1,True,1", "p,2,,1g,1"])
def test_short_simulations_are_rejected_as_by_the_original(spec: str) -> None:
    """`hspace` counts the fields of a simulation as htools do: an empty text has none."""
    one = Case("hspace", ("--simulate", spec), {})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("program", ["hbal", "hinfo", "hspace", "hail"])
def test_text_that_is_not_utf8_is_reported_as_by_the_original(program: str, tmp_path: Path) -> None:
    """Programs name the file with an invalid byte sequence in the words of htools."""
    path = tmp_path / "c.data"
    path.write_bytes(PLAIN.replace("i1|", "ì1|").encode("latin-1"))
    request = [] if program != "hail" else ["request.json"]
    one = Case(
        program, ("-t", str(path), *request), {"request.json": json.dumps(document(0, "allocate"))}
    )
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["hbal -v -v -p --print-instances", "hbal", "hcheck", "hbal -C"])
@pytest.mark.parametrize(
    "loads", ["i1 Infinity 1 1 1\n", "i1 NaN 1 1 1\n", "i1 1e9 1 1 12345678.125\n"]
)
def test_extreme_loads_are_printed_as_by_the_original(words: str, loads: str) -> None:
    """With infinite and very large loads, hbal and hcheck write what htools write."""
    program, *options = words.split()
    files = {"c.data": PLAIN, "loads": loads}
    one = Case(program, ("-t", "c.data", "-U", "loads", *options), files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("ratios", ["4.0|32.0", "4.0|1.0", "0.5|32.0", "0.5|1.0"])
def test_node_policy_status_names_the_violated_ratio_as_the_original(ratios: str) -> None:
    """`hbal -vvvv` reports too many spindles before too many cpus, and both in hbal's words."""
    text = PLAIN.replace("4.0|32.0", ratios)
    one = Case("hbal", ("-t", "c.data", "-vvvv"), {"c.data": text})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["", "-v", "--mond-xen", "--ignore-dynu", "-t c.data"])
def test_hail_names_the_daemons_that_do_not_answer_as_the_original(words: str) -> None:
    """`hail --mond` reports each node without a monitoring daemon, before the answer."""
    request = json.dumps(document(0, "allocate"))
    files = {"c.data": PLAIN, "request.json": request}
    one = Case("hail", ("--mond", *words.split(), "request.json"), files)
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
    """Programs read loads by whole names of instances, and report an empty line as an error."""
    name, *options = program.split()
    files = {"c.data": LONG_NAMES, "loads": loads}
    one = Case(name, ("-t", "c.data", "-U", "loads", *options), files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("kind", ["relocate", "node-evacuate", "change-group"])
def test_hail_words_its_reasons_as_the_original(kind: str) -> None:
    """`hail` rejects a request with the reasons of htools, in their words.

    The reasons concern each node, the last pair of nodes, or missing groups.
    """
    for seed in seeds(12, 200):
        text = json.dumps(tight_request(Random(f"tight/{kind}/{seed}"), kind))
        one = Case("hail", ("request.json",), {"request.json": text})
        assert ours(one) == theirs(one), seed


SEVERAL = """\
g1|u1|preferred|t:a|net1,net2
empty|u0|last_resort||
g2|u2|last_resort||
g3|u3|unallocable||

n1.x.com|16384|512|8000|204800|100000|8|N|u1|4|rack:a,power:1|N|0|1|1.0
n2.x.com|16384|512|12000|204800|150000|8|M|u1|4|rack:b|N|0|1|1.0
n3.x.com|16384|512|15000|204800|200000|8|N|u1|4||N|0|1|1.0
n4.x.com|8192|512|7000|102400|100000|4|Y|u1|4|htools:standby:a|N|0|1|1.0
m1.x.com|8192|512|6000|102400|90000|4|N|u2|4||N|0|1|1.0
m2.x.com|8192|512|7680|102400|90000|4|N|u2|4||N|0|1|1.0
k1.x.com|8192|512|7680|102400|90000|4|N|u3|4||N|0|1|1.0

i1.x.com|2048|20000|2|running|Y|n1.x.com|n2.x.com|drbd|svc:web|1|-
i2.x.com|4096|30000|2|running|Y|n1.x.com|n3.x.com|drbd|svc:web|1|-
i3.x.com|1024|10000|1|ADMIN_down|Y|n2.x.com|n1.x.com|drbd||1|-
i4.x.com|1024|10000|1|ERROR_down|N|n2.x.com|n4.x.com|drbd||1|-
i5.x.com|512|10000|1|running|Y|n2.x.com||plain|svc:db|1|-
j1.x.com|512|10000|1|running|Y|m1.x.com|m2.x.com|drbd||1|-
j2.x.com|1024|1000|1|running|Y|m1.x.com||rbd||1|-

htools:iextags:svc
htools:nlocation:power

|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,rbd|4.0|32.0
g1|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,rbd|4.0|32.0
empty|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,rbd|4.0|32.0
g2|128,1,1024,1,1,1|128,1,1024,1,1,1;4096,4,1048576,16,8,12;64,1,1,1,1,1;65536,4,1048576,16,8,12|drbd,plain,rbd|2.0|32.0
g3|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd|4.0|32.0
"""
"""Groups with each allocation policy, one of them without nodes; a policy with two sizes."""


@installed
@pytest.mark.parametrize(
    "words",
    [
        "hcheck --machine-readable", "hcheck --machine-readable --no-simulation", "hcheck -q -q",
        "hinfo -q -q", "hinfo -q -q -q", "hinfo -pname,plist,slist,peermap,group",
        "hspace -pname,plist,slist,peermap", "hspace --disk-template drbd -p -v", "hbal",
        "hbal -G nothing", "hbal -G empty", "hbal -G g1 -pname,plist,slist,peermap -C",
        "hbal -G u2 --select-instances= -v", "hbal -G g1 --exclusion-tags=", "hroller -f",
        "hroller -f --node-tags=", "hspace --independent-groups -vvvv",
        "hspace -O n1 -O n2 -O n3 -O m1 -O m2 -O k1 --machine-readable",
    ],
)  # fmt: skip
def test_several_groups_are_printed_as_by_the_original(words: str) -> None:
    """Programs print several groups as htools do.

    Groups without nodes keep their numbers. Lists of instances and nodes have positions.
    """
    program, *options = words.split()
    one = Case(program, ("-t", "c.data", *options), {"c.data": SEVERAL})
    assert ours(one) == theirs(one)


@installed
def test_uuid_with_a_hyphen_is_quoted_as_by_the_original() -> None:
    """Machine-readable output quotes values with characters besides letters, digits and dots."""
    text = SEVERAL.replace("empty|u0|", "empty|u-0_x.y|").replace("|u1|", "|u_1|")
    one = Case("hcheck", ("-t", "c.data", "--machine-readable"), {"c.data": text})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    "words",
    [
        "", "--disk-template drbd", "--disk-template plain -p", "--machine-readable",
        "--disk-template drbd --spindle-use 2 -v -v", "-S saved",
        "--simulate u,3,200g,32g,16,4,False --disk-template plain",
    ],
)  # fmt: skip
def test_simulated_exclusive_storage_has_no_free_spindles_as_with_the_original(words: str) -> None:
    """Instances with disks do not fit on simulated exclusive storage, as in htools."""
    small = ("--tiered-alloc", "2g,512,1")  # from the default size on, htools take a minute
    options = ("--simulate", "p,4,100g,16g,8,4,True", *small, *words.split())
    one = Case("hspace", options, {})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["p,1,1g,1g,8", "p,2,1g,1g,8 -O node-01-001 -O node-01-002"])
@pytest.mark.parametrize("template", ["drbd", "plain"])
def test_too_few_nodes_are_reported_as_by_the_original(words: str, template: str) -> None:
    """Programs report too few nodes as htools do: an instance with a secondary requires two."""
    options = ("--simulate", *words.split(), "--disk-template", template)
    one = Case("hspace", options, {})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("number", [710072, 710082])
def test_hsqueeze_divides_moves_into_sets_as_the_original(number: int) -> None:
    """`hsqueeze` divides moves into sets of jobs as htools do; the last set is the largest."""
    one = case(number, "hsqueeze")._replace(arguments=("-t", "cluster.data", "-C", "-v"))
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("ratio", ["1000000000.0", "0.05", "12345678.5", "32"])
def test_ratios_of_policies_are_written_as_by_the_original(ratio: str) -> None:
    """Ratios of policies are printed as by htools.

    Very large and very small ratios have an exponent.
    """
    text = SEVERAL.replace("|drbd,plain,rbd|4.0|32.0", f"|drbd,plain,rbd|4.0|{ratio}")
    one = Case("hbal", ("-t", "c.data", "-G", "g1", "-S", "saved", "-v", "-v"), {"c.data": text})
    assert ours(one) == theirs(one)


def alike_nodes(seed: int) -> str:
    """Return a cluster of equal nodes with few sizes of instances: many scores are equal."""
    rng = Random(f"alike nodes/{seed}")
    count, template = rng.randint(3, 12), rng.choice(["drbd", "drbd", "rbd"])
    sizes = rng.choice([[(1024, 51200)], [(1024, 51200), (2048, 10240)], [(512, 1000), (3000, 77)]])
    free, disk, instances = [16384] * count, [409600] * count, ""
    for number in range(rng.randint(count // 2, 3 * count)):
        memory, space = rng.choice(sizes)
        first, second = rng.sample(range(count), 2)
        free[first] -= memory
        mirror = ""
        if template == "drbd":
            mirror = f"n{second:02}"
            disk[first] -= space
            disk[second] -= space
        instances += (
            f"i{number:02}|{memory}|{space}|1|running|Y|n{first:02}|{mirror}|{template}||1|-\n"
        )
    nodes = "".join(
        f"n{k:02}|16384|0|{free[k]}|409600|{disk[k]}|16|N|u|1||N|0|1|1.0\n" for k in range(count)
    )
    return f"g|u|preferred||\n\n{nodes}\n{instances}\n\n"


@installed
@pytest.mark.parametrize("seed", [2, 11, 16, 20, 30])
def test_hbal_chooses_between_equal_scores_as_the_original(seed: int) -> None:
    """Of moves with scores that differ by rounding only, `hbal` makes that of htools."""
    one = Case("hbal", ("-t", "c.data", "-l", "8"), {"c.data": alike_nodes(seed)})
    assert ours(one) == theirs(one)


@installed
def test_hbal_prints_sums_after_commands_as_the_original() -> None:
    """`hbal -vvv -C` prints the free amounts after the commands, as htools do."""
    one = Case("hbal", ("-t", "c.data", "-vvv", "-C"), {"c.data": alike_nodes(2)})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    "status", ["running", "ERROR_up", "ERROR_down", "ERROR_nodedown", "ERROR_wrongnode"]
)
def test_commands_fail_over_instances_that_do_not_run_as_the_original(status: str) -> None:
    """`hbal -C` migrates instances that run, and fails others over, as htools do."""
    text = alike_nodes(2).replace("|running|", f"|{status}|")
    one = Case("hbal", ("-t", "c.data", "-C"), {"c.data": text})
    assert "gnt-instance" in theirs(one).out
    assert ours(one) == theirs(one)


MIGRATING = """g|u|preferred||

n1|16384|0|12288|90000|80000|8|M|u|1|kvm:1|N|0|1|1.0
n2|16384|0|15360|90000|80000|8|N|u|1||N|0|1|1.0
n3|2048|0|1024|90000|80000|8|N|u|1||N|0|1|1.0

i1|4096|1000|1|running|Y|n1||plain||1|-
i2|1024|1000|1|running|Y|n2|n3|drbd||1|-
i3|1024|1000|1|running|Y|n3|n2|drbd||1|-

htools:migration:kvm

"""
"""A node with a migration tag, and a node without memory for another instance."""


@installed
@pytest.mark.parametrize(
    "words",
    [
        "--print-moves", "-On2 -Ssaved", "-Ssaved -Gnothing", "-On3 -Ssaved -Gnothing", "-Onothing",
        "--full-evacuation --print-moves", "-vvv -On2",
        "--full-evacuation --ignore-non-redundant -vvv",
    ],
)  # fmt: skip
def test_hroller_moves_and_fails_as_the_original(words: str) -> None:
    """`hroller` ignores migration tags, and saves the cluster as read, as htools do.

    Its errors are those of htools.
    """
    one = Case("hroller", ("-t", "c.data", *words.split()), {"c.data": MIGRATING})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    "words", ["hbal -vv", "hinfo -p", "hinfo -q", "hspace -l1", "hcheck --machine-readable",
              "hinfo --static-kvm-node-memory=512", "hbal --exclude-instances=nothing",
              "hcheck -U loads"],
)  # fmt: skip
def test_cluster_of_a_message_is_read_as_by_the_original(words: str) -> None:
    """With -I, the cluster of an allocator message is read as by htools."""
    message = {**document(810046, "allocate"), "instances": {}}
    for number, node in enumerate(message["nodes"].values()):
        node["free_memory"] = node.get("total_memory", 0) - 1024 * number
    program, *options = words.split()
    files = {"r.json": json.dumps(message), "loads": "[1]"}
    one = Case(program, ("-I", "r.json", *options), files)
    assert ours(one) == theirs(one)


@installed
def test_hail_saves_new_instances_and_networks_in_the_order_of_the_original() -> None:
    """`hail -S` writes networks in the order of the message, and several new instances last."""
    for seed in seeds(3, 20):
        message = document(seed, "multi-allocate")
        for group in message["nodegroups"].values():
            group["networks"] = ["net-z", *group["networks"][::-1]]
        one = Case("hail", ("-Ssaved", "r.json"), {"r.json": json.dumps(message)})
        assert ours(one) == theirs(one), seed


@installed
@pytest.mark.parametrize("kind", ["allocate", "multi-allocate"])
def test_hail_reports_a_missing_network_as_the_original(kind: str) -> None:
    """`hail` reports that the only group lacks a network with the words of htools."""
    message = document(810015, kind)
    message["nodegroups"] = dict(list(message["nodegroups"].items())[:1])
    uuid = next(iter(message["nodegroups"]))
    for node in message["nodes"].values():
        node["group"] = uuid
    request = message["request"]
    for new in request["instances"] if kind == "multi-allocate" else [request]:
        new["nics"] = [{"mac": "aa:00:00:11:22:33", "ip": None, "network": "net-none"}]
    one = Case("hail", ("r.json",), {"r.json": json.dumps(message)})
    assert "not connected" in theirs(one).out
    assert ours(one) == theirs(one)


def drained_nodes(count: int, capacity: int) -> str:
    """Return a cluster of `count` nodes with two instances each, a small node, and a large one.

    `capacity`: how many of the instances fit on the small node.
    """
    rows = [f"n{k}|65536|2000|61536|90000|80000|8|N|u|1|t|N|0|1|1.0\n" for k in range(count)]
    free = 1000 * capacity + 500
    rows += [f"n8|65536|{65536 - free}|{free}|90000|80000|8|M|u|1||N|0|1|1.0\n"]
    rows += ["n9|65536|0|65536|90000|80000|8|N|u|1||N|0|1|1.0\n"]
    instances = "".join(
        f"i{k}|1000|1000|1|running|Y|n{k % count}||ext||1|-\n" for k in range(2 * count)
    )
    return f"g|u|preferred||\n\n{''.join(rows)}\n{instances}\n\n"


@installed
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_hroller_moves_instances_in_the_order_of_the_original(count: int) -> None:
    """`hroller` moves instances off several nodes in the order of htools.

    If the capacity does not suffice for all, the instances without a target are equal, too.
    """
    for capacity in range(1, 2 * count):
        files = {"c.data": drained_nodes(count, capacity)}
        for more in ([], ["--full-evacuation"]):
            words = ("-t", "c.data", "--node-tags=t", "--print-moves", *more)
            one = Case("hroller", words, files)
            assert "n8" in theirs(one).out
            assert ours(one) == theirs(one), capacity


@installed
@pytest.mark.parametrize("options", ["", "--print-moves", "--print-moves --full-evacuation"])
@pytest.mark.parametrize("number", seeds(12, 100))
def test_hroller_drains_nodes_one_after_the_other_as_the_original(
    number: int, options: str
) -> None:
    """`hroller` moves instances to nodes that it drains later, if they fit there.

    The instances without a secondary have different sizes, and the cluster is tight.
    """
    rng = Random(number)
    shape = Shape(
        rng.randint(4, 9), rng.choice(["plain", "rbd"]), per_node=rng.randint(1, 5),
        fullness=rng.uniform(0.3, 0.9), crowding=rng.choice([0, 0.5]), seed=number,
    )  # fmt: skip
    words = ("-t", "c.data", "--force", *options.split())
    one = Case("hroller", words, {"c.data": as_text(clusters.document(shape))})
    assert ours(one) == theirs(one)


@installed
def test_master_with_unknown_amounts_is_offline_as_with_the_original() -> None:
    """A node with "?" for an amount is offline, so it is no master node, as in htools."""
    text = drained_nodes(2, 1).replace("|90000|80000|8|M|", "|90000|?|8|M|")
    one = Case("hroller", ("-t", "c.data"), {"c.data": text})
    assert ours(one) == theirs(one)


@pytest.mark.parametrize("program", PROGRAMS)
def test_command_lines_have_every_option_of_a_program(program: str) -> None:
    """The generated command lines have each option of each program, long or short."""
    drawn = " ".join([*OPTIONS[program], "-t file", "-m address", "-I file", "--simulate spec"])
    drawn = drawn.replace("=", " ")
    missing = [
        name
        for name in PROGRAMS[program].split()
        if not any(
            word.startswith(SHORT.get(f"--{name}", "--")) or word == f"--{name}"
            for word in drawn.split()
            if not word.startswith("--") or word == f"--{name}"
        )
    ]
    assert missing == []


@installed
@pytest.mark.parametrize("option", ["-v", "--ignore-soft-errors"])
def test_hbal_reports_nodes_that_violate_the_policy_as_the_original(option: str) -> None:
    """`hbal` says how it continues if nodes exceed a ratio of the policy, as htools do."""
    text = alike_nodes(2).replace("|1|running|", "|90|running|")
    one = Case("hbal", ("-t", "c.data", "-l1", option), {"c.data": text})
    assert "policy-violating" in theirs(one).out
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["hbal -Ssaved", "hsqueeze -Ssaved", "hspace -Ssaved -l3"])
def test_changed_nodes_are_saved_without_free_spindles_as_by_the_original(words: str) -> None:
    """A saved file lacks the free spindles of nodes with other instances, as in htools."""
    program, *options = words.split()
    text = alike_nodes(2).replace("|N|0|1|1.0\n", "|N|7|1|1.0\n")
    one = Case(program, ("-t", "c.data", *options), {"c.data": text})
    assert any("|N|7|" in saved for saved in theirs(one).written.values())
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("status", ["running", "ERROR_up", "ERROR_down", "ERROR_wrongnode"])
def test_list_of_instances_marks_those_that_run_as_the_original(status: str) -> None:
    """`--print-instances` marks the instances that run, as htools do."""
    text = alike_nodes(2).replace("|running|", f"|{status}|", 2)
    one = Case("hinfo", ("-t", "c.data", "--print-instances"), {"c.data": text})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["hail -v", "hinfo -I"])
def test_repeated_member_is_read_without_a_remark_as_by_the_original(words: str) -> None:
    """A member that an object has twice is read without a remark, as by htools."""
    text = json.dumps({**document(1, "allocate"), "instances": {}})
    program, option = words.split()
    twice = text.replace('"version": 2', '"version": 2, "cluster_name": "other"', 1)
    assert twice != text
    one = Case(program, (option, "r.json"), {"r.json": twice})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    ("program", "number"),
    [
        ("hail", 710099), ("hail", 860025), ("hail", 860030), ("hail", 860044),
        ("hail", 860100), ("hail", 870064), ("hail", 870075), ("hail", 870099), ("hail", 880004),
        ("hail", 880036), ("hcheck", 870133),
        ("hroller", 860118), ("hinfo", 860028), ("hsqueeze", 860005), ("hsqueeze", 860098),
        ("hsqueeze", 870112),
    ],
)  # fmt: skip
def test_rare_command_line_gives_the_output_of_the_original(program: str, number: int) -> None:
    """Rare command lines have the output of htools.

    They are about full nodes without a reserve, groups without a rebooted node, the order of peers,
    the policy of a text file, an unreadable policy of the cluster, missing networks on dedicated
    clusters, numbers and groups of new instances, unknown instances in two options, instances that
    stay on offline nodes, plans for several groups, and names without the common domain.
    """
    one = case(number, program)
    assert ours(one) == theirs(one)


def reboots(states: str, pairs: str, free: str = "", disk: str = "") -> str:
    """Return a cluster of nodes n0, n1, ... with the `states` N, Y or M, and drbd instances.

    `pairs`: the nodes of each instance, "01 12". `free`, `disk`: the MiB that the last node has.
    """
    last = len(states) - 1
    nodes = "".join(
        f"n{k}|16384|0|{free if free and k == last else 16384}|204800|"
        f"{disk if disk and k == last else 194560}|8|{state}|u|1||N|0|1|1.0\n"
        for k, state in enumerate(states)
    )
    instances = "".join(
        f"i{k}|1024|10240|1|running|Y|n{pair[0]}|n{pair[1]}|drbd||1|-\n"
        for k, pair in enumerate(pairs.split())
    )
    return f"g|u|preferred||\n\n{nodes}\n{instances}\n\n"


@installed
@pytest.mark.parametrize(
    "text",
    [
        reboots("NYN", "12"), reboots("NYNY", "12"), reboots("NYYN", "13"), reboots("NYNN", "12"),
        reboots("MNNNN", "02 13"), reboots("NNNNN", "02 03 04 01"), reboots("NNNN", "03", "1024"),
        reboots("NNNN", "03", "1025"), reboots("NNNN", "03", disk="0"),
        reboots("NNNN", "03 13", "1500"), reboots("NNN", "02 02", "1500"),
        reboots("NNNN", "03", "1000").replace("running", "ADMIN_down"),
        reboots("NNNN", "03").replace("|1||N|0|1", "|4||Y|2|1"),
        reboots("NNNN", "03 12").replace("|1||N|0|1", "|4||Y|2|1").replace("1|-", "1|2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", ["--print-moves", "--offline-maintenance --print-moves"])
def test_full_evacuation_fails_over_all_nodes_first_as_the_original(text: str, words: str) -> None:
    """`hroller --full-evacuation` fails over all instances of a group of nodes, or reports an
    error; then it divides the group by secondaries, as htools do.
    """
    options = ("-t", "c.data", "-f", "--full-evacuation", *words.split())
    one = Case("hroller", options, {"c.data": text})
    assert ours(one) == theirs(one)


@installed
def test_full_evacuation_names_two_nodes_for_each_instance() -> None:
    """`hroller --full-evacuation` names both nodes of an instance; that of htools names one twice.

    The instance has an offline node and a drained one, from which another instance leaves.
    """
    options = ("-t", "c.data", "-f", "--full-evacuation", "--print-moves")
    one = Case("hroller", options, {"c.data": reboots("NYNNN", "12 20")})
    assert "  i0 n0 n0\n" in theirs(one).out
    assert "  i0 n2 n0\n" in ours(one).out


def offline_between(number: int) -> Case:
    """Return a call of hroller that drains online and offline nodes, with little free capacity."""
    rng = Random(f"offline between/{number}")
    count = rng.randint(2, 6)
    states = [rng.choice("NNY") for _ in range(count)]
    nodes = [
        f"n{k}|65536|0|40000|90000|80000|8|{state}|u|1|t|N|0|1|1.0\n"
        for k, state in enumerate(states)
    ]
    sizes = [rng.choice([500, 1000, 2000, 4000]) for _ in range(rng.randint(1, 9))]
    total = sum(sizes) + 500
    for k, free in enumerate((rng.randrange(0, total, 500), rng.randrange(0, total, 500), total)):
        master = "N" if k else "M"
        nodes.append(f"t{k}|65536|0|{free + 100}|90000|80000|8|{master}|u|1||N|0|1|1.0\n")
    instances = "".join(
        f"i{k}|{size}|1000|1|running|Y|n{rng.randrange(count)}||ext||1|-\n"
        for k, size in enumerate(sizes)
    )
    text = f"g|u|preferred||\n\n{''.join(nodes)}\n{instances}\n\n"
    return Case("hroller", ("-t", "c.data", "--node-tags=t", "--print-moves"), {"c.data": text})


@installed
def test_hroller_moves_instances_off_offline_nodes_in_the_order_of_the_original() -> None:
    """`hroller` moves instances off online and offline nodes in the order of htools."""
    for number in seeds(12, 100):
        one = offline_between(number)
        assert ours(one) == theirs(one), number


@installed
@pytest.mark.parametrize("template", ["ext", "drbd"])
@pytest.mark.parametrize("words", ["-v -v", "-p", "-Ssaved"])
def test_hspace_places_equal_instances_in_the_order_of_the_original(
    words: str, template: str
) -> None:
    """`hspace` chooses between places with equal scores as htools do, by rounding."""
    simulated = ("--simulate", "p,7,20g,4g,8", "--simulate", "p,3,40g,8g,4")
    one = Case("hspace", (*words.split(), "--disk-template", template, *simulated), {})
    assert ours(one) == theirs(one)
    for number in seeds(2, 40):
        text = cluster_text(Random(f"equal places/{number}"))
        options = ("-t", "c.data", *words.split(), "--disk-template", template)
        one = Case("hspace", options, {"c.data": text})
        assert ours(one) == theirs(one), number


@installed
@pytest.mark.parametrize("words", ["hbal -t", "hinfo --text-data", "hsqueeze -t"])
def test_text_file_of_a_pipe_is_read_once_as_by_the_original(words: str) -> None:
    """Programs read the text of a pipe, or report its first error, as those of htools do.

    ``-`` is the name of a file, not standard input.
    """
    program, option = words.split()
    for text in (
        PLAIN,
        PLAIN.replace("|4|N|u|", "|4|N|v|"),
        PLAIN.replace("|1.0\n", "|1.0 \n"),
        "",
    ):
        for path in ("/dev/stdin", "-"):
            command = [oracle.program(program), option, path]
            peer = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            command = [sys.executable, "-c", LAUNCHER, oracle.version(), program, option, path]
            own = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            assert (own.returncode, own.stdout, own.stderr) == (
                peer.returncode, peer.stdout, peer.stderr,
            )  # fmt: skip


@installed
@pytest.mark.parametrize(
    "source",
    ["-t nothing", "-t bad", "-L", "", "-t c.data -L", "-t c.data --mond --mond-data nothing",
     "-t c.data --mond --mond-data bad --select-instances nothing"],
)  # fmt: skip
@pytest.mark.parametrize("loads", ["i1 a 1 1 1\n", "i1 1 1 1\n", "i1 1 1 1 1\n", None])
def test_error_in_loads_is_reported_before_one_in_the_cluster_as_by_the_original(
    loads: str | None, source: str
) -> None:
    """`hbal -U` reads the loads before the cluster, but after the sources have been counted.

    The answers of monitoring daemons are read after the instances of the options are known.
    """
    files = {"c.data": PLAIN, "bad": PLAIN.replace("|u|", "|v|")}
    if loads is not None:
        files["loads"] = loads
    one = Case("hbal", (*source.split(), "-Uloads"), files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    "text", ["\n" * lines for lines in range(1, 6)] + ["g|u|preferred||\n\n\n\n"]
)
@pytest.mark.parametrize(
    "words",
    ["hbal -Ssaved -C -p", "hinfo -p --print-instances", "hcheck", "hcheck --no-simulation",
     "hcheck --machine-readable", "hspace", "hspace --machine-readable", "hsqueeze -v -C -Ssaved",
     "hsqueeze -X", "hroller -f"],
)  # fmt: skip
def test_cluster_without_nodes_is_read_as_by_the_original(words: str, text: str) -> None:
    """Programs read a file without nodes, or without groups, as htools do."""
    program, *options = words.split()
    one = Case(program, ("-t", "c.data", *options), {"c.data": text})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    "words",
    ["hinfo -tfile/x/y", "hbal -tc.data -Cfile/x", "hbal -tc.data -Sfile/x", "hbal -Ufile/x"],
)
def test_file_in_a_file_is_no_folder_as_with_the_original(words: str) -> None:
    """Programs report that a part of a path is no folder in the words of htools."""
    program, *options = words.split()
    one = Case(program, tuple(options), {"c.data": PLAIN, "file": ""})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("size", ["--standard-alloc", "--tiered-alloc"])
@pytest.mark.parametrize("limit", [5, 6, 7])
@pytest.mark.parametrize("template", ["rbd", "drbd", "diskless"])
def test_rejections_beyond_the_limit_are_those_of_the_original(
    template: str, limit: int, size: str
) -> None:
    """`hspace -l` counts no rejections by N+1 beyond the limit if all instances keep N+1."""
    words = ("--simulate", "p,3,100g,4g,4", "--disk-template", template, size, "10g,1g,1")
    one = Case("hspace", (*words, f"-l{limit}", "--machine-readable"), {})
    assert ours(one) == theirs(one)


BATCHES = """default|u|preferred||

n0|32768|0|15360|400000|400000|64|N|u|1||N|0|1|1.0
n1|24576|0|18432|400000|400000|64|N|u|1||N|0|1|1.0
n2|16384|0|11264|400000|400000|64|N|u|1||N|0|1|1.0

i0|2048|0|1|running|Y|n0||rbd||1|-
i1|3072|0|1|running|Y|n0||rbd||1|-
i2|3072|0|1|running|Y|n0||rbd||1|-
i3|2048|0|1|running|Y|n0||rbd||1|-
i4|1024|0|1|running|Y|n0||rbd||1|-
i5|4096|0|1|running|Y|n0||rbd||1|-
i6|2048|0|1|running|Y|n0||rbd||1|-
i7|3072|0|1|running|Y|n1||rbd||1|-
i8|3072|0|1|running|Y|n1||rbd||1|-
i9|2048|0|1|running|Y|n2||rbd||1|-
i10|3072|0|1|running|Y|n2||rbd||1|-


"""
"""A cluster that keeps N+1 with 41, 43 or 45 new instances of 256 MiB, but not with 40 or 42."""


@installed
@pytest.mark.parametrize("limit", [*range(38, 48), 100])
def test_n1_is_checked_after_batches_as_by_the_original(limit: int) -> None:
    """`hspace` checks N+1 for all instances, then for batches of 10, then for each, as htools."""
    sizes = ("--standard-alloc=1g,256,1", "--tiered-alloc=1g,1g,1", "--disk-template=rbd")
    options = ("-tc.data", *sizes, "--machine-readable", "-vvvv", f"-l{limit}")
    one = Case("hspace", options, {"c.data": BATCHES})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("number", [7301413, 7302236])
def test_size_of_which_only_a_batch_keeps_n1_is_placed_as_by_the_original(number: int) -> None:
    """`hspace` places a batch that keeps N+1 although its first instance does not, as htools."""
    one = case(number)
    assert one.program == "hspace"
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("more", ["", "--print-moves", "--full-evacuation --print-moves"])
def test_nodes_without_other_instances_are_left_out_as_by_the_original(more: str) -> None:
    """`hroller --skip-non-redundant --ignore-non-redundant` does both, as that of htools."""
    alone = "i4|100|100|1|running|Y|n4||plain||1|-\ni5|100|100|1|running|Y|n1||rbd||1|-\n"
    text = PLAIN.replace("\n\ni1|", "\nn4|2000|0|1900|1000|900|4|N|u|1||N|0|1|1.0\n\ni1|")
    text = text.replace("\n\n\n|128", f"\n{alone}\n\n|128")
    for words in (
        "--skip-non-redundant",
        "--ignore-non-redundant",
        "--skip-non-redundant --ignore-non-redundant",
    ):
        one = Case("hroller", ("-f", "-tc.data", *words.split(), *more.split()), {"c.data": text})
        assert ours(one) == theirs(one), words


@installed
@pytest.mark.parametrize(
    "nodes",
    [["node1", -1], [None, "node1"], [["n", "o"]], ["nothing", 1], ["node1", "nothing", 1], []],
)
def test_nodes_of_an_instance_are_checked_as_by_the_original(nodes: list[object]) -> None:
    """`hail` reads the first two nodes of an instance, one after the other, as that of htools."""
    message = document(1, "allocate")
    message["nodes"]["node1"] = next(iter(message["nodes"].values()))
    next(iter(message["instances"].values()))["nodes"] = nodes
    one = Case("hail", ("r.json",), {"r.json": json.dumps(message)})
    assert ours(one) == theirs(one)


@installed
def test_forthcoming_instances_are_not_listed_as_by_the_original() -> None:
    """`hail -p+plist,slist` lists no forthcoming instances, as that of htools."""
    message = document(1, "allocate")
    for one in message["instances"].values():
        one["forthcoming"] = True
    case_of = Case("hail", ("-p+plist,slist", "r.json"), {"r.json": json.dumps(message)})
    assert ours(case_of) == theirs(case_of)


@installed
@pytest.mark.parametrize(
    "words", ["-C -p --print-instances -Ssaved", "-Cscript", "-l0", "-vvvv", "-q"]
)
@pytest.mark.parametrize("kind", ["plain", "diskless", "drbd"])
def test_hbal_without_moves_prints_the_end_of_the_original(kind: str, words: str) -> None:
    """`hbal` prints and saves the same as the original if no instance can be moved, or none may."""
    text = PLAIN.replace("n2|drbd", f"|{kind}").replace("n1|drbd", f"|{kind}")
    if kind == "drbd":
        text = PLAIN.replace("|Y|n", "|N|n")  # not auto-balanced
    one = Case("hbal", ("-tc.data", *words.split()), {"c.data": text})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("key", ["mac", "ip", "mode", "link", "bridge", "network"])
def test_members_of_nics_are_checked_as_by_the_original(key: str) -> None:
    """`hail` rejects a member of a NIC that is no text in the words of htools."""
    message = document(1, "allocate")
    next(iter(message["instances"].values()))["nics"] = [{key: -3}]
    one = Case("hail", ("r.json",), {"r.json": json.dumps(message)})
    assert ours(one) == theirs(one)


@installed
def test_node_fields_are_read_in_the_order_of_the_original() -> None:
    """Programs report the first invalid number of a node in the order in which htools read them."""
    right = "n1|2000|0|1000|1000|700|4|N|u|1||N|0|1|1.0"
    for valid in range(12):
        fields = right.split("|")
        order = (1, 2, 3, 4, 5, 6, 13, 9, 14, 12, 11)
        for place in order[valid:]:
            fields[place] = f"wrong{place}"
        text = PLAIN.replace(right, "|".join(fields))
        one = Case("hinfo", ("-tc.data",), {"c.data": text})
        assert ours(one) == theirs(one), fields


@installed
@pytest.mark.parametrize("size", ["|;|", "||", "|1;2|", "|,;,|"])
def test_empty_sizes_of_policies_are_reported_as_by_the_original(size: str) -> None:
    """Programs report the parts of an invalid size in a policy as htools do."""
    for old in ("|128,1,1024,1,1,1;32768,8,1048576,16,8,12|", "|128,1,1024,1,1,1|"):
        one = Case("hinfo", ("-tc.data",), {"c.data": PLAIN.replace(old, size, 1)})
        peer, own = theirs(one), ours(one)
        if peer.status:  # htools read a policy without sizes
            assert own == peer, old


@installed
def test_negative_free_disk_is_rounded_down_as_by_the_original() -> None:
    """The list of nodes shows -1 GiB of free disk if a few MiB are missing, as that of htools."""
    text = PLAIN.replace("|1000|700|", "|1000|-3|").replace("|1000|1000|4|", "|1000|-2000|4|")
    one = Case("hinfo", ("-tc.data", "-p"), {"c.data": text})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    "words",
    ["-E-1 -tc.data", "-tc.data -v-quiet", "-E- -tc.data", "-tc.data -z-y -qC-", "-Eql3 -tc.data"],
)
def test_dash_after_a_bundled_option_begins_a_word_as_with_the_original(words: str) -> None:
    """In ``-E-quiet``, the characters after the first option are the long option ``--quiet``."""
    one = Case("hbal", tuple(words.split()), {"c.data": PLAIN})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["-tc.data", "-Lnothing", "", "-Inothing"])
def test_empty_address_of_rapi_is_no_source_as_with_the_original(words: str) -> None:
    """``--master ''`` is no source of the cluster."""
    one = Case("hbal", ("-m", "", *words.split()), {"c.data": PLAIN})
    assert ours(one) == theirs(one)


@installed
def test_hbal_saves_the_original_cluster_without_nodes_set_offline() -> None:
    """The file with the cluster before `hbal` does not have the effect of `-O`."""
    node = SEVERAL.split("\n\n")[1].splitlines()[0].partition("|")[0]
    one = Case("hbal", ("-t", "c.data", "-O", node, "-S", "saved"), {"c.data": SEVERAL})
    assert ours(one) == theirs(one)


@installed
def test_migration_tags_are_named_before_limits_as_by_the_original() -> None:
    """If a failover in an evacuation violates tags and a limit, the reason names the tags."""
    one = case(2600311, "hail")
    assert ours(one) == theirs(one)


CROWDED = """default|uuid-1|preferred||

node00|6144|0|5632|65536|60416|16|N|uuid-1|1||N|0|1|1.0
node01|8192|0|4096|65536|63488|16|N|uuid-1|1||N|0|1|1.0
node02|12288|0|12288|65536|64512|8|N|uuid-1|1||N|0|1|1.0
node03|12288|0|10240|65536|64512|16|N|uuid-1|1||N|0|1|1.0
node04|6144|0|5632|65536|19456|16|N|uuid-1|1||N|0|1|1.0
node05|6145|0|4097|65536|22528|4|N|uuid-1|1||N|0|1|1.0

inst0|4096|1024|4|running|Y|node01|node05|drbd||3|-
inst1|512|20480|4|running|Y|node04|node05|drbd||1|-
inst2|2048|1024|4|running|Y|node03|node01|drbd|web:a|3|-
inst3|512|20480|4|ADMIN_down|Y|node05|node04|drbd||3|-
inst4|2048|1024|1|running|Y|node05|node02|drbd|web:a|3|-
inst5|512|5120|2|running|Y|node00|node04|drbd||3|-

htools:iextags:web

"""
"""A cluster with little free disk on two nodes."""


@installed
@pytest.mark.parametrize(
    ("program", "words", "changes"),
    [
        ("hbal", "-C --first-job-group", {}),
        ("hbal", "-Cscript --first-job-group", {}),
        ("hbal", "", {"|1||N|0|1": "|2||Y|2|1"}),
        ("hbal", "-v -v", {"6145|0|4097": "6144|0|4096"}),
        ("hroller", "-f --full-evacuation --print-moves", {}),
        ("hroller", "-f --full-evacuation --offline-maintenance --print-moves", {}),
        ("hspace", "--accept-existing-errors --independent-groups", {"8192|0|4096": "8192|0|1"}),
        ("hspace", "-p+plist --standard-alloc=1024,1024,1", {}),
        ("hspace", "--max-cpu=NaN -q", {}),
        ("hspace", "--max-cpu=1e30", {}),
        ("hsqueeze", "-v", {"node05|drbd": "|file"}),
    ],
)
def test_crowded_cluster_gives_the_output_of_the_original(
    program: str, words: str, changes: dict[str, str]
) -> None:
    """On a nearly full cluster, the output is that of the original."""
    text = CROWDED
    for old, new in changes.items():
        text = text.replace(old, new)
    one = Case(program, ("-t", "c.data", *words.split()), {"c.data": text})
    assert ours(one) == theirs(one)


RESERVED = """default|uuid-1|preferred||

node00|4096|0|512|65536|26624|16|N|uuid-1|1||N|0|1|1.0
node01|2048|0|2048|65536|34816|4|N|uuid-1|1||N|0|1|1.0
node02|6144|0|4608|65536|16384|8|N|uuid-1|1||N|0|1|1.0

inst0|1024|5120|3|running|Y|node00|node01|drbd||1|-
inst1|1024|5120|2|ADMIN_offline|N|node00|node02|drbd||1|-
inst2|2048|5120|1|running|Y|node00|node01|drbd|web:a|1|-
inst4|512|1024|4|ADMIN_down|Y|node00|node02|drbd|web:a,db:x|3|-
inst6|512|20480|3|running|Y|node02|node00|drbd||2|-
inst8|1024|20480|2|ADMIN_down|Y|node02|node01|drbd||2|-


"""
"""A cluster in which balancing leaves a node with exactly the free memory that it reserves."""

NO_MEMORY = """default|uuid-1|preferred||

node04|2048|0|0|65536|64512|4|N|uuid-1|1||N|0|1|1.0

inst3|2048|1024|3|running|Y|node04||file||2|-


"""
"""A node without free memory and without a reserve."""


EXACT = """default|uuid-1|preferred||

node00|4096|0|3072|65536|39936|8|N|uuid-1|6|rack:a|N|0|0|2.0
node01|6144|0|2048|65536|65536|2|Y|uuid-1|12|rack:a,power:1|N|0|0|1.0
node02|4096|0|1024|65536|39936|4|N|uuid-1|8|rack:a|N|0|0|1.0

inst1|1024|20480|4|running|Y|node00|node02|drbd||1|-
inst5|1024|5120|4|running|Y|node02|node00|drbd||2|-

htools:nlocation:rack

"""
"""A node with free memory equal to its reserve. The score has nine decimals; the last one is 5."""


@installed
@pytest.mark.parametrize(
    ("program", "words", "text"),
    [
        ("hsqueeze", "-v --minimal-resources=1", RESERVED),
        ("hbal", "-l 2", EXACT),
        ("hcheck", "--no-simulation", NO_MEMORY),
        ("hcheck", "--no-simulation --machine-readable", NO_MEMORY),
    ],
)
def test_node_with_no_memory_beyond_its_reserve_gives_the_output_of_the_original(
    program: str, words: str, text: str
) -> None:
    """If a node has no free memory beyond its reserve, the output is that of the original."""
    one = Case(program, ("-t", "c.data", *words.split()), {"c.data": text})
    assert ours(one) == theirs(one)


MASTERS = """default|uuid-1|preferred||

node2|4096|0|4096|65536|65536|4|M|uuid-1|1
node1|4096|0|4096|65536|65536|4|M|uuid-1|1
node0|4096|0|4096|65536|65536|4|N|uuid-1|1

inst0|512|512|1|running|Y|node0||rbd||1


"""
"""A cluster with two master nodes, as a file that combines two clusters has."""


@installed
@pytest.mark.parametrize(
    ("program", "words"), [("hroller", "-f -G other"), ("hsqueeze", "-v -C"), ("hbal", "-S saved")]
)
def test_several_master_nodes_give_the_output_of_the_original(program: str, words: str) -> None:
    """With two master nodes, `hroller` reports an error, and no program powers them down."""
    one = Case(program, ("-t", "c.data", *words.split()), {"c.data": MASTERS})
    assert ours(one) == theirs(one)
