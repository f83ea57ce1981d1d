"""Run `hbal` on a text file, and parse its plan."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance import oracle
from tests.patience import PATIENCE

__all__ = ["HbalPlan", "as_text", "hbal", "installed"]

_MOVE = re.compile(r"\s*\d+\. (\S+)\s+(\S+)\s+=> (\S+)\s+([\d.e-]+) a=(.*)")
_INITIAL = re.compile(r"Initial score: ([\d.]+)")


class HbalPlan(NamedTuple):
    """The plan that hbal printed: the first score, the moves, and all output.

    Each move has the score after it, the instance, and the move in hbal's notation.
    """

    before: float
    moves: list[tuple[str, float, str]]
    output: str

    @property
    def scores(self) -> list[float]:
        """Return the first score, and the score after each move with a gain."""
        scores = [self.before, *(score for _, score, _ in self.moves)]
        while len(scores) > 1 and scores[-2] - scores[-1] < 1e-8:
            scores.pop()  # hbal makes moves that gain no more than rounding
        return scores


def installed() -> bool:
    """Return whether `hail` and `hbal` are installed."""
    return oracle.installed() and shutil.which("hbal") is not None


def as_text(document: dict[str, Any], folder: Path) -> Path:
    """Return the cluster of a document as a text file, written by hail."""
    path = folder / "document.json"
    path.write_text(json.dumps(document))
    command = [str(oracle.HAIL), str(path), "-S", str(folder / "cluster")]
    subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
    return folder / "cluster.pre-ialloc"


def hbal(path: Path, *options: str) -> HbalPlan | None:
    """Return hbal's plan for a text file; None if hbal has nothing to do."""
    done = subprocess.run(
        ["hbal", "-t", str(path), *options],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    initial = _INITIAL.search(done.stdout)
    if not initial:
        return None
    lines = map(_MOVE.match, done.stdout.splitlines())
    moves = [(m[1], float(m[4]), m[5].strip()) for m in lines if m]
    return HbalPlan(float(initial[1]), moves, done.stdout)
