"""Test that a command reports unwritable files before it plans, and failed writes by its status."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import allocate_rbd, as_bytes, cluster, instance
from tests.command import COMMAND, run
from tests.paths import ROOT

from .effect import OVERLOADED

WRITERS = (
    "balance --graph={}", "balance --print-commands={}", "balance -S{}", "check -S{}",
    "capacity -l2 -S{}", "place --strategy=pacemaker-minimal --graph={}", "explain --graph={}",
    "balance --html={}", "check --html={}", "capacity -l2 --html={}", "report --html={}",
    "replay --junit={}", "-S{}",
)  # fmt: skip
"""Command lines with an option that writes a file."""


@pytest.fixture
def doc(tmp_path: Path) -> str:
    """Return the path of a file with a request about a nearly full cluster."""
    path = tmp_path / "doc.json"
    path.write_bytes(as_bytes(allocate_rbd(OVERLOADED)))
    return str(path)


@pytest.mark.parametrize("words", WRITERS)
def test_output_file_without_a_folder_is_reported_before_anything_else(
    words: str, doc: str, capsys: Capture
) -> None:
    """An output file in a missing folder is reported in one line before planning."""
    arguments = words.format(str(Path(doc).parent / "none" / "file")).split()
    assert main([*arguments, doc]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(": No such file or directory\n")
    assert err.count("\n") == 1


def test_output_file_that_is_a_folder_is_reported_before_anything_else(
    doc: str, tmp_path: Path, capsys: Capture
) -> None:
    """An output file that is a folder is reported before planning.

    File permissions are not tested, because root can write every file.
    """
    assert main(["balance", f"--graph={tmp_path}", doc]) == 2
    assert capsys.readouterr() == ("", f"iallocator: {tmp_path}: Is a directory\n")


@pytest.mark.parametrize("words", ["balance --html={}", "balance --graph={}", "balance -S{}"])
def test_output_file_with_too_long_a_name_is_reported_before_anything_else(
    words: str, doc: str, tmp_path: Path, capsys: Capture
) -> None:
    """An output file with a too long name is reported before planning."""
    path = tmp_path / ("x" * 300 + ".svg")
    assert main([*words.format(path).split(), doc]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("File name too long\n")


def test_output_file_with_the_longest_name_is_written(doc: str, tmp_path: Path) -> None:
    """An output file with a name of 255 bytes is written."""
    path = tmp_path / ("\N{LATIN SMALL LETTER E WITH ACUTE}" * 125 + ".svg")
    assert main(["balance", f"--graph={path}", doc]) == 0
    assert path.read_bytes().startswith(b"<svg")


def test_snapshot_with_an_unknown_field_writes_nothing(
    doc: str, tmp_path: Path, capsys: Capture
) -> None:
    """`snapshot` with an unknown field is rejected and writes nothing."""
    for words in (["snapshot"], ["snapshot", f"-d{tmp_path}"]):
        assert main([*words, "--print-nodes=nope", doc]) == 2
        out, err = capsys.readouterr()
        assert "nodes" not in out
        assert "preferred" not in out
        assert err.startswith("iallocator: ")
    assert not (tmp_path / "doc.data").exists()


def test_output_file_on_a_full_device_leaves_the_plan_and_reports(
    doc: str, capsys: Capture
) -> None:
    """If the output file is on a full device, the plan is printed and the status is 2."""
    assert main(["balance", "--json", "--print-commands=/dev/full", doc]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["command"] == "balance"
    assert err == "iallocator: /dev/full: No space left on device\n"


@pytest.mark.parametrize("words", WRITERS)
def test_output_file_on_a_full_disk_stays_unchanged(words: str, doc: str, tmp_path: Path) -> None:
    """If the disk is full, an existing output file stays unchanged."""
    folder = tmp_path / "out"
    folder.mkdir()
    old = folder / "file"
    old.write_text("old")
    done = subprocess.run(
        [*COMMAND, *words.format(old).split(), doc],
        cwd=ROOT, capture_output=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
    )  # fmt: skip
    assert done.returncode == 2
    if words != "explain --graph={}":  # rejected before: an allocation has no steps
        assert b"File too large" in done.stderr
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"file": "old"}


def test_file_of_a_folder_on_a_full_disk_stays_unchanged(doc: str, tmp_path: Path) -> None:
    """If the disk is full, `snapshot` and `replay --update` leave stored files unchanged."""
    case = tmp_path / "case"
    case.mkdir()
    (case / "request.json").write_bytes(Path(doc).read_bytes())
    old = {case / "doc.data": "a long old text\n", case / "response.json": '{"old": 1}\n'}
    for path, text in old.items():
        path.write_text(text)
    for words in (["snapshot", "-d", str(case), doc], ["replay", "--update", str(case)]):
        done = subprocess.run(
            [*COMMAND, *words], cwd=ROOT, capture_output=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
        )  # fmt: skip
        assert b"File too large" in done.stdout + done.stderr
        assert done.returncode
    assert {path: path.read_text() for path in old} == old
    assert len(list(case.iterdir())) == 3


@pytest.mark.parametrize("words", ["", "balance --json", "check --json", "capacity --json -l2"])
def test_output_to_a_full_device_is_status_1(words: str, doc: str) -> None:
    """If standard output is a full device, the exit status is 1."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *words.split(), doc], cwd=ROOT, stdout=full, stderr=subprocess.PIPE,
            check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == b"iallocator: standard output: No space left on device\n"


@pytest.mark.parametrize("words", ["-v", "balance --json -v", "config --json -v"])
def test_warnings_without_stderr_are_not_in_the_answer(words: str, doc: str) -> None:
    """If stderr is closed, warnings are not written to stdout."""
    done = subprocess.run(
        [*COMMAND, *words.split(), doc], cwd=ROOT, stdout=subprocess.PIPE, check=True,
        preexec_fn=lambda: os.close(2),
    )  # fmt: skip
    json.loads(done.stdout)


@pytest.mark.parametrize("option", ["--print-nodes", "--print-instances"])
def test_request_with_lists_prints_them_on_stderr(option: str, tmp_path: Path) -> None:
    """A request prints its lists on stderr completely, as stdout is for Ganeti."""
    path = tmp_path / "request.json"
    document = cluster(3, instances={"i1": instance("node1", "node2")})
    document["request"] = {"type": "relocate", "name": "i1", "relocate_from": ["node2"]}
    path.write_text(json.dumps(document))
    done = run(option, str(path))
    assert b"node1" in done.stderr
    assert b"Traceback" not in done.stderr
