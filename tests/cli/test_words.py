"""Test the text output: tables that fit, names without domain, numbers with units."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import as_bytes, cluster, rbd
from tests.command import run
from tests.paths import FIXTURES

TEXT = FIXTURES / "balance/all-groups/cluster.data"

DOMAIN = ".rack-seven.datacentre-north.example.com"

WIDTH = 100


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return three groups of nodes with long names; node3 is offline and has three instances."""
    lines = TEXT.read_text()
    for number in range(1, 8):
        lines = lines.replace(f"node{number}", f"node{number}{DOMAIN}")
    path = tmp_path / "cluster.data"
    path.write_text(lines.replace("11776|409600|409600|8|N", "11776|409600|409600|8|Y"))
    return path


def output_of(*words: object) -> str:
    """Return what the program prints to stdout with the arguments `words`."""
    done = run(*map(str, words))
    assert done.returncode in (0, 1)
    return done.stdout.decode()


@pytest.mark.parametrize(
    "words", ["balance -G rack2 --verify-plan", "balance -C --all-groups", "check", "capacity"]
)
def test_tables_leave_the_domain_out_and_fit(words: str, text: Path) -> None:
    """Tables omit the common domain of host names, with a note, and fit the page."""
    out = output_of(*words.split(), "-t", text).partition("\n\necho ")[0]
    assert max(map(len, out.splitlines())) <= WIDTH
    if words != "capacity":
        assert out.count(DOMAIN) == 1
        assert f"(Names above without {DOMAIN})" in out


def test_long_reason_continues_below_itself() -> None:
    """The table of `redistribute` is no wider than `WIDTH` columns, however long its reasons
    are.
    """
    stored = FIXTURES / "redistribute"
    for case in sorted(path for path in stored.iterdir() if (path / "request.json").exists()):
        out = output_of("redistribute", case / "request.json")
        assert max(map(len, out.splitlines())) <= WIDTH, case


def test_columns_of_moves_and_groups_have_titles_and_units(text: Path) -> None:
    """Columns of moves and groups have titles and units."""
    out = output_of("balance", "-G", "rack2", "-t", text, "--verify-plan")
    assert "  move  instance  from   to     " in out
    assert re.search("  score then  GiB copied  (.*  )?steps", out)
    assert "  group  score before  score after  moves  why" in out
    assert "  step  what             of     way             after" in out
    assert out.splitlines()[-1].startswith("Verified: ")


def test_steps_have_one_layout_in_plans_and_explanations() -> None:
    """Explanations show the steps of a move in the table in which plans show them."""
    case = FIXTURES / "node-evacuate/drbd-all/request.json"
    explained = output_of("explain", case)
    begin = explained.index("Transition: ")
    assert explained[begin:].splitlines()[1].split() == [
        "step", "what", "of", "way", "after",
    ]  # fmt: skip


def test_compress_counts_instances_and_no_scores() -> None:
    """`compress` counts the instances that remain in the group, and prints no score."""
    case = next(path for path in sorted((FIXTURES / "compress").iterdir()) if path.is_dir())
    out = output_of("compress", case / "request.json")
    assert "Instances in the chosen group: 2 -> 0" in out
    assert "core" not in out


def test_loads_of_groups_are_named() -> None:
    """`balance-groups` has a column for each kind of load, before and after."""
    case = next(path for path in sorted((FIXTURES / "balance-groups").iterdir()) if path.is_dir())
    found = output_of("balance-groups", case / "request.json").splitlines()
    above, titles = found[found.index("Groups") + 1 :][:2]
    assert [word for word in above.split() if "load" in word]
    assert "  cpu  memory   disk    net    cpu  memory   disk    net  out  in  why" in titles


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (
            ("--simulation",),
            r"Healthy; balancing could lower the sum of the groups' scores from [0-9.]+ to [0-9.]+ "
            r"\(1 move\)",
        ),
        ((), "Healthy; balancing was not tried"),
        (("--no-simulation",), "Healthy; balancing was not tried"),
        (("--max-length=0",), "Healthy; balancing finds nothing to move"),
    ],
)
def test_check_begins_with_the_health_and_the_effect_of_balancing(
    words: tuple[str, ...], result: str
) -> None:
    """`check` begins with the health in one sentence, and omits problems with count 0."""
    out = output_of("check", "-t", TEXT, *words)
    assert re.fullmatch(result, out.splitlines()[0])
    assert "0  " not in out


