"""Describe the effect of an option, and build small clusters on which options have effects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.builders import Json, allocate_rbd, cluster, instance, rbd
from tests.paths import FIXTURES

__all__ = ["OVERLOADED", "TEXT", "Effect", "Json", "batch", "rbd", "stored"]


@dataclass(frozen=True)
class Effect:
    """An option and the input on which it changes the output.

    Attributes
    ----------
    document:
        The document to read; None if another option names the cluster.
    option:
        The option with its value.
    words:
        The arguments given with and without the option.
    files:
        Name -> content of a file in the folder of the test.
    """

    document: Json | None
    option: str
    words: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


def stored(case: str, option: str, *words: str) -> Effect:
    """Return the effect of `option` on a request or cluster stored in ``fixtures``."""
    request, text = FIXTURES / case / "request.json", FIXTURES / case / "cluster.data"
    if request.exists():
        return Effect(json.loads(request.read_text()), option, words)
    files = {"cluster.data": text.read_text()}
    return Effect(None, option, ("-t", "{folder}/cluster.data", *words), files)


def batch(document: Json, *names: str, **members: Any) -> Json:
    """Return `document` with a request for several instances on shared storage."""
    one = allocate_rbd(document, **members)["request"]
    wanted = [{**one, "name": name} for name in names]
    return {**document, "request": {"type": "multi-allocate", "instances": wanted}}


OVERLOADED = cluster(
    4,
    instances={
        **{f"d{k}": instance("node1", "node2") for k in range(3)},
        **{f"r{k}": rbd("node1", memory=512 + 128 * k) for k in range(3)},
    },
)
"""A cluster with nearly all instances on the first node."""

TEXT = (FIXTURES / "balance/crowded-pair/cluster.data").read_text()
