"""Compare the programs of htools with ours of the same names, on generated command lines.

``python -m tests.conformance.htools --cases 500`` runs Debian's program and ours with equal
arguments and compares standard output, standard error, exit status and written files. It prints
the first cases of each kind of difference, and ends with status 1 if there are any.

Only these parts of the output may differ; `neutral` replaces them: versions, help texts, the
folders of the programs.
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
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.command import ROOT
from tests.conformance import oracle
from tests.patience import PATIENCE

__all__ = ["Case", "Ran", "case", "difference", "ours", "theirs"]

LAUNCHER = """
import sys
from iallocator.compat.htools import run
status = run(sys.argv.pop(1), sys.argv[1:])
sys.stdout.flush()
sys.exit(status)
"""
"""Runs one of our programs: its name, then its arguments."""


class Case(NamedTuple):
    """A program with its arguments, and the files that they name, without their folder."""

    program: str
    arguments: tuple[str, ...]
    files: dict[str, str]


class Ran(NamedTuple):
    """The exit status, both streams, and the files that were written."""

    status: int
    out: str
    err: str
    written: dict[str, str]


def neutral(text: str, folder: str) -> str:
    """Return `text` without what may differ."""
    text = text.replace(folder, "FOLDER")
    text = re.sub(r"(?s)\nUsage: .*", "\nUSAGE", text)  # help texts are our own
    text = re.sub(r"(?m)^(    --?[-a-z]+\S*)  .*$", r"\1", text)
    text = re.sub(r"\(ganeti\) version \S+", "(ganeti) version V", text)
    text = re.sub(r"^(compiled with ghc|iallocator) \S+$", "BUILD", text, flags=re.MULTILINE)
    return re.sub(r"^running on .*$", "MACHINE", text, flags=re.MULTILINE)


def _run(command: list[str], case: Case, environment: dict[str, str]) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in case.files.items():
            (Path(folder) / name).write_text(text)
        done = subprocess.run(
            [*command, *case.arguments], cwd=folder, env=environment, capture_output=True,
            text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        written = {
            path.name: path.read_text()
            for path in sorted(Path(folder).iterdir())
            if path.name not in case.files
        }
        out, err = (neutral(text, folder) for text in (done.stdout, done.stderr))
        return Ran(done.returncode, out, err, written)


def theirs(case: Case) -> Ran:
    """Run the installed program."""
    program = str(oracle.HAIL) if case.program == "hail" else case.program
    return _run([program], case, dict(os.environ))


def ours(case: Case) -> Ran:
    """Run our program."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return _run([sys.executable, "-c", LAUNCHER, case.program], case, environment)


def cluster_text(rng: Random) -> str:
    """Return a small cluster in htools' text format."""
    groups = [("default", "uuid-1")] + [("other", "uuid-2")] * (rng.random() < 0.25)
    domain = rng.choice(["", "", ".example.com"])
    nodes = [
        (f"node{number:02}{domain}", rng.choice(groups)[1]) for number in range(rng.randint(2, 8))
    ]
    even = rng.random() < 0.3
    memory = {name: 16384 if even else rng.choice([8192, 16384, 32768]) for name, _ in nodes}
    disk = {name: 204800 if even else rng.choice([102400, 204800, 409600]) for name, _ in nodes}
    free, left = dict(memory), dict(disk)
    templates = rng.choice([["drbd"], ["drbd", "plain"], ["rbd"], ["ext", "drbd", "plain"]])
    lines = []
    tags = rng.random() < 0.2
    for number in range(rng.randint(0, 14)):
        size = 1024 if even else rng.choice([512, 1024, 2048, 4096])
        space = 10240 if even else rng.choice([1024, 5120, 20480])
        template = rng.choice(templates)
        name, uuid = rng.choice(nodes)
        mates = [other for other, group in nodes if group == uuid and other != name]
        if template == "drbd" and not mates:
            continue
        secondary = rng.choice(mates) if template == "drbd" else ""
        status = rng.choice(["running"] * 8 + ["ADMIN_down", "ERROR_down"])
        if status != "ADMIN_down":
            free[name] -= size
        if template in ("drbd", "plain"):
            left[name] -= space
            if secondary:
                left[secondary] -= space
        tag = rng.choice(["", "web:a", "web:b"]) if tags else ""
        auto = rng.choice("YYYN")
        lines.append(
            f"inst{number}{domain}|{size}|{space}|{rng.randint(1, 4)}|{status}|{auto}|{name}|"
            f"{secondary}|{template}|{tag}|1|-"
        )
    down = rng.choice([name for name, _ in nodes]) if rng.random() < 0.25 else ""
    master = rng.choice([name for name, _ in nodes]) if rng.random() < 0.3 else ""
    standby = "htools:standby:1" if rng.random() < 0.5 else ""
    rows = [
        f"{name}|{memory[name]}|0|{free[name]}|{disk[name]}|{left[name]}|{rng.choice([4, 8, 16])}|"
        f"{'Y' if name == down else 'M' if name == master else 'N'}|{uuid}|1|"
        f"{standby if name == down else ''}|N|0|1|1.0"
        for name, uuid in nodes
    ]
    parts = [
        "".join(f"{name}|{uuid}|preferred||\n" for name, uuid in groups),
        "".join(f"{row}\n" for row in rows),
        "".join(f"{line}\n" for line in lines),
        "htools:iextags:web\n" if tags else "",
        "",
    ]
    return "\n".join(parts)


