"""Run the program once, with given arguments and files; return status, output and time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import time
import traceback
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from iallocator.cli import main

__all__ = ["FROZEN", "Case", "Outcome", "run"]

FROZEN = {"SOURCE_DATE_EPOCH": "1767323400"}
"""Environment that fixes the time in documents, so that two runs can be compared."""


class Case(NamedTuple):
    """The input of one run.

    ``arguments`` name files of ``files``; ``name`` is the origin of the case. The files in the
    folder `LUXI` have the answers of a running cluster's daemons.
    """

    name: str
    arguments: tuple[str, ...]
    files: dict[str, bytes]

    def dump(self) -> str:
        """Return the case as a JSON text that `load` reads."""
        files = {name: b64encode(raw).decode() for name, raw in self.files.items()}
        document = {"name": self.name, "arguments": self.arguments, "files": files}
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> Case:
        """Return the case in the file at `path`."""
        raw = json.loads(path.read_text())
        files = {name: b64decode(text) for name, text in raw["files"].items()}
        return cls(raw["name"], tuple(raw["arguments"]), files)


class Outcome(NamedTuple):
    """The result of one run.

    ``crash`` is the traceback of an exception, or "". ``seconds`` is the elapsed time; ``work`` is
    the processor time of the process.
    """

    status: int
    out: bytes
    err: str
    seconds: float
    work: float
    crash: str


def run(case: Case) -> Outcome:
    """Return the result of the program in this process, in a folder with the files of `case`."""
    frozen = mock.patch.dict(os.environ, FROZEN)
    with _folder(case.files), _daemons(case.files), frozen:
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        start, started, crash, status = time.perf_counter(), time.process_time(), "", -1
        saved = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            status = main(case.arguments)
        except BaseException:  # any exception is a finding
            crash = traceback.format_exc()
        finally:
            sys.stdout, sys.stderr = saved
        seconds, work = time.perf_counter() - start, time.process_time() - started
        out.flush()
        return Outcome(status, out.buffer.getvalue(), err.getvalue(), seconds, work, crash)


@contextlib.contextmanager
def _folder(files: dict[str, bytes]) -> Iterator[None]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as path:
        for name, raw in files.items():
            (Path(path) / name).parent.mkdir(exist_ok=True)
            (Path(path) / name).write_bytes(raw)
        before = Path.cwd()
        os.chdir(path)
        try:
            yield
        finally:
            os.chdir(before)


LUXI = "luxi/"
"""Folder of the answers to ``QueryClusterInfo``, and to ``Query`` for each kind of object."""


@contextlib.contextmanager
def _daemons(files: dict[str, bytes]) -> Iterator[None]:
    """Run daemons at a socket in the working folder if `files` has answers for them."""
    if not any(name.startswith(LUXI) for name in files):
        yield
        return
    from tests.live.fakes import fake_luxi

    def answer(method: str, arguments: list[Any]) -> bytes:
        name = arguments[0] if method == "Query" else method
        return b'{"success":true,"result":%s}\x03' % files.get(f"{LUXI}{name}", b"null")

    with fake_luxi(Path(), answer):
        yield
