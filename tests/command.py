"""Run the program as an administrator or Ganeti does, in this process or a separate one.

Starting an interpreter and loading the array library takes longer than most answers, so that
commands run in this process if they do not need a separate one.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import iallocator
from iallocator.cli import answer, main
from tests.builders import Json, as_bytes
from tests.patience import PATIENCE
from tests.schemas import conforms

__all__ = [
    "COMMAND", "ENVIRONMENT", "Done", "complaint", "json_of", "moved", "plan_of",
    "printed", "respond", "run", "run_process", "without_identity",
]  # fmt: skip

_FOLDER = Path(iallocator.__file__).parents[1]
"""The folder of the tested package; in a test with a toy, it is not that of the project."""

COMMAND = [sys.executable, "-m", "iallocator"]
ENVIRONMENT = {"PYTHONPATH": str(_FOLDER), "SOURCE_DATE_EPOCH": "1767323400"}

Done = subprocess.CompletedProcess[bytes]


def run(*arguments: str, stdin: bytes = b"", cwd: Path = _FOLDER) -> Done:
    """Run the program in this process, in the folder `cwd`, without a terminal."""
    with _streams(stdin) as (out, err), contextlib.chdir(cwd):
        status = main(arguments)
        out.flush()
        err.flush()
        return Done(arguments, status, out.buffer.getvalue(), err.buffer.getvalue())


def respond(document: Json, *options: str) -> Json:
    """Return the response to a request, with options as Ganeti passes them."""
    response: Json = json.loads(answer(as_bytes(document), options))
    return response


def printed(*words: str, document: Json | None = None, status: int = 0) -> str:
    """Return the output of a command, for `document` if it is given; assert its exit status."""
    done = run(*words, stdin=b"" if document is None else as_bytes(document))
    assert done.returncode == status, done.stderr.decode()
    return done.stdout.decode()


IDENTITY = re.compile(r'<p class="identity">.*?</p>|<title>.*?</title>', re.DOTALL)


def without_identity(text: str) -> str:
    """Return `text` without the lines of a page that name its source, time and command line."""
    return IDENTITY.sub("", text)


def json_of(*words: str, document: Json | None = None, status: int = 0) -> Json:
    """Return the parsed output of a command with ``--json``; assert its exit status."""
    found: Json = json.loads(printed(*words, "--json", document=document, status=status))
    return found


def moved(plan: Json) -> list[str]:
    """Return the names of the instances that a plan moves, in order."""
    return [move["instance"] for move in plan["moves"]]


def plan_of(command: str, document: Json, *options: str, status: int = 0) -> Json:
    """Return the plan of `command`; assert that it passes verification and fits the schema."""
    plan = json_of(command, "--verify-plan", *options, document=document, status=status)
    conforms(plan, "plan")
    return plan


@contextlib.contextmanager
def _streams(stdin: bytes) -> Iterator[tuple[Any, Any]]:
    """Replace the standard streams by streams in memory, and yield stdout and stderr."""
    read = io.TextIOWrapper(io.BytesIO(stdin))
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") for _ in "oe"
    )
    with (
        mock.patch.object(sys, "stdin", read),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        yield out, err


def run_process(*arguments: str, stdin: bytes | None = None, **options: Any) -> Done:
    """Run the program as Ganeti does: without environment and terminal.

    `options` are for `subprocess.run`.
    """
    source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    settings = {"env": ENVIRONMENT, "cwd": "/", "timeout": PATIENCE, **streams, **source, **options}
    return subprocess.run([*COMMAND, *arguments], check=False, **settings)


def complaint(done: Done, status: int = 2) -> str:
    """Return the only line on stderr; assert the exit status, and that stdout is empty."""
    assert done.returncode == status, done
    assert not done.stdout, done
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, done
    assert lines[0].startswith("iallocator: "), done
    return lines[0].removeprefix("iallocator: ")


def dependencies(step: Json) -> list[int]:
    """Return the numbers of the steps on which `step` depends, in a plan or an answer to Ganeti."""
    numbers: list[int] = step["depends_on"] if "depends_on" in step else step["after"]
    return numbers
