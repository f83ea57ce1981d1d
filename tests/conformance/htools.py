"""Compare the programs of htools with this project's programs of equal names.

``python -m tests.conformance.htools --cases 500`` generates command lines, runs Debian's program
and this project's with equal arguments, and compares standard output, standard error, exit status
and written files. It prints the first case of each kind of difference, and ends with status 1 if
there is one that the manual does not list (`listed`). Only these parts of the output may differ;
`neutral` replaces them: versions, help texts, the folders of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.conformance import oracle
from tests.paths import ROOT
from tests.patience import PATIENCE

from .command_lines import OPTIONS, Case, case
from .listed import reason

__all__ = ["KNOWN", "Ran", "difference", "ours", "theirs"]

LAUNCHER = """
import sys
from iallocator.compat import releases
from iallocator.compat.htools import run
releases.followed = lambda release=sys.argv.pop(1): release
status = run(sys.argv.pop(1), sys.argv[1:])
sys.stdout.flush()
sys.exit(status)
"""
"""A script that runs one of our programs.

Its arguments are the release to follow, the name, and the arguments of the program.
"""


KNOWN = "listed in the manual:"
"""The beginning of the description of a difference that the manual lists."""


class Ran(NamedTuple):
    """The result of a program: exit status, both streams, and written files."""

    status: int
    out: str
    err: str
    written: dict[str, str]


def neutral(text: str, folder: str) -> str:
    """Return `text` without versions, help texts and folders, which may differ."""
    text = text.replace(folder, "FOLDER")
    text = re.sub(r"(?s)\nUsage: .*", "\nUSAGE", text)  # help texts are our own
    text = re.sub(r"(?m)^( +(?:-\S+(?: [A-Z]+)? +)?--[-a-z]+\S*)  .*$", r"\1", text)
    text = re.sub(r"\(ganeti\) version \S+", "(ganeti) version V", text)
    text = re.sub(r"^(compiled with ghc|iallocator) \S+$", "BUILD", text, flags=re.MULTILINE)
    return re.sub(r"^running on .*$", "MACHINE", text, flags=re.MULTILINE)


def _run(command: list[str], case: Case, environment: dict[str, str]) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in case.files.items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        done = subprocess.run(
            [*command, *case.arguments], cwd=folder, env=environment, capture_output=True,
            text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        written = {
            path.name: path.read_text()
            for path in sorted(Path(folder).iterdir())
            if path.is_file() and path.name not in case.files
        }
        out, err = (neutral(text, folder) for text in (done.stdout, done.stderr))
        return Ran(done.returncode, out, err, written)


def theirs(case: Case) -> Ran:
    """Return the result of the installed program for `case`."""
    return _run([oracle.program(case.program)], case, dict(os.environ))


def ours(case: Case) -> Ran:
    """Return the result of our program for `case`, in the release of the installed one."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    release = _release(os.environ.get(oracle.PROGRAMS, ""))
    return _run([sys.executable, "-c", LAUNCHER, release, case.program], case, environment)


@cache
def _release(programs: str) -> str:
    """Return the release of the programs in a folder; of the installed ones if it is ""."""
    return oracle.version()


def difference(number: int, program: str = "") -> str:
    """Return how the results for a command line differ; "" if they do not.

    The text begins with `KNOWN` if the manual lists the cause of the difference.
    """
    one = case(number, program)
    peer, own = theirs(one), ours(one)
    if peer == own:
        return ""
    if cause := reason(one, peer, own, theirs):
        return f"{KNOWN} {one.program}: {cause}"
    if peer.status != own.status:
        return f"{one.program}: status {peer.status}, ours {own.status}"
    for what in ("out", "err"):
        for before, after in zip(
            [*getattr(peer, what).splitlines(), ""], [*getattr(own, what).splitlines(), ""]
        ):
            if before != after:
                return f"{one.program}: {what}: {before[:100]!r}, ours {after[:100]!r}"
        if getattr(peer, what) != getattr(own, what):
            return f"{one.program}: {what}: other number of lines"
    return f"{one.program}: files"


def _kind(found: str) -> str:
    """Return the text of a difference without numbers and names."""
    return found if found.startswith(KNOWN) else re.sub(r"-?\d+(\.\d+)?", "_", found)[:60]


def _all(numbers: range, program: str, jobs: int) -> Iterator[tuple[int, str]]:
    if jobs == 1:
        yield from ((number, difference(number, program)) for number in numbers)
        return
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(difference, numbers, [program] * len(numbers), chunksize=8)
        yield from zip(numbers, found)


def main() -> int:
    """Run the comparison; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--program", default="", choices=["", *OPTIONS])
    parser.add_argument("--show", type=int, help="print one case and both results")
    parser.add_argument("--programs", default="", help="a folder with programs of another release")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.programs:
        os.environ[oracle.PROGRAMS] = given.programs
    if given.show is not None:
        one = case(given.show, given.program)
        print(json.dumps(one, indent=1).replace("\\n", "\n"))
        for name, ran in (("theirs", theirs(one)), ("ours", ours(one))):
            print(f"== {name}: {ran.status}\n{ran.out}-- stderr\n{ran.err}")
            for file, text in ran.written.items():
                print(f"-- {file}\n{text}")
        return 0
    kinds: Counter[str] = Counter()
    first: dict[str, str] = {}
    numbers = range(given.start, given.start + given.cases)
    for number, found in _all(numbers, given.program, given.jobs):
        if found:
            kinds[_kind(found)] += 1
            first.setdefault(_kind(found), f"{number}: {found}")
    for kind, count in kinds.most_common():
        print(f"{count:5} {first[kind]}")
    known = sum(count for kind, count in kinds.items() if kind.startswith(KNOWN))
    print(f"{given.cases} command lines, {kinds.total()} differ, {known} as listed in the manual")
    return int(kinds.total() > known)


if __name__ == "__main__":
    sys.exit(main())
