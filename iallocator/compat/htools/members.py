"""Read JSON values, and report problems in the words of htools.

Scripts and tests match these messages. A reader is a function that returns a value, or raises
`Problem` for a value of another type.
"""

from __future__ import annotations

from iallocator.compat.htools.json_syntax import syntax_error
from iallocator.model.templates import TEMPLATES
from iallocator.sources.text import POLICY_OF_WORD, STATE_OF_STATUS
from iallocator.wire.codec import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reader = Callable[[Any], Any]

__all__ = [
    "ALLOC_POLICY", "HYPERVISOR", "INSTANCE_STATUS", "IPOLICY", "TEMPLATE", "Members", "Problem",
    "array", "choice", "flag", "items", "list_of", "objects", "parsed", "real", "spaced",
    "spindles", "string", "whole",
]  # fmt: skip


class Problem(Exception):  # noqa: N818 - not an error of this program
    """An error in a value; the message is that of htools."""


def string(value: Any) -> str:
    """Return `value`, which must be a text; htools read a list of characters as a text, too."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise Problem("Unable to read String")
    if not all(isinstance(one, str) and len(one) == 1 for one in value):
        raise Problem("Unable to read Char")
    return "".join(value)


def _number(value: Any, kind: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Problem(f"Unable to read {kind}")
    return value


def whole(value: Any) -> float:
    """Return `value`, a number that the protocol defines as whole; htools accept fractions, too."""
    return _number(value, "Int")


def real(value: Any) -> float:
    """Return `value`, which must be a number."""
    return _number(value, "Double")


def flag(value: Any) -> bool:
    """Return `value`, which must be true or false."""
    if not isinstance(value, bool):
        raise Problem("Unable to read Bool")
    return value


def items(value: Any) -> dict[str, Any]:
    """Return `value`, which must be an object."""
    if not isinstance(value, dict):
        raise Problem("Unable to read JSObject")
    return value


def list_of(read: Reader) -> Reader:
    """Return the reader of a list of values that `read` reads."""

    def reader(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Problem("Unable to read list")
        return [read(one) for one in value]

    return reader


def choice(kind: str, names: frozenset[str]) -> Reader:
    """Return a reader of a text that must be one of `names`; `kind`: their type in messages."""

    def reader(value: Any) -> str:
        try:
            text = string(value)
        except Problem as problem:
            raise Problem(f"Can't parse value for '{kind}': {problem}") from None
        if text not in names:
            raise Problem(f"Invalid string value for type {kind}: {dumps(text)}")
        return text

    return reader


def _record(fields: dict[str, Reader]) -> Reader:
    """Return the reader of an object with all of `fields`."""

    def reader(value: Any) -> dict[str, Any]:
        raw = items(value)
        for key, read in fields.items():
            if key not in raw:
                raise Problem(_absent(key, raw))
            try:
                read(raw[key])
            except Problem as problem:
                raise Problem(f"Can't parse value for '{key}': {problem}") from None
        return raw

    return reader


def _absent(key: str, raw: dict[str, Any]) -> str:
    return f"key '{key}' not found, object contains only {dumps(list(raw))}"


TEMPLATE = choice("DiskTemplate", frozenset(TEMPLATES))
ALLOC_POLICY = choice("AllocPolicy", frozenset(POLICY_OF_WORD.values()))
INSTANCE_STATUS = choice("InstanceStatus", frozenset(STATE_OF_STATUS))
HYPERVISOR = choice("Hypervisor", frozenset(("kvm", "xen-pvm", "chroot", "xen-hvm", "lxc", "fake")))

_SPEC = _record(
    dict.fromkeys(
        ("memory-size", "cpu-count", "disk-size", "disk-count", "nic-count", "spindle-use"), whole
    )
)
IPOLICY = _record(
    {
        "minmax": list_of(_record({"min": _SPEC, "max": _SPEC})),
        "std": _SPEC,
        "disk-templates": list_of(TEMPLATE),
        "vcpu-ratio": real,
        "spindle-ratio": real,
    }
)
"""The reader of an instance policy."""


class Members:
    """The members of the object `raw`; messages about problems begin with `owner`."""

    __slots__ = ("_owner", "raw")

    def __init__(self, raw: dict[str, Any], owner: str) -> None:
        self.raw = raw
        self._owner = owner

    def need(self, key: str, read: Reader, named: bool = True) -> Any:
        """Return the member `key`, which must exist. `named`: whether errors name the owner."""
        if key not in self.raw:
            owner = f"{self._owner}: " if named else ""
            raise Problem(f"{owner}{_absent(key, self.raw)}")
        return self.may(key, read, named)

    def may(self, key: str, read: Reader, named: bool = True) -> Any:
        """Return the member `key`; None if missing. `named`: whether errors name the owner."""
        if key not in self.raw:
            return None
        try:
            return read(self.raw[key])
        except Problem as problem:
            owner = f"{self._owner}: " if named else ""
            raise Problem(f"{owner}key '{key}': {problem}") from None


def spaced(value: Any) -> str:
    """Return `value` as JSON with a blank after each comma and colon."""
    if isinstance(value, list):
        return f"[{', '.join(map(spaced, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{dumps(key)}: {spaced(one)}' for key, one in value.items())}}}"
    return dumps(value)


def array(value: Any) -> list[Any]:
    """Return `value`, which must be a list."""
    if not isinstance(value, list):
        raise Problem(f"Invalid input, expected array but got {spaced(value)}")
    return value


def spindles(value: Any, owner: str) -> None:
    """Read the spindles of the disks of `owner`: a list of numbers or null."""
    if not isinstance(value, list):
        raise Problem(f"{owner}: Expecting array, got '{spaced(value)}'")
    for one in value:
        try:
            if one is not None:
                whole(one)
        except Problem as problem:
            raise Problem(
                f"{owner}: Cannot convert value '{spaced(one)}', error: {problem}"
            ) from None


def objects(values: Any) -> list[dict[str, Any]]:
    """Return the objects that are items of a list or members of an object."""
    members = list(values.values()) if isinstance(values, dict) else values
    if not all(isinstance(one, dict) for one in members):
        raise Problem("not an object")
    return list(members)


def parsed(text: str, what: str) -> Any:
    """Return the value of the JSON document `text`; messages about problems begin with `what`."""
    text = text.lstrip()
    if not text.startswith(("{", "[")):
        raise Problem(
            f"{what}: Invalid JSON: a JSON text a serialized object or array at the top level."
        )
    try:
        return loads(text)
    except ValueError:
        raise Problem(f"{what}: {syntax_error(text)}") from None
