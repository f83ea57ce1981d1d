"""Report problems of a text file, or of a simulated cluster, in the words of htools.

Scripts and tests match these messages. `text_error` checks the file in the order of htools:
sections, groups, nodes, instances. It returns "" for an unknown error, which is then reported in
this program's words. `simulation_error` checks the values of ``--simulate`` in the same way.
"""

from __future__ import annotations

import os

from iallocator.compat.htools.errors import OptionValueError
from iallocator.compat.htools.options import INTEGER, NUMBER_FORM, number, size
from iallocator.model.templates import TEMPLATES
from iallocator.sources.text import POLICY_OF_WORD, SECTIONS, STATE_OF_STATUS
from iallocator.wire.codec import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["complain_of_file", "simulation_error", "text_error"]

FEWEST = dict(SECTIONS)
"""Kind of line -> the fewest fields of such a line."""

NODE_NUMBERS = (1, 2, 3, 4, 5, 6, 13, 9, 14, 12)
"""Positions of the fields of a node that are numbers, in the order in which htools read them."""

REAL = frozenset((1, 4, 6, 14))
"""Positions of those of them that may be fractions: total memory and disk, cpus, cpu speed."""


def complain_of_file(path: str, written_by: str = "") -> str:
    """Return htools' message that the file at `path` cannot be opened.

    `written_by`: the name in messages of the function that opens the file for writing; "" if the
    file is opened for reading.
    """
    function = written_by or "openFile"
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return f"{path}: {function}: permission denied (Permission denied)"
    if os.path.isdir(path):
        why = "Is a directory" if written_by else "is a directory"
        return f"{path}: {function}: inappropriate type ({why})"
    folder = os.path.dirname(path)
    while folder and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if os.path.isfile(folder):
        return f"{path}: {function}: inappropriate type (Not a directory)"
    return f"{path}: {function}: does not exist (No such file or directory)"


def text_error(raw: bytes) -> str:
    """Return the first error in `raw`, the content of a text file; "" if it is unknown."""
    text = raw.decode("utf-8", "replace")
    sections = list(_sections(text))
    if len(sections) < 4:
        return f"Invalid format of the input file: {len(sections)} sections instead of 4 or more"
    groups, nodes, instances = sections[:3]
    for line in groups:
        fields = line.split("|")
        if wrong := _short("group", fields):
            return wrong
        if fields[2] not in POLICY_OF_WORD.values():  # htools accept no abbreviations
            return _no_value("AllocPolicy", fields[2])
    uuids = {line.split("|")[1] for line in groups}
    for line in nodes:
        fields = line.split("|")
        if wrong := _short("node", fields):
            return wrong
        if fields[8] not in uuids:
            return f"Unknown group '{fields[8]}' for node {fields[0]}"
        if "?" in fields[1:7]:  # the node is offline, and its other fields are not read
            continue
        name, exclusive = fields[0], "".join(fields[11:12])
        for place in NODE_NUMBERS:
            form = NUMBER_FORM if place in REAL else INTEGER
            if wrong := _no_number(name, fields[place : place + 1], form):
                return wrong
        if fields[11:] and exclusive not in ("Y", "N"):
            return f"Invalid exclusive_storage value for node '{name}': {exclusive}"
    names = {line.split("|")[0] for line in nodes}
    for line in instances:
        if wrong := _instance_error(line.split("|"), names):
            return wrong
    known = [line.split("|")[0] for line in groups]
    for line in sections[4] if len(sections) > 4 else ():
        if wrong := _policy_error(line.split("|"), known):
            return wrong
    return ""


def _policy_error(fields: Sequence[str], groups: Sequence[str]) -> str:
    """Return the problem of the line of a policy; `groups`: the names of the groups."""
    if len(fields) < FEWEST["policy"]:
        return f"Invalid ipolicy data: '{dumps(list(fields))}'"
    owner, standard, bounds, templates, vcpus, spindles = fields[:6]
    if wrong := _size_error(f"{owner}/stdspec", standard):
        return wrong
    sizes = bounds.split(";") if bounds else []
    if len(sizes) % 2:
        return f"Odd number of min/max specs for {owner}"
    for number_of_size, text in enumerate(sizes):
        if wrong := _size_error(f"{owner}/{('minspec', 'maxspec')[number_of_size % 2]}", text):
            return wrong
    for template in templates.split(","):
        if template not in TEMPLATES:
            return _no_value("DiskTemplate", template)
    wrong = _no_number(f"{owner}/vcpu_ratio", [vcpus], NUMBER_FORM) or _no_number(
        f"{owner}/spindle_ratio", [spindles], NUMBER_FORM
    )
    if not wrong and owner and groups.count(owner) != 1:
        return f"Wrong number of elems found with name {owner}"
    return wrong


