"""Compare the programs of this project that are named like those of htools with the latter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.compat.htools import PROGRAM_PURPOSES, program_of
from iallocator.compat.htools.programs import PROGRAMS
from tests.builders import Json
from tests.live.cluster_answers import rapi_answers
from tests.paths import ROOT
from tests.patience import PATIENCE
from tests.seeds import seeds

from .command_lines import Case, cluster_text
from .documents import KINDS, document
from .htools import KNOWN, LAUNCHER, difference, ours, theirs
from .listed import reason

installed = pytest.mark.skipif(shutil.which("hbal") is None, reason="htools are not installed")


@installed
@pytest.mark.parametrize("program", PROGRAMS)
def test_command_lines_give_the_output_of_the_original(program: str) -> None:
    """A program has the streams, status and files of htools, or a difference is listed."""
    found = {number: difference(number, program) for number in seeds(14, 120)}
    assert {n: text for n, text in found.items() if text and not text.startswith(KNOWN)} == {}


def graph_case(seed: int, *options: str) -> Case:
    """Return a call of hroller for a cluster of drbd instances with free capacity."""
    rng = Random(f"graph/{seed}")
    count = rng.randint(4, 14)
    pairs = [rng.sample(range(count), 2) for _ in range(rng.randint(2, 3 * count))]
    nodes = "".join(f"n{k}|65536|0|60000|900000|800000|16|N|u|1||N|0|1|1.0\n" for k in range(count))
    instances = "".join(
        f"i{k}|64|128|1|running|Y|n{one}|n{other}|drbd||1|-\n"
        for k, (one, other) in enumerate(pairs)
    )
    text = f"default|u|preferred||\n\n{nodes}\n{instances}\n\n"
    return Case("hroller", ("-t", "c.data", "-f", "-v", "-v", *options), {"c.data": text})


@installed
@pytest.mark.parametrize("options", [(), ("--offline-maintenance",)], ids=" ".join)
def test_hroller_colours_as_the_original(options: tuple[str, ...]) -> None:
    """`hroller` prints the graph, the three colourings and the groups of htools."""
    for seed in seeds(8, 60):
        one = graph_case(seed, *options)
        assert ours(one) == theirs(one), seed


@installed
@pytest.mark.parametrize("option", ["--node-tags=x", "-Gnothing"])
def test_hroller_without_nodes_fails_as_the_original(option: str) -> None:
    """`hroller` without nodes prints a message and ends with status 1, as htools do."""
    one = graph_case(0, option)
    assert ours(one) == theirs(one)
    assert ours(one).status == 1


def squeezable(number: int, groups: int = 1) -> Case:
    """Return a call of hsqueeze for nodes with many cpus, some of them on standby."""
    rng = Random(f"squeezable/{number}")
    count = rng.randint(3, 7)
    home = [rng.randrange(groups) for _ in range(count)]
    state = ["M", *(rng.choice("NNNY") for _ in range(count - 1))]
    memory = [rng.choice([8192, 16384]) for _ in range(count)]
    free, lines = [*memory], []
    templates = rng.choice([["ext"], ["drbd"], ["ext", "drbd"], ["ext", "rbd", "plain"]])
    for k in range(rng.randint(0, 18)):
        node = rng.choice([index for index in range(count) if state[index] != "Y"])
        mates = [i for i in range(count) if i != node and home[i] == home[node] and state[i] != "Y"]
        template = rng.choice(templates)
        if template == "drbd" and not mates:
            continue
        other = f"n{rng.choice(mates)}" if template == "drbd" else ""
        size = rng.choice([256, 1024, 2048])
        free[node] -= size
        lines.append(f"i{k}|{size}|1024|1|running|Y|n{node}|{other}|{template}||1|-\n")
    tags = [f"htools:standby:{rng.randint(1, 2)}" if one == "Y" else "" for one in state]
    nodes = [
        f"n{k}|{memory[k]}|0|{free[k]}|204800|102400|64|{state[k]}|u{home[k]}|1|{tags[k]}|N|0|1|1.0\n"
        for k in range(count)
    ]
    names = "".join(f"g{k}|u{k}|preferred||\n" for k in range(groups))
    policy = (
        f"|{rng.choice([128, 512])},1,1024,1,1,1|1,1,1,1,1,1;32768,8,1048576,16,8,12|ext|4.0|32.0\n"
    )
    minimal, target = rng.choice(["1", "4", "7"]), rng.choice(["2", "6"])
    options = ("-v", "-C", "-Ssaved", "--minimal-resources", minimal, "--target-resources", target)
    text = f"{names}\n{''.join(nodes)}\n{''.join(lines)}\n\n{policy}"
    return Case("hsqueeze", ("-t", "cluster.data", *options), {"cluster.data": text})


@installed
@pytest.mark.parametrize("groups", [1, 2])
def test_hsqueeze_switches_the_nodes_of_the_original(groups: int) -> None:
    """`hsqueeze` switches the nodes of Debian's program, with the same moves.

    If Debian's program moves instances to another group, the moves differ.
    """
    for number in seeds(12, 120):
        one = squeezable(number, groups)
        peer, own = theirs(one), ours(one)
        assert own == peer or (groups > 1 and reason(one, peer, own, theirs)), number


FULL = """default|u|preferred||

