"""Define the compared policies: this program with some options, or hail.

Requests and answers are documents of Ganeti's protocol.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.life.rankings import RANKINGS, install
from benchmarks.life.simulated_cluster import Json, SimulatedCluster
from iallocator.cli import answer, main

__all__ = ["HAIL", "POLICIES", "Policy", "ask", "balanced"]

HAIL = "/usr/lib/ganeti/iallocators/hail"


class Policy(NamedTuple):
    """The options of this program; with `peer`, hail answers requests, and hbal's rules balance."""

    name: str
    options: tuple[str, ...] = ()
    peer: bool = False


POLICIES = {
    one.name: one
    for one in (
        Policy("hail", ("--compat=hail",), peer=True),
        Policy("strict", ("--n1=strict",)),
        Policy("no-new", ("--n1=no-new",)),
        Policy("no-worse", ("--n1=no-worse",)),
        Policy("off", ("--n1=off",)),
        *(
            Policy(name, ("--n1=no-worse", f"--strategy={name}"))
            for name in ("lost-allocations", *RANKINGS)
        ),
    )
}


def ask(policy: Policy, simulated: SimulatedCluster, request: Json) -> Json:
    """Return the answer of the policy to `request` about the current cluster."""
    if policy.name in RANKINGS:
        install()
    raw = json.dumps({**simulated.document, "request": request}).encode()
    if policy.peer:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            file.write(raw)
            file.flush()
            done = subprocess.run([HAIL, file.name], capture_output=True, check=True)
        raw = done.stdout
    else:
        raw = answer(raw, policy.options)
    found: Json = json.loads(raw)
    return found


def balanced(
    policy: Policy, simulated: SimulatedCluster, moves: int
) -> list[tuple[str, list[str]]]:
    """Return at most `moves` moves of a balancing plan: instance, and its new nodes."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        path.write_text(json.dumps(simulated.document), encoding="utf-8")
        words = ["balance", "--json", f"--max-length={moves}", *_planning(policy), str(path)]
        with contextlib.redirect_stdout(printed):
            main(words)
    gc.enable()  # a program that runs once does without garbage collection
    plan = json.loads(printed.buffer.getvalue())
    return [(move["instance"], move["to"]) for move in plan["moves"]]


def _planning(policy: Policy) -> list[str]:
    """Return the options of the policy that planners accept, too."""
    return [word for word in policy.options if not word.startswith("--strategy")]
