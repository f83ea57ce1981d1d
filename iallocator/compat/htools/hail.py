"""hail: answer a request of Ganeti."""

from __future__ import annotations

import os
import sys

from iallocator.compat.htools.backend import ProgramError, complain_of_file
from iallocator.engine import inconsistencies
from iallocator.errors import IallocatorError, Voice, say
from iallocator.files import read_file
from iallocator.model.state import State
from iallocator.model.templates import TEMPLATES
from iallocator.names import meant
from iallocator.options.settings import Settings
from iallocator.requests.existing import AllocateSecondary, ChangeGroup, NodeEvacuate, Relocate
from iallocator.wire.codec import dumps, encode, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iallocator.compat.htools.backend import Given
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.requests.existing import Request

__all__ = ["run"]

PARTS = ("request", "nodegroups", "nodes", "instances", "cluster_tags")
"""Members of the message, in the order in which hail reads them."""

OF_TYPE = {
    "allocate": ("name", "required_nodes"),
    "allocate-secondary": ("name",),
    "relocate": ("name", "relocate_from"),
    "multi-allocate": ("instances",),
    "change-group": ("instances", "target_groups"),
    "node-evacuate": ("instances", "evac_mode"),
}
"""Type of a request -> members of it that are necessary."""

OF_PARTS = {"relocate_from": "nodes", "instances": "instances", "target_groups": "nodegroups"}
"""Members of a request that list names -> the member of the message that has them."""

OF_INSTANCE = (
    "memory", "vcpus", "disks", "disk_template", "disk_space_total", "spindle_use", "tags", "nics",
)  # fmt: skip
"""Members that describe a new instance."""

INTEGERS = ("memory", "vcpus", "disk_space_total", "spindle_use")
"""Those of `OF_INSTANCE` that are numbers."""

MODES = {"all": "ChangeAll", "primary-only": "ChangePrimary", "secondary-only": "ChangeSecondary"}
"""Mode of an evacuation -> its name in details."""


def run(given: Given) -> int:
    """Print the answer to the request in the file of the command line; return the exit status.

    Raises
    ------
    ProgramError
        If the request cannot be read.
    """
    if not given.words:
        raise ProgramError("Error: This program needs an input file.")
    if len(given.words) > 1:
        raise ProgramError("Error: Only one argument is accepted (the input file)")
    path = given.words[0]
    if given.text_data and not os.access(given.text_data, os.R_OK):
        reason = complain_of_file(given.text_data)
        raise ProgramError(f"Error: failed to load data, aborting: {reason}")
    if path != "-" and not os.path.exists(path):
        raise ProgramError(f"hail: {complain_of_file(path)}")
    settings = _settings(given)
    raw = b""
    shown: list[str] = []

    def heard(cluster: Cluster, request: Request) -> None:
        Voice.quiet = False
        shown.extend(inconsistencies(State(cluster)))
        if shown:
            say("\n".join([*shown, ""]))
        if given.loudness > 1 and (text := _details(cluster, request)):
            say(f"Received request: {text}")

    try:
        raw = read_file(path)
        if settings.save_cluster or settings.print_nodes is not None:
            from iallocator.commands.states import respond
        else:
            from iallocator.engine import respond
        Voice.quiet = True  # hail reports nothing while it reads
        reply = respond(raw, settings, heard, path)
    except IallocatorError as error:
        raise ProgramError(f"Error: {_complaint(raw) or error}") from None
    finally:
        Voice.quiet = False
    remarks = [remark for remark in reply.remarks if remark not in shown]
    if remarks:
        say("\n".join([*remarks, ""]))
    sys.stdout.buffer.write(encode(reply, extended=False))
    return 0


def _settings(given: Given) -> Settings:
    """Return the settings for the options of the command line."""
    settings = Settings()
    settings.compat = "hail"
    settings.no_config = True
    settings.text_data = given.text_data or ""
    settings.simulate = (given.simulate or [])[::-1]
    settings.ignore_dynu = bool(given.ignore_dynu)
    settings.ignore_soft_errors = bool(given.ignore_soft_errors)
    settings.restrict_allocation_to = given.restrict_allocation_to
    settings.n1 = "off" if given.no_capacity_checks else "strict"
    settings.mond = "" if given.mond is None else "yes" if given.mond else "no"
    settings.mond_xen = bool(given.mond_xen)
    settings.save_cluster = given.save or ""
    if given.static_kvm_node_memory is not None:
        settings.static_kvm_node_memory = given.static_kvm_node_memory
    if given.print_nodes is not None:
        settings.print_nodes = "" if given.print_nodes is True else given.print_nodes
    return settings