n1|1024|0|600|9000|9000|8|M|u|1||N|0|1|1.0
n2|1024|0|1024|9000|9000|8|N|u|1||N|0|1|1.0

i1|300|100|1|running|Y|n1||ext||1|-


|128,1,256,1,1,1|128,1,256,1,1,1;900,8,9000,16,8,12|ext|4.0|32.0
default|128,1,256,1,1,1|128,1,256,1,1,1;900,8,9000,16,8,12|ext|4.0|32.0
"""


@installed
@pytest.mark.parametrize(
    "words", ["-v", "-C", "-C.script", "-S.saved", "-X", "-S.saved -X", "--no-headers -v"]
)
@pytest.mark.parametrize("level", ["1", "9"])
def test_hsqueeze_powers_on_nodes_as_the_original(words: str, level: str) -> None:
    """`hsqueeze` powers nodes on as htools do, even if all nodes do not reach the target."""
    arguments = ("-t", "c.data", "--minimal-resources", level, "--target-resources", level)
    one = Case("hsqueeze", (*arguments, *words.split()), {"c.data": FULL})
    assert ours(one) == theirs(one)


def test_hsqueeze_leaves_one_node_on_if_the_master_is_unknown() -> None:
    """`hsqueeze` leaves one node on if the master is unknown, as each node may be the master."""
    text = FULL.replace("|M|", "|N|").replace("i1|300|100|1|running|Y|n1||ext||1|-\n", "")
    done = ours(Case("hsqueeze", ("-t", "c.data"), {"c.data": text}))
    assert (done.status, len(done.out.splitlines())) == (0, 2)


@installed
@pytest.mark.parametrize(
    "words",
    [
        "hbal", "hbal word", "hbal --no-such", "hbal -z -t", "hbal -l x", "hbal -e", "hbal --no",
        "hbal -m x -t y", "hbal -t missing", "hbal --mond=x", "hbal --priority x",
        "hbal --evac-mode=3", "hspace --standard-alloc 1,2", "hspace --tiered-alloc 1z,1,1",
        "hspace --disk-template none", "hspace --spindle-use -1", "hspace --max-cpu=-1",
        "hspace --machine-readable=x", "hcheck word", "hinfo word", "hroller word", "hsqueeze word",
        "harep word", "hbal --help-completion", "hspace --help-completion",
        "hsqueeze --help-completion", "hscan --help-completion", "hroller --help-completion",
        "hcheck --help-completion", "hinfo --help-completion", "harep --help-completion",
        "hbal --version", "hspace -V", "hail a b", "hail", "hail missing", "hail --help-completion",
        "hspace --simulate bad", "hspace --simulate x,4,1g,1g,1", "hspace --simulate p,x,1g,1g,1",
        "hspace --simulate p,4,1y,1g,1", "hspace --simulate p,4,1g,,1",
        "hspace --simulate p,,1,1,1",
        "hspace --simulate p,4,1g,1g,8.5", "hspace --simulate p,4,1g,1g,8,x",
        "hspace --simulate p,4,1g,1g,8,1,x", "hspace --simulate p,4,1g,1g,8,1,False",
        "hbal --evac=1", "harep --job", "harep", "harep -Lnone", "hbal -Lnone", "hscan -Lnone",
        "hbal --luxi=", "harep --luxi=", "hscan --luxi=", "hbal -I /dev/null", "hcheck -I /tmp",
        "hscan none.invalid localhost:1", "hinfo -m file://none", "hcheck -m http://localhost:1",
    ],
)  # fmt: skip
def test_command_line_is_read_as_by_the_original(words: str) -> None:
    """Programs have the messages, statuses and completion words of htools."""
    program, *arguments = words.split()
    one = Case(program, tuple(arguments), {})
    assert ours(one) == theirs(one)


def hail_case(message: str, *options: str) -> Case:
    """Return a call of hail with `options` and a file that contains `message`."""
    return Case("hail", (*options, "request.json"), {"request.json": message})


LOAD = {"cpu_number": 2, "cpus": [0.5, 1.0], "cpu_total": 1.5}
REPORT = {"name": "cpu-avg-load", "version": "B", "format_version": 1, "timestamp": 1, "data": LOAD,
          "category": None, "kind": 0}  # fmt: skip
MEASURED = [json.dumps([{"node": f"n{k}", "reports": [REPORT]} for k in range(n)]) for n in (9, 20)]


@installed
@pytest.mark.parametrize(
    "loads",
    ["i0 2 1 1 1\n", "i0 1 1 1", "i0 x 1 1 1", "i0\t1\t1\t1\t1", "i0 1 1 1 1\n\n", "i0 0x1 .5 1 1"],
)
@pytest.mark.parametrize("options", ["", "--ignore-dynu"])
def test_loads_of_instances_are_read_as_by_the_original(loads: str, options: str) -> None:
    """Programs read loads of instances as htools do, and report wrong lines."""
    files = graph_case(1).files | {"loads": loads}
    one = Case("hbal", ("-t", "c.data", "-U", "loads", "-l", "0", *options.split()), files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("answers", [*MEASURED, "[]", "{}", "x", "", "[1]", "[{}]"])
@pytest.mark.parametrize(
    "options", ["", "--mond", "--mond --ignore-dynu", "--mond --exit-on-missing-mond-data",
                "--mond --mond-xen"],
)  # fmt: skip
def test_measured_loads_are_read_as_by_the_original(answers: str, options: str) -> None:
    """Programs read measured loads as htools do, and report wrong files.

    Without --mond, the file has no effect.
    """
    files = graph_case(1).files | {"answers": answers}
    words = ("-t", "c.data", "--mond-data", "answers", "-l", "0", *options.split())
    one = Case("hbal", words, files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("words", ["-vvvv", "-v -v -l 0", "-e Infinity", "-l -1", "--max-cpu 0x1"])
def test_hbal_prints_details_as_the_original(words: str) -> None:
    """`hbal -vvvv` lists the state of each node as htools do."""
    one = Case("hbal", ("-t", "c.data", *words.split()), graph_case(2).files)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"request": {}}'])
@pytest.mark.parametrize("program", ["hbal", "hinfo", "hspace"])
def test_wrong_document_is_reported_as_by_the_original(program: str, content: str) -> None:
    """`hail -I` reports an error in its document with the words of htools."""
    one = Case(program, ("-I", "request.json"), {"request.json": content})
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("kind", KINDS)
def test_hail_answers_and_reports_as_the_original(kind: str) -> None:
    """`hail -v` prints the output of htools on both streams."""
    for seed in seeds(2, 20):
        one = hail_case(json.dumps(document(seed, kind)), "-v")
        assert ours(one) == theirs(one), seed


@installed
@pytest.mark.parametrize("words", ["-t c.data -p", "--simulate p,4,100g,16g,8 -S saved", "-t no"])
def test_hail_answers_for_another_cluster_as_the_original(words: str) -> None:
    """`hail` with a cluster option uses that cluster, not the message's, as htools do."""
    one = hail_case(json.dumps(document(1, "allocate")), *words.split())
    one.files["c.data"] = cluster_text(Random("another cluster"))
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    "message",
    [
        "", "{", "[]", "{}", "1", "{}}", '{"a":1,}', '{"a"', '{"request":{}}', '{"a":[1 2]}',
        '{"a":1 "b"}', '{"a":tru}', '{"a":nul}', '{"a":"\\q"}', '{"a":1e}', '{"a":"b', '{"a":-01}',
    ],
)  # fmt: skip
def test_hail_reports_a_malformed_message_as_the_original(message: str) -> None:
    """`hail` reports a malformed message with the words and the status of htools."""
    one = hail_case(message)
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("allocate", {"type": "other"}), ("allocate", {"memory": "x"}),
        ("allocate", {"disk_template": "x"}), ("relocate", {"name": "other"}),
        ("relocate", {"relocate_from": ["other"]}), ("node-evacuate", {"evac_mode": "x"}),
        ("node-evacuate", {"instances": ["other"]}), ("change-group", {"target_groups": ["x"]}),
        ("allocate", {"memory": None}), ("allocate", {"type": None}), ("allocate", {"name": None}),
        ("node-evacuate", {"evac_mode": None}), ("change-group", {"instances": None}),
    ],
)  # fmt: skip
def test_hail_reports_a_wrong_request_as_the_original(kind: str, changes: Json) -> None:
    """`hail` reports a wrong or missing value in a request with the message of htools."""
    message = document(1, kind)
    for key, value in changes.items():
        message["request"].pop(key)
        if value is not None:
            message["request"][key] = value
    one = hail_case(json.dumps(message))
    assert ours(one) == theirs(one)


