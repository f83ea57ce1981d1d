"""Run `hail` on a document, and parse the answers of hail and iallocator."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

HAIL = Path("/usr/lib/ganeti/iallocators/hail")

PROGRAMS = "HTOOLS_PROGRAMS"
"""Environment variable with a folder of programs of another Ganeti release.

The folder has links with the names of all programs. ``--programs`` sets the variable. By default,
the installed programs are used.
"""

_NUMBER = r"-?\d[\d.]*"
_RESULT = re.compile(
    r"(?:Group (?P<name>\S+) \((?P<policy>[a-z_]+)\): )?"
    rf"(?:score: (?P<score>\(\[[-\d,.]*\],{_NUMBER}\)|{_NUMBER}), "
    r"successes (?P<successes>\d+), failures (?P<failures>\d+) \((?P<reasons>[^)]*)\)"
    r" for node\(s\) (?P<nodes>[^\s,;]+)"
    r"|No valid allocation solutions, failure reasons: "
    r"(?P<rejections>(?:\w+: \d+(?:, (?=\w+: \d))?)*))"
)
_ERROR = re.compile(
    r"Group (?P<name>[^\s:]+): error (?P<error>.*?)(?=, [Gg]roup |$)"
    r"|\bgroup (?P<other>\S+) (?P<network>is not connected to a network required by)"
)
_SELECTED = re.compile(r"Selected group: (?P<name>[^\s,]+)")
_REASON = re.compile(r"(\w+): (\d+)")
_MOVED = re.compile(r"(\d+) instances failed to \w+ and (\d+) were \w+ successfully")


@dataclass(frozen=True)
class GroupResult:
    """The part of an answer about one group.

    Attributes
    ----------
    group, policy
        The name and the alloc_policy of the group; empty where the answer names no group.
    score
        The best placement's score, lower being better: one number, or the lost
        allocations and the disk left in a dedicated group; empty without a placement.
    successes, failures
        Candidates that could be placed, and the others counted by reason.
    nodes
        The best placement.
    error
        Why the group was not tried at all.
    """

    group: str
    policy: str
    score: tuple[float, ...] = ()
    successes: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Answer:
    """The parts of an answer of hail, or of this program, that are compared.

    Attributes
    ----------
    status
        The exit status; if it is not 0, only `stderr` has a meaning.
    success, result, info
        The fields of the response.
    selected
        The group that `info` names as selected; "" if there is none.
    group_results
        The result of each group, in the order of `info`.
    counts
        The numbers (failed, done) of a request for several instances.
    solutions
        The ranked placements in an answer of this program; hail has none.
    """

    status: int
    stderr: str = ""
    success: bool = False
    result: Any = None
    info: str = ""
    selected: str = ""
    group_results: tuple[GroupResult, ...] = ()
    counts: tuple[int, int] | None = None
    solutions: tuple[Any, ...] = ()


def program(name: str) -> str:
    """Return the path or the command of the program `name` of htools."""
    if os.environ.get(PROGRAMS):
        return os.path.join(os.environ[PROGRAMS], name)
    return str(HAIL) if name == "hail" else name


def version() -> str:
    """Return the release of the programs, such as 3.0.

    The first line of ``hail --version`` ends with ``version 3.0.2-3``.
    """
    done = subprocess.run(
        [program("hail"), "--version"], capture_output=True, text=True, check=True
    )
    return ".".join(done.stdout.split("\n")[0].split()[-1].split(".")[:2])


def installed() -> bool:
    """Return whether `hail` is installed."""
    return Path(program("hail")).is_file()


def hail(document: dict[str, Any], *options: str) -> Answer:
    """Return the answer of `hail` to `document`, called as Ganeti calls it."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        command = [program("hail"), file.name, *options]
        done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
    stderr = done.stderr.decode(errors="replace")
    if done.returncode:
        return Answer(done.returncode, stderr)
    return read(done.stdout, stderr)


def read(response: bytes, stderr: str = "") -> Answer:
    """Return the parsed response; text after hail's message is ignored."""
    reply = json.loads(response)
    info = reply["info"]
    selected = _SELECTED.search(info)
    counts = _MOVED.search(info)
    return Answer(
        status=0,
        stderr=stderr,
        success=reply["success"],
        result=reply["result"],
        info=info,
        selected=selected["name"] if selected else "",
        group_results=() if counts else _group_results(info),
        counts=(int(counts[1]), int(counts[2])) if counts else None,
        solutions=tuple(reply.get("solutions", ())),
    )


def _group_results(info: str) -> tuple[GroupResult, ...]:
    """Return the results of the groups in `info`, in order."""
    found = [(match.start(), _result(match)) for match in _RESULT.finditer(info)]
    found += [
        (
            match.start(),
            GroupResult(
                match["name"] or match["other"], "", error=match["error"] or match["network"]
            ),
        )
        for match in _ERROR.finditer(info)
    ]
    return tuple(result for _, result in sorted(found, key=lambda pair: pair[0]))


def _result(match: re.Match[str]) -> GroupResult:
    group, policy = match["name"] or "", match["policy"] or ""
    if match["score"] is None:
        return GroupResult(group, policy, failures=_reasons(match["rejections"]))
    return GroupResult(
        group,
        policy,
        score=tuple(float(number) for number in re.findall(_NUMBER, match["score"])),
        successes=int(match["successes"]),
        failures=_reasons(match["reasons"]),
        nodes=tuple(match["nodes"].split("/")),
    )


def _reasons(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in _REASON.findall(text)}