def test_check_reports_problems_by_node(text: Path) -> None:
    """`check` lists instances with one problem on one node in one line."""
    out = output_of("check", "-t", text)
    assert "  node3  b1, b2, b3: primary on node3, which is offline\n" in out
    assert out.startswith("Something is wrong; balancing would help (3 moves; ")
    lines = text.read_text()
    more = "".join(f"m{n}|16|1024|1|running|Y|node3{DOMAIN}||rbd||1|1|N\n" for n in range(1, 10))
    text.write_text(lines.replace("c1|", f"{more}c1|"))
    assert "12 instances, b1, b2, b3, m1, m2, ...: primary on " in output_of("check", "-t", text)


@pytest.mark.parametrize("words", ["balance -G rack2", "squeeze -G rack2 --target-resources=1"])
def test_lists_of_a_planner_for_one_group_show_that_group(words: str, capsys: Capture) -> None:
    """Lists of a planner for one group have the nodes and instances of this group, as in hbal."""
    assert main([*words.split(), "-p=name", "--print-instances", "-t", str(TEXT)]) == 0
    reported = capsys.readouterr().err
    assert reported.count("node3") >= 2
    assert "node1" not in reported
    assert "a1" not in reported


def test_quiet_keeps_errors(capsys: Capture) -> None:
    """With --quiet, errors are printed, remarks are not."""
    assert main(["balance", "-q", "-v", "-t", str(TEXT)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["balance", "-q", "--offline=x", "-t", str(TEXT)]) == 2
    assert capsys.readouterr().err == "iallocator: --offline: unknown node x\n"


@pytest.mark.parametrize("name", ["g.png", "plan.svg", "plan.dot"])
def test_graph_without_equals_sign_is_rejected_with_a_hint(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--graph FILE` without `=` is rejected with a hint."""
    assert main(["balance", "--graph", name, "--simulate", "preferred,2,10g,8g,4"]) == 2
    reported = capsys.readouterr().err
    assert reported == f"iallocator: --graph: its file must be attached: --graph={name}\n"


ONE_OF_MANY = re.compile(
    r"\b1 (calls|days|groups|instances|moves|nodes|orders|rounds|sets|steps|samples)\b"
)
"""A number of one with a noun in the plural."""

OF_HAIL = re.compile(r"1 instances (failed to move|were moved|failed to allocate|were allocated)")
"""Words that Ganeti's allocator prints for every number."""

ONE = as_bytes(cluster(2, instances={"a": rbd("node1")}))
"""A cluster of which commands count one group, one instance, or one move."""


@pytest.mark.parametrize(
    "line",
    [
        "capacity --simulate preferred,1,100g,8g,4 --disk-template plain",
        "balance -v",
        "balance --steady --history {folder}/loads -U {folder}/used",
        "balance --steady --nodes-offline 0 -O node2 --history {folder} -U {folder}/used",
        "place",
        "check -v",
        "show",
        "reboot --master-node node2",
        "maintain --master-node node2",
        "rescue node1 --master-node node2",
        "ask evacuate node1 -",
    ],
)
def test_one_object_is_counted_in_the_singular(line: str, tmp_path: Path) -> None:
    """Text says "1 node", not "1 nodes", except where it repeats the words of hail."""
    (tmp_path / "used").write_text("a 0.5 0 0 0\n")
    given = b"" if "--simulate" in line else ONE
    done = run(*line.format(folder=tmp_path).split(), stdin=given)
    assert done.returncode in (0, 1), done
    text = OF_HAIL.sub("", " ".join((done.stdout + done.stderr).decode().split()))
    assert len(text) > 10
    assert not ONE_OF_MANY.findall(text), text
