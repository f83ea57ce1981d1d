"""Test snapshots of running clusters: htools have equal results for snapshot and cluster."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.wire.validation import problems
from tests.aliases import Capture
from tests.command import json_of, printed

from .cluster_answers import rapi_answers, write_answers
from .fakes import fake_luxi
from .test_recorded import RECORDED, needs_hbal, ours, recorded_luxi, theirs


@needs_hbal
@pytest.mark.parametrize("group", ["default", "rack2"])
def test_snapshot_as_text_has_the_tables_and_moves_of_the_cluster(
    group: str, tmp_path: Path, capsys: Capture
) -> None:
    """A snapshot as text has the tables and moves of the cluster, in iallocator and hbal."""
    with fake_luxi(tmp_path, recorded_luxi) as server:
        for connection in (f"-L{server.path}", f"-mfile://{RECORDED}"):
            assert main(["snapshot", connection]) == 0
            text = tmp_path / "cluster.data"
            text.write_text(capsys.readouterr().out)
            words = ("-t", str(text), "-G", group)
            tables, moves = theirs(*words)
            assert moves
            assert (tables, moves) == theirs(connection, "-G", group)
            own, own_moves = ours(*words)
            assert own_moves == moves
            assert {name: own[name] for name in tables} == tables


@needs_hbal
@pytest.mark.skipif(not shutil.which("hscan"), reason="hscan is not installed")
def test_snapshot_equals_the_output_of_hscan(tmp_path: Path) -> None:
    """`snapshot` prints the lines and writes the file of hscan."""
    ours_in, theirs_in = tmp_path / "ours", tmp_path / "theirs"
    ours_in.mkdir()
    theirs_in.mkdir()
    with fake_luxi(tmp_path, recorded_luxi) as server:
        output = printed("snapshot", f"-L{server.path}", "-d", str(ours_in))
        command = ["hscan", f"-L{server.path}", "-d", str(theirs_in)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split() for line in output.splitlines()] == [
        line.split() for line in done.stdout.splitlines()
    ]
    mine, other = (folder / "LOCAL.data" for folder in (ours_in, theirs_in))
    network = "|edfc3541-6ef0-4176-b216-5688cbfaca77\n"  # which hscan does not ask for
    assert mine.read_text().replace(network, "|\n") == other.read_text()


def test_snapshot_as_a_document_is_valid_and_plans_like_the_cluster(
    tmp_path: Path, capsys: Capture
) -> None:
    """A snapshot as a document fits the schemas, and has the plan of the cluster."""
    address = f"-mfile://{RECORDED}"
    assert main(["snapshot", address, "--form=json"]) == 0
    file = tmp_path / "cluster.json"
    file.write_text(capsys.readouterr().out)
    assert problems(file.read_bytes(), "unread") == []
    output = []
    for source in ([str(file)], [address]):
        found = json_of("balance", "--all-groups", *source)
        output.append({key: value for key, value in found.items() if key != "source"})
    assert output[0] == output[1]


def test_snapshot_of_several_clusters_writes_those_that_answer(
    tmp_path: Path, capsys: Capture
) -> None:
    """A snapshot of several clusters writes each that answers; the status is 1 if one does not."""
    one, two = (write_answers(tmp_path / name, rapi_answers()) for name in ("one", "two"))
    lost = f"file://{tmp_path}/lost"
    folder = tmp_path / "out"
    folder.mkdir()
    assert main(["snapshot", "-m", one, "-m", lost, "-m", two, "-d", str(folder), "-p"]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["Name", "one", "two"]
    assert sorted(file.name for file in folder.iterdir()) == ["one.data", "two.data"]
    assert (folder / "one.data").read_text() == (folder / "two.data").read_text()
    assert "iallocator: lost: " in err
    assert err.count("t_mem") == 2
    assert printed("snapshot", "-m", one, "-d", str(folder), "--no-headers").split()[0] == "one"


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "file:///a", "-m", "file:///b"), ("--form=json", "--simulate=p,1,1g,1g,1"),
        ("--form=text", "--request=evacuate node1"), ("--request=what",),
        ("--request=allocate 'x",), ("-d", "/nowhere"),
    ],
)  # fmt: skip
def test_impossible_snapshot_is_reported_in_one_line(
    words: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """An impossible snapshot is reported in one line, with exit status 2."""
    source = [] if any("simulate" in word or "file:" in word for word in words) else [
        "-m", write_answers(tmp_path / "rapi", rapi_answers()),
    ]  # fmt: skip
    assert main(["snapshot", *words, *source]) == 2
    _, err = capsys.readouterr()
    assert err.count("\n") == 1


@pytest.mark.skipif(not shutil.which("hinfo"), reason="hinfo is not installed")
@pytest.mark.parametrize("more", [(), ("-O", "node5.vc.example.com")])
def test_show_has_the_groups_scores_and_tables_of_hinfo(more: tuple[str, ...]) -> None:
    """`show` has the groups, statistics, nodes and instances of hinfo."""
    connection = f"-mfile://{RECORDED}"
    command = ["hinfo", connection, "-v", "-p", "--print-instances", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json_of("show", connection, "--compat=hail", *more)
    lines = [line.split() for line in done.stdout.splitlines()]
    groups = {line[0]: line[1:] for line in lines if line and line[0] in ("default", "rack2")}
    assert groups == {
        group["group"]: [
            str(group["node_count"]), str(group["instance_count"]), str(len(group["bad_nodes"])),
            str(len(group["bad_instances"])), str(group["n1_compliant"]), f"{group['score']:.8f}",
        ]
        for group in found["groups"]
    }  # fmt: skip
    weighted = [line for line in lines if len(line) == 3 and line[2].startswith("x")]
    terms = [f"{term['term'] / term['weight']:.8f}" for term in found["terms"]]
    assert terms == [line[1] for line in weighted]
    score = next(line[2] for line in lines if line[:2] == ["Cluster", "score:"])
    assert f"{found['cluster_score']:.8f}" == score
    shown = printed(
        "show", connection, "-p", "--print-instances", "--compat=hail", *more
    ).splitlines()
    tables = [line for line in done.stderr.splitlines() if line.startswith(" ")]
    first = next(k for k, line in enumerate(shown) if line.startswith(" F Name"))
    listed = [line for line in shown[first:] if line.startswith(" ")]
    assert listed == [line.rstrip() for line in tables]


@pytest.mark.skipif(not shutil.which("hinfo"), reason="hinfo is not installed")
def test_show_counts_and_rounds_as_hinfo(tmp_path: Path) -> None:
    """`show` sorts lists and rounds disk sizes as hinfo."""
    sizes = {"c": 100000, "a": 100864, "b": 512, "d": 1536}
    nodes = [f"{n}|4096|128|3968|{size}|{size}|9|N|u|1" for n, size in sizes.items()]
    path = tmp_path / "cluster.data"
    path.write_text("\n".join(["g|u|preferred||", "", *nodes, "", "", "", "", ""]))
    done = subprocess.run(
        ["hinfo", "-t", path, "-pname,idx,tdsk,fdsk"], capture_output=True, text=True, check=True
    )
    ours, theirs = (
        [row for row in map(str.split, text.splitlines()) if row and row[0] in sizes]
        for text in (
            printed("show", "-t", str(path), "-pname,idx,tdsk,fdsk", "--compat=hail"),
            done.stderr,
        )
    )
    assert ours == theirs
    assert len(ours) == len(sizes)


def test_show_names_the_networks_of_groups() -> None:
    """`show` has the networks of groups, which no program of htools has."""
    out = printed("show", f"-mfile://{RECORDED}")
    assert "edfc3541-6ef0-4176-b216-" in out, "the name is broken where the line ends"
    assert "5688cbfaca77" in out
    found = json_of("show", f"-mfile://{RECORDED}", "-pname,group")
    assert [len(group["networks"]) for group in found["groups"]] == [1, 0]
    assert found["node_fields"][0] == {"name": "node1", "group": "default"}
