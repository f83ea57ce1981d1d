"""Names of the files of captured calls, and a summary of a request in a few words."""

from __future__ import annotations

import os

from iallocator.errors import UsageError, assert_never
from iallocator.requests import (
    Allocate,
    AllocateSecondary,
    ChangeGroup,
    MultiAllocate,
    MultiEvacuate,
    NodeEvacuate,
    Relocate,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.requests import Request

__all__ = [
    "ARGS",
    "CALL",
    "CONF",
    "KINDS",
    "REQUEST",
    "RESPONSE",
    "asked",
    "file_of",
    "next_number",
    "numbered",
    "referred",
    "request_path",
]

ARGS, CONF, REQUEST, RESPONSE, CALL = KINDS = (
    "args", "conf", "request.json.gz", "response.json.gz", "call.json",
)  # fmt: skip

LONGEST = 18
"""Digits of a number, at most."""

DIGITS = 6
"""Of a number, at least; names are in the order of numbers up to a million calls."""


def file_of(folder: str, number: int, kind: str) -> str:
    """The path of one file of a call."""
    return os.path.join(folder, f"{number:0{DIGITS}}.{kind}")


def numbered(folder: str) -> dict[int, list[str]]:
    """The calls in `folder`: number -> the names of its files, half-written ones too.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    found: dict[int, list[str]] = {}
    for name in os.listdir(folder):
        digits, _, kind = name.removeprefix(".").partition(".")
        whole = kind in KINDS and not name.startswith(".")
        half = name.startswith(".") and name.endswith(".new")
        known = DIGITS <= len(digits) <= LONGEST and digits.isascii() and digits.isdigit()
        if (whole or half) and known and digits == f"{int(digits):0{DIGITS}}":
            found.setdefault(int(digits), []).append(name)
    return found


def next_number(taken: Collection[int]) -> int:
    """Return the number of the next call after those that are `taken`.

    A file of someone else may have the largest number there is.  Calls then continue after
    the largest one that is followed by a free number.
    """
    number = max(taken, default=0) + 1
    while len(str(number)) > LONGEST or number in taken:
        number = max((one for one in taken if one + 1 < number), default=0) + 1
    return number


def referred(text: str) -> tuple[str, int] | None:
    """``FOLDER#7`` as folder and number; None if `text` is none, or the name of a file."""
    folder, sign, digits = text.rpartition("#")
    known = digits.isascii() and digits.isdigit() and len(digits) <= LONGEST
    if not sign or not known or os.path.exists(text):
        return None
    return folder or ".", int(digits)


def request_path(text: str) -> str:
    """The file with the request of ``FOLDER#7``; any other `text` as it is.

    Raises
    ------
    UsageError
        If there is no such call.
    """
    reference = referred(text)
    if reference is None:
        return text
    path = file_of(*reference, REQUEST)
    if not os.path.isfile(path):  # a pipe of somebody else's would be waited for
        raise UsageError(f"{text}: no such call; iallocator history {reference[0]} lists them")
    return path


NAMED = 3
"""Instances of a request whose names are told."""


def asked(cluster: Cluster, request: Request) -> str:
    """Return a summary of `request` without its type: instances, nodes and groups."""
    if isinstance(request, Allocate):
        new = request.instance
        return (
            f"{new.name}: {new.template}, {new.memory} MiB memory, {new.disk} MiB disk, "
            f"{new.vcpus} vcpus{_where(request.group_name)}"
        )
    if isinstance(request, MultiAllocate):
        return _names([one.instance for one in request.wanted])
    if isinstance(request, AllocateSecondary):
        return request.instance.name
    if isinstance(request, Relocate):
        return f"{request.instance.name} from {cluster.nodes[request.source].name}"
    if isinstance(request, NodeEvacuate):
        return f"{_names(request.instances)}; {request.mode}"
    if isinstance(request, ChangeGroup):
        targets = [group.name for group in request.targets or ()]
        return _names(request.instances) + _where(", ".join(targets))
    if not isinstance(request, MultiEvacuate):
        assert_never(request)
    return ", ".join(cluster.node_names(tuple(request.nodes)))


def _names(instances: Sequence[Instance]) -> str:
    names = [instance.name for instance in instances]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "nobody"


def _where(groups: str | None) -> str:
    return f" in {groups}" if groups else ""