def _details(cluster: Cluster, request: Request) -> str:
    """Return an existing instance's request in hail's words, with places in the message.

    It is "" for new instances.
    """
    nodes = len(cluster.nodes)
    ordered = sorted(cluster.instances, key=lambda one: one.order, reverse=True)
    place = {one.name: number for number, one in enumerate(ordered)}

    def places(instances: Iterable[Instance]) -> str:
        return ",".join(str(place[one.name]) for one in instances)

    match request:
        case Relocate(instance=one):
            count = len(one.nodes) - 1 or 1
            return f"Relocate {places([one])} {count} [{nodes - 1 - request.source}]"
        case AllocateSecondary(instance=one):
            return f"AllocateSecondary {places([one])}"
        case NodeEvacuate():
            return f"NodeEvacuate [{places(request.instances)}] {MODES[request.mode]}"
        case ChangeGroup():
            targets = ",".join(str(group.index) for group in request.targets or ())
            return f"ChangeGroup [{places(request.instances)}] [{targets}]"
    return ""


def _complaint(raw: bytes) -> str:
    """Return what is wrong with a message in hail's words; "" if there are none for it."""
    text = raw.decode("utf-8", "replace").strip()
    problem = "Parsing input IAllocator message: "
    if not text.startswith(("{", "[")):
        return f"{problem}Invalid JSON: a JSON text a serialized object or array at the top level."
    try:
        message = loads(text)
    except ValueError as error:
        return problem + _syntax(error, text)
    if not isinstance(message, dict):
        return f"{problem}Unable to read JSObject"
    invalid = "invalid iallocator message: "
    for part in PARTS:
        if missing := _missing(message, part):
            return invalid + missing
        if part != "cluster_tags" and not isinstance(message[part], dict):
            return f"{invalid}key '{part}': Unable to read JSObject"
    return _request_complaint(message["request"], message)


def _syntax(error: ValueError, text: str) -> str:
    """Return a syntax error of the JSON document `text` in hail's words."""
    message, place = getattr(error, "msg", str(error)), getattr(error, "pos", len(text))
    rest = text[place:].strip()
    if message == "Extra data":
        return f'Invalid tokens at end of JSON string: "{rest}"'
    if "property name" in message:
        return f"Malformed JSON: expecting string: {rest}"
    if "':'" in message:
        return f"Malformed JSON labelled field: {rest}"
    return f"Malformed JSON: {message}: {rest}"


def _missing(members: dict[str, Any], key: str) -> str:
    """Return that `members` lack `key`; "" if they have it."""
    if key in members:
        return ""
    return f"key '{key}' not found, object contains only {dumps(list(members))}"


def _request_complaint(request: dict[str, Any], message: dict[str, Any]) -> str:
    """Return what is wrong with `request`, as `_complaint`."""
    invalid = "invalid request dict: "
    if missing := _missing(request, "type"):
        return invalid + missing
    kind = request["type"]
    if kind not in OF_TYPE:
        return f"Invalid request type '{kind}'"
    for key in OF_TYPE[kind]:
        if missing := _missing(request, key):
            return invalid + missing
    name, mode = request.get("name"), request.get("evac_mode")
    if kind == "node-evacuate" and mode not in MODES:
        return f"{invalid}key 'evac_mode': Invalid string value for type EvacMode: \"{mode}\""
    if kind == "allocate":
        invalid = f"invalid data for instance '{name}': "
        for key in OF_INSTANCE:
            if missing := _missing(request, key):
                return invalid + missing
            if key in INTEGERS and not isinstance(request[key], int):
                return f"{invalid}key '{key}': Unable to read Int"
        if request["disk_template"] not in TEMPLATES:
            return (
                f"{invalid}key 'disk_template': Invalid string value for type DiskTemplate: "
                f'"{request["disk_template"]}"'
            )
        return ""
    known = list(message["instances"])
    if kind in ("relocate", "allocate-secondary") and len(meant(str(name), known)) != 1:
        return f"Unknown instance '{name}'"
    for key, part in OF_PARTS.items():
        if kind == "multi-allocate" or not isinstance(listed := request.get(key), list):
            continue
        for word in map(str, listed):
            if len(meant(word, list(message[part]))) != 1:
                return f"Wrong number of elems found with name {word}"
    return ""