WRONG: Any = (None, "x", -1.5, [], ["x"], [{}], {}, {"x": 1})


@installed
@pytest.mark.parametrize("part", ["groups", "nodes", "instances", "info", "ndparams", "beparams"])
def test_wrong_answer_of_rapi_is_reported_as_by_the_original(part: str) -> None:
    """A wrong answer of RAPI is reported with the words of htools."""
    rng = Random(part)
    parts = {"ndparams": "nodes", "beparams": "instances"}
    for _ in range(seeds(3, 100).stop):
        answers = rapi_answers()
        damaged = answers[parts.get(part, part)]
        damaged = damaged if part == "info" else damaged[0]
        damaged = damaged[part] if part in parts else damaged
        key = rng.choice(list(damaged))
        if rng.random() < 0.3:
            del damaged[key]
        else:
            damaged[key] = rng.choice(WRONG)
        files = {f"rapi/{name}.json": json.dumps(value) for name, value in answers.items()}
        one = Case("hscan", ("file://rapi",), files)
        original = theirs(one)
        if original.status:  # htools accept more values than this program
            assert ours(one) == original, (key, damaged.get(key))


@installed
@pytest.mark.parametrize("program", ["hbal", "hroller", "hsqueeze", "hscan", "hail"])
def test_file_that_cannot_be_written_is_reported_as_by_the_original(program: str) -> None:
    """A file that cannot be written is reported in the words of htools."""
    files = {"c.data": FULL, "r.json": json.dumps(document(1, "allocate"))}
    files |= {f"rapi/{name}.json": json.dumps(value) for name, value in rapi_answers().items()}
    words = {
        "hscan": "-dnone file://rapi", "hail": "-Snone/saved r.json",
        "hroller": "-f -t c.data -Snone/saved",
    }.get(program, "-t c.data -Snone/saved")  # fmt: skip
    one = Case(program, tuple(words.split()), files)
    assert ours(one) == theirs(one)
    assert ours(one).status == 1


