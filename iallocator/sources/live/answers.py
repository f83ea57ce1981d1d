"""What a running cluster says of itself, in one form, whichever door it was asked at."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Answers", "Record"]

Record = dict[str, Any]
"""Field, as LUXI calls it -> value; None where there is none."""


class Answers(NamedTuple):
    """The answers to all questions, asked one after the other.

    Attributes
    ----------
    where:
        The socket, address or folder that they come from.
    info:
        The cluster.
    groups, nodes, instances, networks:
        Their fields, in the order in which they were answered.
    """

    where: str
    info: Record
    groups: list[Record]
    nodes: list[Record]
    instances: list[Record]
    networks: list[Record]
