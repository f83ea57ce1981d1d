"""Test every command with closed or full streams, and with other locales."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iallocator.commands import COMMANDS
from tests.builders import allocate_rbd, as_bytes, cluster
from tests.command import COMMAND, ENVIRONMENT
from tests.fuzz.test_numbers import fitting_case

LOCALES = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
"""Environment variables for the encoding of several locales."""

STREAMS = ("stdin", "stdout", "stderr")


def closing(*streams: str) -> dict[str, Any]:
    """Return the arguments of `subprocess` that start a program without some of its streams."""
    numbers = [STREAMS.index(stream) for stream in streams]

    def close() -> None:
        for number in numbers:
            os.close(number)

    return {"preexec_fn": close, **dict.fromkeys(streams)}


def laid_out(command: str, folder: Path) -> list[str]:
    """Write the files of a command, with names in several alphabets; return its arguments."""
    case = fitting_case(command, [])
    for name, raw in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        named = raw.replace(b'"n1"', '"nö中"'.encode()).replace(b'"i1"', '"ß\U0001f600"'.encode())
        (folder / name).write_bytes(named)
    return list(case.arguments)


def ended(words: list[str], folder: Path, **options: Any) -> int:
    """Return the exit status of the program; assert that no stream has a traceback."""
    environment = ENVIRONMENT | options.pop("env", {})
    for stream in STREAMS:
        options.setdefault(stream, subprocess.DEVNULL if stream == "stdin" else subprocess.PIPE)
    done = subprocess.run(
        [*COMMAND, *words], cwd=folder, env=environment, timeout=600, check=False, **options
    )
    output = (done.stdout or b"") + (done.stderr or b"")
    assert b"Traceback" not in output
    assert b"Exception" not in output
    return done.returncode


def test_page_is_written_in_an_ascii_locale(tmp_path: Path) -> None:
    """In an ASCII locale, pages are written as UTF-8 with complete names."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    words = laid_out("check", tmp_path)
    assert ended([*words, "--html=page"], tmp_path, env=LOCALES["C"]) in (0, 1)
    assert "nö中" in (tmp_path / "page").read_text("utf-8")


def test_warnings_on_a_full_device_leave_the_answer(tmp_path: Path) -> None:
    """If stderr is a full device, answers are complete, and wrong options are rejected."""
    document = allocate_rbd(cluster(3))
    document["nodes"]["node1"]["free_memory"] = 1000  # less than its instances leave: a warning
    (tmp_path / "doc").write_bytes(as_bytes(document))
    reported = subprocess.PIPE
    whole, full = tmp_path / "whole", tmp_path / "full"
    for path, stream in ((whole, reported), (full, os.open("/dev/full", os.O_WRONLY))):
        with path.open("wb") as out:
            assert ended(["-v", "doc"], tmp_path, stdout=out, stderr=stream) == 0
            assert ended(["-v", "doc", "none"], tmp_path, stderr=stream) == 2
    assert whole.read_bytes() == full.read_bytes() != b""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_command_has_the_same_status_in_every_locale(command: str, tmp_path: Path) -> None:
    """Each command has one exit status in all locales."""
    if command == "report":
        pytest.importorskip("jinja2", reason="the template library is not installed")
    words = laid_out(command, tmp_path)
    assert {ended(words, tmp_path, env=one) for one in ({}, *LOCALES.values())} <= {
        ended(words, tmp_path)
    }


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_command_with_closed_or_full_streams_reports_it_or_is_silent(
    command: str, tmp_path: Path
) -> None:
    """With closed or full streams, each command ends with status 0, 1 or 2, and no traceback."""
    words = laid_out(command, tmp_path)
    run = partial(ended, words, tmp_path)
    for streams in (*[(one,) for one in STREAMS], STREAMS):
        assert run(**closing(*streams)) in (0, 1, 2)
    with open("/dev/full", "w") as full:
        assert run(stdout=full) in (1, 2)
        assert run(stderr=full) in (0, 1, 2)