@installed
@pytest.mark.parametrize(
    "words",
    [
        "hspace -Snone/saved", "hspace -Snone/saved --machine-readable",
        "hspace -Ssaved --standard-alloc=1024,1024,1",
        "hspace -Ssaved --standard-alloc=1024,1024,1 --machine-readable",
        "hbal -Cfolder", "hbal -Sfolder", "hsqueeze -Cfolder", "hsqueeze -Sfolder",
    ],
)  # fmt: skip
def test_output_before_a_file_that_cannot_be_written_is_that_of_the_original(words: str) -> None:
    """`hspace` prints the output of htools before a file that cannot be written."""
    folders = {f"{name}/file": "" for name in ("folder.original", "folder", "saved.standard")}
    program, *options = words.split()
    one = Case(program, ("-tc.data", *options), {"c.data": FULL, **folders})
    assert ours(one) == theirs(one)


EXCLUSIVE = """g|u|preferred||

n1|65523|1023|65523|2097152|2097152|4|M|u|8||Y|8|0
n2|65523|1023|65523|2097152|2097152|4|N|u|8||Y|8|0
n3|65523|1023|65523|2097152|2097152|4|N|u|8||Y|8|0


|63488,2,522240,1,1,1|129,1,1024,1,1,1;129024,12,1048576,16,8,8|plain,drbd|4.0|32.0
g|63488,2,522240,1,1,1|63488,2,522240,1,1,1;65000,4,1048576,16,8,8;31744,1,261120,1,1,1;\
33000,2,522240,16,8,4|plain,drbd|4.0|32.0
""".replace("\\\n", "")
"""Nodes with exclusive storage, and a policy with two ranges of sizes, as text."""


