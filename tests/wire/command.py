"""Running the real command, and what is said of a refusal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import iallocator

from .corpus import Json, as_raw, base

__all__ = ["COMMAND", "ENVIRONMENT", "complaint", "good", "refusal", "run"]

ROOT = Path(iallocator.__file__).parents[1]
COMMAND = [sys.executable, "-m", "iallocator"]
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}

Done = subprocess.CompletedProcess[bytes]


def run(*arguments: str, stdin: bytes | None = None, **options: Any) -> Done:
    """Run the program as Ganeti does: no environment, no terminal, anywhere."""
    source: Json = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **source, **options}
    return subprocess.run(
        [*COMMAND, *arguments], env=ENVIRONMENT, cwd="/", timeout=120, check=False, **settings
    )


def complaint(done: Done, status: int = 2) -> str:
    """What the only line on stderr says; nothing is on stdout."""
    assert done.returncode == status, done
    assert not done.stdout, done
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, done
    assert lines[0].startswith("iallocator: "), done
    return lines[0].removeprefix("iallocator: ")


def refusal(raw: bytes) -> str:
    """What the program says of a document that it cannot understand."""
    return complaint(run("-", stdin=raw))


def good(**members: Any) -> bytes:
    """A document that is answered."""
    return as_raw({**base("modern", "allocate"), **members})
