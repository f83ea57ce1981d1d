"""Say what is wrong with a text file in the words of htools.

Scripts and tests match these messages. `text_error` checks the file in the order of htools:
sections, groups, nodes, instances. It returns "" for an error that it does not know, which is
reported in our own words.
"""

from __future__ import annotations

from iallocator.errors import IallocatorError
from iallocator.files import read_file
from iallocator.model.templates import TEMPLATES
from iallocator.sources.text import POLICIES, SECTIONS, STATUS
from iallocator.wire.codec import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["text_error"]

FEWEST = dict(SECTIONS)
"""Kind of line -> the fewest fields that it has."""


def text_error(path: str, limit: int) -> str:
    """Return the first error in the text file at `path`; "" if unknown. `limit`: in bytes."""
    try:
        text = read_file(path, limit).decode("utf-8", "replace")
    except IallocatorError:
        return ""
    sections = list(_sections(text))
    if len(sections) < 4:
        return f"Invalid format of the input file: {len(sections)} sections instead of 4 or more"
    groups, nodes, instances = sections[:3]
    for line in groups:
        fields = line.split("|")
        if wrong := _short("group", fields):
            return wrong
        if fields[2] not in POLICIES.values():  # htools accept no abbreviations
            return _no_value("AllocPolicy", fields[2])
    uuids = {line.split("|")[1] for line in groups}
    for line in nodes:
        fields = line.split("|")
        if wrong := _short("node", fields):
            return wrong
        if fields[8] not in uuids:
            return f"Unknown group '{fields[8]}' for node {fields[0]}"
        if wrong := _no_number(fields[0], (*fields[1:7], *fields[9:10])):
            return wrong
    names = {line.split("|")[0] for line in nodes}
    for line in instances:
        if wrong := _instance_error(line.split("|"), names):
            return wrong
    return ""


def _sections(text: str) -> Iterator[list[str]]:
    """Yield the lines of each section; every empty line ends one."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not lines:
        return
    section: list[str] = []
    for line in lines:
        if line:
            section.append(line)
        else:
            yield section
            section = []
    yield section


def _instance_error(fields: Sequence[str], nodes: set[str]) -> str:
    """Return what is wrong with the line of an instance; `nodes` are the names of the nodes."""
    if wrong := _short("instance", fields):
        return wrong
    name, status, balanced, primary, secondary, template = (fields[0], *fields[4:9])
    for node in (primary, *([secondary] if secondary else [])):
        if node not in nodes:
            return f"Unknown node '{node}' for instance {name}"
    if wrong := _no_number(name, fields[1:4]):
        return wrong
    if status not in STATUS:
        return _no_value("InstanceStatus", status)
    if balanced not in ("Y", "N"):
        return f"Invalid auto_balance value '{balanced}' for instance {name}"
    if template not in TEMPLATES:
        return f"Instance {name}: {_no_value('DiskTemplate', template)}"
    if wrong := _no_number(name, fields[10:11]):
        return wrong
    if primary == secondary:
        return f"Instance {name} has same primary and secondary node - {primary}"
    return ""


def _short(kind: str, fields: Sequence[str]) -> str:
    """Return that a line has too few fields; "" if it has enough."""
    if len(fields) >= FEWEST[kind]:
        return ""
    listed = dumps(list(fields))
    return f"Invalid/incomplete {kind} data: '{listed}'"


def _no_number(name: str, texts: Sequence[str]) -> str:
    """Return which of `texts` in the line of `name` is no number; "" if all are."""
    for text in texts:
        digits = text.removeprefix("-")
        number = digits[: len(digits) - len(digits.lstrip("0123456789"))]
        if not number:
            return f"{name}: cannot parse string '{text}'"
        rest = digits[len(number) :]
        if rest and not rest.replace(".", "", 1).isdigit():
            return f"{name}: leftover characters when parsing '{text}': '{rest}'"
    return ""


def _no_value(kind: str, text: str) -> str:
    return f"Invalid string value for type {kind}: {dumps(text)}"