@installed
@pytest.mark.parametrize("words", ["", "--disk-template drbd -p", "-v -v -v"])
def test_hspace_prints_spindles_of_exclusive_storage_as_the_original(words: str) -> None:
    """`hspace` prints spindles in sizes, resources and efficiency as htools do."""
    one = Case("hspace", ("-t", "c.data", *words.split()), {"c.data": EXCLUSIVE})
    assert "SPN" in theirs(one).out
    assert ours(one) == theirs(one)


@installed
@pytest.mark.parametrize("part", ["nodegroups", "nodes", "instances", "ndparams", "ipolicy"])
def test_hail_reports_a_wrong_member_as_the_original(part: str) -> None:
    """`hail` reports a missing or wrong member with the words of htools."""
    whole = document(0, "relocate")
    inner = {"ndparams": "nodes", "ipolicy": "nodegroups"}
    name = next(iter(whole[inner.get(part, part)]))
    rng = Random(part)
    for _ in range(seeds(4, 100).stop):
        message = deepcopy(whole)
        damaged = message[inner.get(part, part)][name]
        damaged = damaged[part] if part in inner else damaged
        key = rng.choice(list(damaged))
        if rng.random() < 0.3:
            del damaged[key]
        else:
            damaged[key] = rng.choice(WRONG)
        one = hail_case(json.dumps(message))
        original = theirs(one)
        if original.status:  # hail accepts more values than this program
            assert ours(one) == original, (key, damaged.get(key))