SIZE = ("memsize", "cpucount", "disksize", "diskcount", "niccount", "spindleuse")
"""The parts of a size in the words of htools."""


def _size_error(owner: str, text: str) -> str:
    """Return the problem of a size in a policy; "" if it is valid."""
    parts = text.split(",") if text else []
    if len(parts) < len(SIZE):
        return f"Invalid ispec data for {owner}: {dumps(parts)}"
    errors = (_no_number(f"{owner}/{part}", [one]) for part, one in zip(SIZE, parts))
    return next(filter(None, errors), "")


def _sections(text: str) -> Iterator[list[str]]:
    """Yield the lines of each section of `text`; every empty line ends a section."""
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
    """Return the problem of the line of an instance; `nodes`: the names of the nodes."""
    if wrong := _short("instance", fields):
        return wrong
    name, status, balanced, primary, secondary, template = (fields[0], *fields[4:9])
    for node in (primary, *([secondary] if secondary else [])):
        if node not in nodes:
            return f"Unknown node '{node}' for instance {name}"
    if wrong := _no_number(name, fields[1:4]):
        return wrong
    if status not in STATE_OF_STATUS:
        return _no_value("InstanceStatus", status)
    if balanced not in ("Y", "N"):
        return f"Invalid auto_balance value '{balanced}' for instance {name}"
    if template not in TEMPLATES:
        return f"Instance {name}: {_no_value('DiskTemplate', template)}"
    if wrong := _no_number(name, fields[10:11]):
        return wrong
    spindles, forthcoming = "".join(fields[11:12]), "".join(fields[12:13])
    if fields[11:] and spindles != "-" and (wrong := _no_number(name, [spindles])):
        return wrong
    if fields[12:] and forthcoming not in ("Y", "N"):
        return f"Invalid forthcoming value '{forthcoming}' for instance {name}"
    if primary == secondary:
        return f"Instance {name} has same primary and secondary node - {primary}"
    return ""


def _short(kind: str, fields: Sequence[str]) -> str:
    """Return the message that a line has too few fields; "" if it has enough."""
    if len(fields) >= FEWEST[kind]:
        return ""
    listed = dumps(list(fields))
    return f"Invalid/incomplete {kind} data: '{listed}'"


def _no_number(name: str, texts: Sequence[str], form: str = INTEGER) -> str:
    """Return the message about the first of `texts` that is not a number; "" if all are."""
    for text in texts:
        try:
            number(name, form)(text)
        except OptionValueError as error:
            return str(error)
    return ""


def _no_value(kind: str, text: str) -> str:
    return f"Invalid string value for type {kind}: {dumps(text)}"


SIMULATED = (
    "allocation policy", "node count", "disk size", "memory size", "number of CPUs", "spindles",
)  # fmt: skip
"""The fields of a specification of a simulated cluster, in order, as htools name them."""


def simulation_error(specs: Sequence[str]) -> str:
    """Return the problem of the first invalid specification in `specs`; "" if it is unknown."""
    for spec in specs:
        fields = spec.split(",") if spec else []
        if len(fields) not in (5, 6, 7):
            return (
                f"Invalid cluster specification, expected 6 comma-separated sections "
                f"({', '.join(SIMULATED)}) but got {len(fields)}: '{spec}'"
            )
        if fields[0] not in POLICY_OF_WORD:
            return (
                f"{_no_value('AllocPolicy', fields[0])}; "
                f"Cannot parse AllocPolicy abbreviation '{fields[0]}'"
            )
        if wrong := _no_number("node count", fields[1:2]):
            return wrong
        for what, text in (("disk size", fields[2]), ("memory size", fields[3])):
            try:
                size(what, text)
            except OptionValueError as error:
                return str(error)
        if wrong := _no_number("cpu count", fields[4:5]) or _no_number("spindles", fields[5:6]):
            return wrong
        if fields[6:] and fields[6] not in ("True", "False"):
            return f"exclusive storage: cannot parse string '{fields[6]}'"
    return ""
