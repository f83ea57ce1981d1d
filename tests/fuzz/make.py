"""Generate fuzz cases with random values at random places; equal numbers give equal cases."""

from __future__ import annotations

import json
from functools import cache
from random import Random

from tests.builders import Json
from tests.conformance.documents import KINDS, document
from tests.paths import FIXTURES

from .case import Case
from .mutate import damage, damage_bytes, damage_text, raw_of
from .values import odd_text

__all__ = ["make"]


PLANNERS = (
    "balance", "squeeze", "redistribute", "compress", "balance-groups", "check", "capacity",
    "place", "reboot", "maintain", "repair", "rescue", "constraints", "config", "make-room",
)  # fmt: skip

REQUEST_OPTIONS = (
    "--n1=strict", "--n1=off", "--no-capacity-checks", "--ignore-soft-errors", "--ignore-dynu",
    "--restrict-allocation-to=node1,node2", "--static-kvm-node-memory=0", "--compat=hail",
    "--inter-group=yes", "--exact-search=no", "--optimal", "--strategy=affinity",
    "--strategy=minimal", "--strategy=balanced", "--strategy=utilization",
    "--strategy=lost-allocations", "--stickiness=100", "--top=3", "--affinity-overhead=0",
    "--initial-msav=5", "--msav-steps=3", "--seed=7", "-v", "--validate", "--print-nodes",
    "--print-instances", "-Ssaved",
)  # fmt: skip

PLANNER_OPTIONS = {
    "balance": (
        "--lookahead", "--cost=3", "--evac-mode", "--no-disk-moves", "-Onode1", "-l3",
        "--all-groups", "--verify-plan", "--graph=-", "-C", "--n1=off", "--n1=strict",
        "--compat=hail", "--max-cpu=1.5", "--min-disk=0.5", "-Uloads", "-p", "-Ssaved",
        "--select-instances=i1", "--ignore-soft-errors", "--restricted-migration",
    ),
    "squeeze": (
        "--drbd", "--all", "--verify-plan", "--target-resources=0", "--minimal-resources=9",
        "--master-node=node1", "--graph=x.svg", "-C", "--n1=off", "--compat=hail",
    ),
    "redistribute": ("--verify-plan", "-C", "--n1=off", "--graph=-"),
    "compress": ("--verify-plan", "-C", "--n1=strict", "--graph=-"),
    "balance-groups": ("--verify-plan", "-C", "--max-length=3", "--cost=1"),
    "check": ("--compat=hail", "--no-simulation", "-l3", "--n1=strict", "--failures=2", "--racks"),
    "capacity": (
        "--tiered-alloc=2g,2g,2", "--standard-alloc=1g,1g,1", "-l5", "--disk-template=drbd",
        "--machine-readable", "--compat=hail", "--disk-template=rbd", "-p", "--replay=past",
        "--replay=past",
    ),
    "place": (
        "--strategy=minimal", "--strategy=balanced", "--strategy=utilization", "--verify-plan",
        "-C", "--stickiness=5", "--graph=-", "--n1=off",
    ),
    "reboot": (
        "--force", "--master-node=node1", "--full-evacuation", "--print-moves", "--one-step-only",
        "--offline-maintenance", "--verify-plan", "-C", "--n1=off", "--ignore-non-redundant",
    ),
    "maintain": (
        "--force", "--master-node=node1", "--full-evacuation", "--after=stay", "--after=balance",
        "--parallel=1", "--verify-plan", "-C", "--run=ssh {node} reboot", "--only=node1,node2",
        "--skip=node1", "--local-node=node2",
    ),
    "repair": ("--dry-run", "--job-delay=3"),
    "rescue": ("--dry-run", "--return", "--master-node=node1", "--verify-plan", "-C", "--n1=off"),
    "make-room": ("--make-room=1", "--n1=off", "--cost=1", "-C", "--graph=-", "--verify-plan"),
    "constraints": ("--strategy=affinity",),
    "config": ("--strategy=affinity",),
}  # fmt: skip
"""Command -> options, of which a case has some; the command may reject them."""


@cache
def _fixtures() -> tuple[bytes, ...]:
    found = sorted(FIXTURES.glob("*/*/request.json")) + sorted(FIXTURES.glob("*/*.request.json"))
    return tuple(path.read_bytes() for path in found)


@cache
def _texts() -> tuple[str, ...]:
    return tuple(path.read_text() for path in sorted(FIXTURES.glob("*/*/cluster.data")))


def make(number: int) -> Case:
    """Return the random case number `number`; equal numbers give equal cases."""
    rng = Random(f"fuzz/{number}")
    build = rng.choice((_request, _request, _request, _explain, _planner, _planner, _text, _spec))
    return build(rng, f"{build.__name__[1:]} {number}")


def _document(rng: Random) -> bytes:
    if rng.random() < 0.4:
        raw = rng.choice(_fixtures())
        if rng.random() < 0.1:
            return damage_bytes(rng, raw)
        whole: Json = json.loads(raw)
    else:
        whole = document(rng.randrange(10**6), rng.choice(KINDS))
    damage(rng, whole)
    return raw_of(whole)


def _some(rng: Random, options: tuple[str, ...], most: int = 3) -> list[str]:
    return rng.sample(options, min(len(options), rng.randint(0, most)))


def _request(rng: Random, name: str) -> Case:
    return Case(name, (*_some(rng, REQUEST_OPTIONS), "doc"), {"doc": _document(rng)})


def _explain(rng: Random, name: str) -> Case:
    shape = rng.choice(([], ["--json"], ["--brief"]))
    arguments = ("explain", *shape, *_some(rng, REQUEST_OPTIONS, 2), "doc")
    return Case(name, arguments, {"doc": _document(rng)})


def _options(rng: Random) -> list[str]:
    command = rng.choice(PLANNERS)
    shape = ["--json"] if rng.random() < 0.6 else []
    node = [rng.choice(("node1", "node2", "i1"))] if command == "rescue" else []
    return [command, *node, *shape, "--time-limit=1", *_some(rng, PLANNER_OPTIONS[command])]


def _loads(rng: Random) -> bytes:
    lines = [
        " ".join(
            [rng.choice(("i1", odd_text(rng))), *rng.choices(("1", "0.5", "nan", "1e308"), k=4)]
        )
        for _ in range(3)
    ]
    return "\n".join(lines).encode("utf-8", "replace")


def _planner(rng: Random, name: str) -> Case:
    arguments = (*_options(rng), "doc")
    files = {"doc": _document(rng), "loads": _loads(rng)}
    if "--replay=past" in arguments:
        files |= {"past/1.json": _document(rng), "past/2.json": files["doc"]}
    return Case(name, arguments, files)


def _text(rng: Random, name: str) -> Case:
    raw = damage_text(rng, rng.choice(_texts())).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        raw = damage_bytes(rng, raw)
    return Case(name, (*_options(rng), "-t", "data"), {"data": raw, "loads": _loads(rng)})


def _spec(rng: Random, name: str) -> Case:
    numbers = ("0", "1", "4", "3g", "100G", "16g", "0" * 5000, "-1", "x", "9" * 400, "1e9", "2t")
    fields = ["preferred", "3", "100g", "16g", "4"] + (["2"] if rng.random() < 0.5 else [])
    for _ in range(rng.randint(0, 2)):
        fields[rng.randrange(len(fields))] = rng.choice(numbers)
    return Case(name, (*_options(rng), f"--simulate={','.join(fields)}"), {"loads": _loads(rng)})