@pytest.mark.parametrize("program", PROGRAM_PURPOSES)
def test_link_with_the_name_of_a_program_runs_it(program: str, tmp_path: Path) -> None:
    """A link with the name of a program of htools runs that program.

    Chains of links work, and iallocator's own configuration has no effect.
    """
    first = tmp_path / "iallocator"
    first.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from iallocator.process import run\nrun()\n"
    )
    first.chmod(0o755)
    (tmp_path / "other").symlink_to("iallocator")
    (tmp_path / program).symlink_to("other")
    done = subprocess.run(
        [tmp_path / program, "--version"],
        env={**os.environ, "IALLOCATOR_CONFIG": "missing"},
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{program} (ganeti) version ")


@pytest.mark.parametrize(
    ("executable", "variable", "program"),
    [
        ("/usr/bin/hbal", None, "hbal"),
        ("/usr/bin/htools", "hspace", "hspace"),
        ("hbal", "hspace", "hspace"),
        ("/usr/bin/htools", None, "htools"),
        ("/usr/local/bin/iallocator", "hspace", None),
        ("hbal", "", ""),
        ("hbal", "h\udcff", "h\udcff"),
    ],
)
def test_variable_chooses_the_program_for_names_of_htools_only(
    executable: str, variable: str | None, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$HTOOLS selects a program of htools, unless the name is not one of htools."""
    monkeypatch.delenv("HTOOLS", raising=False)
    if variable is not None:
        monkeypatch.setenv("HTOOLS", variable)
    assert program_of(executable) == program


def test_command_htools_runs_a_program_by_its_name() -> None:
    """`htools NAME` runs that program, and rejects an unknown name with the list of names."""
    command = [sys.executable, "-m", "iallocator", "htools"]
    known = subprocess.run(
        [*command, "hinfo", "-V"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert known.stdout.startswith("hinfo (ganeti) version ")
    unknown = subprocess.run(
        [*command, "hnone"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert unknown.returncode == 1
    assert "Unrecognised personality 'hnone'." in unknown.stderr
    assert all(name in unknown.stderr for name in PROGRAM_PURPOSES)


def test_make_install_htools_makes_a_link_for_each_program(tmp_path: Path) -> None:
    """`make install-htools` makes a link to the executable for each program."""
    subprocess.run(
        ["make", "-s", "install-htools", f"DIR={tmp_path}", "BINDIR=/opt/bin"], cwd=ROOT, check=True
    )
    links = {path.name: os.readlink(path) for path in tmp_path.iterdir()}
    assert links == dict.fromkeys(PROGRAM_PURPOSES, "/opt/bin/iallocator")


def test_every_program_has_a_row_in_the_table() -> None:
    """The table of programs has every program, with its options and its module."""
    assert set(PROGRAMS) == set(PROGRAM_PURPOSES)
    folder = ROOT / "iallocator" / "compat" / "htools"
    assert {name for name in PROGRAM_PURPOSES if not (folder / f"{name}.py").is_file()} == set()


def test_launcher_of_the_comparison_reads_the_status() -> None:
    """The launcher of the comparison ends with the exit status of the program."""
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, "3.0", "hbal", "word"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1


GROUP, NODE = "g|u|preferred||", "n1|100|0|100|100|100|4|N|u|1"

SIZE = "1,1,1,1,1,1"
SIZES = f"{SIZE};{SIZE}"
DAMAGED = (
    "", "a\n", "a\n\n", "\n", "\n\n", "a\n\n\n", "a\n\n\n\n",
    "g|u|preferred\n\n\n\n", "g|u|bogus|a\n\n\n\n",
    *(f"{GROUP}\n\n{node}\n\n\n\n" for node in (
        "n1|1|2", "n1|x|0|1|1|1|1|N|other", "n1||0|1|1|1|1|N|u", "n1|1x|0|1|1|1|1|N|u|1",
        "n1|100|0|100|100|100|4|N|u|zz", "n1|100|0|100|100|100|4|N|u|1||x",
        "n1|100|0|100|100|100|4|N|u|1||N|x", "n1|100|0|100|100|100|4|N|u|1||N|0|x",
        "n1|100|0|100|100|100|4|N|u|1||N|0|1|x",
    )),
    *(f"{GROUP}\n\n{NODE}\n\n{one}\n\n\n" for one in (
        "i1|10", "i1|10|10|1|running|Y|n9||plain|", "i1|10|10|1|running|Y|||plain|",
        "i1|10|x|1|running|Y|n1||plain|", "i1|10|10|1|bogus|X|n1||bad|",
        "i1|10|10|1|running|X|n1||bad|", "i1|10|10|1|running|Y|n1||bad|",
        "i1|10|10|1|running|Y|n1||plain|t|1|x", "i1|10|10|1|running|Y|n1||plain|t|1|-|x",
        "i1|10|10|1|running|Y|n1||plain|t|zz", "i1|10|10|1|running|Y|n1|n1|drbd|t",
    )),
    *(f"{GROUP}\n\n{NODE}\n\n\n\n{policy}\n" for policy in (
        "|1", f"|x,1,1,1,1,1|{SIZES}|drbd|4|32", f"|{SIZE}|{SIZE}|drbd|4|32",
        f"|{SIZE}|{SIZES[:-2]}|drbd|4|32", f"|{SIZE}|{SIZES}|bad|4|32",
        f"|{SIZE}|{SIZES}|drbd|x|32",
        f"|{SIZE}|{SIZES}|drbd|4|x", f"other|{SIZE}|{SIZES}|drbd|4|32",
    )),
)  # fmt: skip
"""Text files with one error each."""


@installed
@pytest.mark.parametrize("text", DAMAGED)
def test_error_in_a_text_file_has_the_message_of_the_original(text: str) -> None:
    """An error in a text file has the words of htools, and status 1."""
    one = Case("hbal", ("-t", "c.data"), {"c.data": text})
    original = theirs(one)
    assert original.status == 1
    assert ours(one) == original
