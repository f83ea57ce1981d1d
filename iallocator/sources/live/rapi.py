"""The questions that are asked through RAPI, or were: a folder may hold the answers."""

from __future__ import annotations

from typing import Any, Protocol

from iallocator.errors import RequestError, UsageError
from iallocator.files import read_file
from iallocator.live.errors import LiveError
from iallocator.sources.live.answers import Answers, Record
from iallocator.wire.read import decode_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.deadline import Deadline

__all__ = ["FILE", "Door", "StoredAnswers", "ask_rapi"]

FILE = "file://"
"""What an address begins with that is a folder."""

QUESTIONS = {
    "info": "/2/info",
    "groups": "/2/groups?bulk=1",
    "nodes": "/2/nodes?bulk=1",
    "instances": "/2/instances?bulk=1",
    "networks": "/2/networks?bulk=1",
}
"""Name, of the file, too -> what is asked."""


class Door(Protocol):
    """Where the questions are asked."""

    base: str

    def get(self, path: str, deadline: Deadline) -> Any:
        """The JSON value at `path`, all of it before `deadline`."""


class StoredAnswers:
    """The folder of an address ``file://FOLDER``; networks may be missing there.

    They are read where they are asked for, so that a damaged one is named.
    """

    def __init__(self, address: str, limit: int) -> None:
        self.base = address
        self._limit = limit
        self._folder = address.removeprefix(FILE)

    def get(self, path: str, deadline: Deadline) -> Any:
        """What the file says that has the answer at `path`."""
        name = next(name for name, asked in QUESTIONS.items() if asked == path)
        file = f"{self._folder}/{name}.json"
        if name == "networks":
            import os

            if not os.path.exists(file):
                return []
        try:
            return decode_any(read_file(file, self._limit))
        except RequestError as error:
            raise UsageError(f"{file}: {error}") from None


def ask_rapi(door: Door, deadline: Deadline) -> Answers:
    """What RAPI says, or has said; all before `deadline`.

    Raises
    ------
    LiveError, UsageError
        If it does not answer, or something else.
    """
    said = {name: door.get(path, deadline) for name, path in QUESTIONS.items()}
    info = said.pop("info")
    if not isinstance(info, dict):
        raise LiveError(f"{door.base}: {QUESTIONS['info']}", "expected an object")
    for name, records in said.items():
        if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
            raise LiveError(f"{door.base}: {QUESTIONS[name]}", "expected a list of objects")
    return Answers(
        door.base,
        info,
        said["groups"],
        [_node(raw) for raw in said["nodes"]],
        [_instance(raw) for raw in said["instances"]],
        said["networks"],
    )


def _node(raw: Record) -> Record:
    """The fields of a node under the names that they have in LUXI."""
    return {**raw, **_named("ndp/", raw.get("ndparams"))}


def _instance(raw: Record) -> Record:
    """The fields of an instance; the memory is what it uses now, if that is known."""
    record = {**raw, **_named("be/", raw.get("beparams"))}
    used = raw.get("oper_ram")
    if isinstance(used, int | float) and not isinstance(used, bool):
        record["be/memory"] = used
    return record


def _named(prefix: str, parameters: Any) -> Record:
    if not isinstance(parameters, dict):
        return {}
    return {prefix + key: value for key, value in parameters.items()}
