"""Run the program in a new process, and find out which modules it loads."""

from __future__ import annotations

import subprocess
import sys

from .imports import PACKAGE

__all__ = ["run_with_modules"]

SCRIPT = """
import sys
before = set(sys.modules)
from iallocator.cli import main
program, *words = sys.argv[1:]
sys.argv = ["iallocator", *words]
main(program=program or None)
print("\\n", *sorted(set(sys.modules) - before), file=sys.stderr)
"""


def run_with_modules(
    *arguments: str, raw: bytes = b"", site: bool = False, program: str = ""
) -> tuple[str, set[str]]:
    """Return what a run of the program prints, and the modules that it loads.

    `raw`: its standard input. `program`: the name of the program of htools that it runs. `site`:
    whether installed libraries are found; they are usually not, because what an installation itself
    loads at start would hide what the program loads.
    """
    options = [] if site else ["-S"]
    command = [sys.executable, *options, "-c", SCRIPT, program, *arguments]
    done = subprocess.run(command, input=raw, capture_output=True, check=True, cwd=PACKAGE.parent)
    return done.stdout.decode(), set(done.stderr.decode().splitlines()[-1].split())
