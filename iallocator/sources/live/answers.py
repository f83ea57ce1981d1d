"""What a running cluster says of itself, in one form, whichever door it was asked at."""

from __future__ import annotations

from typing import Any, NamedTuple

from iallocator.live.errors import LiveError
from iallocator.wire.fields import describe

__all__ = ["Answers", "Record", "check_kinds"]

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


TEXTS = {
    "info": ("master", "default_hypervisor"),
    "groups": ("uuid", "name"),
    "nodes": ("name", "group.uuid"),
    "instances": ("name", "pnode", "status"),
    "networks": ("uuid", "name"),
}
"""Answer -> fields that are text, if they are there."""

LISTS = {
    "info": ("enabled_hypervisors",),
    "groups": (),
    "nodes": (),
    "instances": (
        "snodes", "disk.sizes", "disk.spindles", "nic.networks", "nic.macs", "nic.ips", "nic.modes",
        "nic.links",
    ),
    "networks": ("group_list",),
}  # fmt: skip
"""Answer -> fields that are lists, if they are there."""


def check_kinds(answers: Answers) -> None:
    """See to it that names are text and lists are lists; the reader of documents knows the rest.

    Raises
    ------
    LiveError
        At the first that is something else.
    """
    for what, texts in TEXTS.items():
        said = getattr(answers, what)
        for raw in [said] if what == "info" else said:
            for field in texts:
                _check(answers.where, what, field, raw.get(field), str)
            for field in LISTS[what]:
                _check(answers.where, what, field, raw.get(field), list)
            for name in raw.get("snodes") or ():
                _check(answers.where, what, "snodes", name, str)


def _check(where: str, what: str, field: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        expected = "a string" if kind is str else "a list"
        raise LiveError(where, f"{what}: {field}: expected {expected}, got {describe(value)}")
