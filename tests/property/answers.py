"""Provide documents and their answers as plain data; each is computed once."""

from __future__ import annotations

import json
from functools import lru_cache
from random import Random
from typing import Any

from iallocator.engine import read
from iallocator.model.instance import Instance
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.requests import Allocate, MultiAllocate
from iallocator.requests.existing import Request
from tests.builders import Json
from tests.command import respond
from tests.conformance.documents import document

__all__ = [
    "MOVES", "asked", "context_for", "newcomers", "response_to", "seeded", "shuffled",
]  # fmt: skip

MOVES = ("relocate", "node-evacuate", "change-group")
"""Request types that move existing instances."""


@lru_cache(maxsize=2000)
def seeded(seed: int, kind: str) -> Json:
    """Return the document generated from `seed`; callers must not change it."""
    return document(seed, kind)


@lru_cache(maxsize=10000)
def response_to(seed: int, kind: str, *options: str) -> Json:
    """Return the response to a generated document, which must not be changed."""
    return respond(seeded(seed, kind), *options)


def context_for(request: Json, settings: Settings | None = None) -> tuple[Context, Request]:
    """Return the context and the request that a handler gets for `request`."""
    settings = settings or Settings()
    cluster, wanted = read(json.dumps(request).encode(), settings)
    return Context(cluster, settings), wanted


def newcomers(wanted: Request) -> list[Instance]:
    """Return the new instances that a request describes."""
    if isinstance(wanted, Allocate):
        return [wanted.instance]
    if isinstance(wanted, MultiAllocate):
        return [one.instance for one in wanted.wanted]
    return []


def asked(request: Json) -> list[str]:
    """Return the names of the instances in a request."""
    raw = request["request"]
    if "name" in raw:
        return [raw["name"]]
    return [one if isinstance(one, str) else one["name"] for one in raw["instances"]]


def shuffled(value: Any, rng: Random) -> Any:
    """Return `value` with the members of every object in random order."""
    if isinstance(value, dict):
        members = list(value.items())
        rng.shuffle(members)
        return {key: shuffled(item, rng) for key, item in members}
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    return value