OPTIONS: dict[str, list[str]] = {
    "hbal": ["-p", "-p+", "-pname,fmem", "--print-instances", "-C", "-Cscript", "-Ssaved", "-v",
             "-v -v", "-q", "-l 2", "-l 0", "-e 1", "-g 0.5", "--min-gain-limit 5",
             "--no-disk-moves", "--no-instance-moves", "--evac-mode", "--restricted-migration",
             "--max-cpu 1", "--min-disk 0.5", "--ignore-soft-errors", "--exclusion-tags web",
             "--ignore-dynu", "-O node01", "-O nothing", "-G default", "-G uuid-1", "-G nothing",
             "--select-instances inst0,inst1", "--exclude-instances inst0", "-l x", "--no-such",
             "-vvp", "--print-n", "--no", "-X", "word"],
    "hinfo": ["-p", "--print-instances", "-v", "-v -v", "-q", "-O node01", "--ignore-dynu",
              "-pname", "word"],
    "hcheck": ["--machine-readable", "--machine-readable=no", "--no-simulation",
               "--no-capacity-checks", "-v", "-q", "-O node01", "-l 1", "--no-disk-moves",
               "--max-cpu 1", "--min-disk 0.4", "--machine-readable=x"],
    "hspace": ["-p", "-v", "-v -v", "-q", "--machine-readable", "--disk-template drbd",
               "--disk-template rbd", "--disk-template plain", "-l 3", "--max-cpu 2",
               "--min-disk 0.3", "--standard-alloc 10g,1g,1", "--tiered-alloc 20g,4g,2",
               "--independent-groups", "--accept-existing-errors", "--no-capacity-checks",
               "--spindle-use 2", "-O node01", "-Ssaved", "--standard-alloc 1,2"],
    "hsqueeze": ["-v", "-C", "-Cscript", "--no-headers", "-Ssaved", "--minimal-resources 1",
                 "--target-resources 3", "--target-resources 10", "-X"],
    "hroller": ["-f", "-f", "-f", "-f --print-moves", "--full-evacuation", "--one-step-only",
                "--no-headers", "--offline-maintenance", "--skip-non-redundant",
                "--ignore-non-redundant", "-v", "-G default", "-O node01", "-Ssaved",
                "--node-tags x"],
}  # fmt: skip
"""Program -> options, of which a command line has some."""

FREQUENT = ("hbal", "hbal", "hbal", "hcheck", "hinfo", "hspace", "hspace", "hsqueeze", "hroller")


def case(number: int, program: str = "") -> Case:
    """Return the command line with this number, of any program or of `program`."""
    rng = Random(f"htools/{number}")
    chosen = rng.choice(FREQUENT)
    program = program or chosen
    arguments: list[str] = []
    for option in rng.sample(OPTIONS[program], rng.choice([0, 1, 1, 2, 3])):
        arguments += option.split()
    files = {"cluster.data": cluster_text(rng)}
    if program == "hspace" and rng.random() < 0.2:
        arguments += ["--simulate", f"p,{rng.randint(2, 6)},{rng.randint(20, 90)}g,16g,8"]
        return Case(program, tuple(arguments), {})
    return Case(program, ("-t", "cluster.data", *arguments), files)


def difference(number: int, program: str = "") -> str:
    """Return how the results for a command line differ; "" if they do not."""
    one = case(number, program)
    peer, own = theirs(one), ours(one)
    if peer == own:
        return ""
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
    """Return the category of a difference: its text without numbers and names."""
    return re.sub(r"-?\d+(\.\d+)?", "_", found)[:60]


def _all(numbers: range, program: str, jobs: int) -> Iterator[tuple[int, str]]:
    if jobs == 1:
        yield from ((number, difference(number, program)) for number in numbers)
        return
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(difference, numbers, [program] * len(numbers), chunksize=8)
        yield from zip(numbers, found)


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--program", default="", choices=["", *OPTIONS])
    parser.add_argument("--show", type=int, help="print one case and both results")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    given = parser.parse_args()
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
    print(f"{given.cases} command lines, {kinds.total()} differ")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
