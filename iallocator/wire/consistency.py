"""Report errors that a schema cannot express: unknown names, and numbers of disk templates.

These checks read raw documents, which may have other errors. A value of a wrong type is skipped,
because the schema reports it. The messages are those of the parser, which stops at the first error.
"""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.model.storage import INTERNAL
from iallocator.model.templates import TEMPLATES
from iallocator.tolerances import LARGEST_NUMBER
from iallocator.wire.document import DEFAULT_GROUP, doubtful_facts
from iallocator.wire.fields import NAMELESS, describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any

    from iallocator.wire.fields import Raw

    Check = Callable[[Raw, Raw], Iterator[RequestError]]

__all__ = ["inconsistencies"]


def inconsistencies(document: Raw) -> Iterator[RequestError]:
    """Yield an error for each unknown name, and each number that contradicts a disk template."""
    yield from doubtful_facts(document)
    for key in ("nodegroups", "nodes", "instances"):
        value = document.get(key)
        if type(value) is dict and "" in value:
            yield RequestError(key, NAMELESS)

    # Policies without an interval
    holders = [("", document)]
    holders += [(f"nodegroups/{uuid}/", group) for uuid, group in _members(document, "nodegroups")]
    for prefix, holder in holders:
        policy = holder.get("ipolicy")
        if type(policy) is dict and policy.get("minmax") == []:
            yield RequestError(
                f"{prefix}ipolicy/minmax", "expected at least one interval, got none"
            )

    # Groups of nodes; each storage pool is listed once
    groups = document.get("nodegroups", {})
    for name, node in _members(document, "nodes"):
        uuid = node.get("group")
        unknown = (
            type(groups) is dict and type(uuid) is str and uuid not in (groups or {DEFAULT_GROUP})
        )
        if unknown:
            yield RequestError(
                f"nodes/{name}/group",
                f"expected the uuid of a group in nodegroups, got {describe(uuid)}",
            )
        seen: set[tuple[str, str]] = set()
        for key in ("storage_pools", "volume_groups"):
            pools = node.get(key)
            for position, pool in enumerate(pools if type(pools) is list else ()):
                if type(pool) is not dict:
                    continue
                kind = pool.get("type") if key == "storage_pools" else INTERNAL
                label = pool.get("name")
                if type(kind) is not str or type(label) is not str:
                    continue
                if (kind, label) in seen:
                    yield RequestError(
                        f"nodes/{name}/{key}/{position}/name",
                        f"expected each pool once, got {describe(label)} again",
                    )
                seen.add((kind, label))

    for name, instance in _members(document, "instances"):
        for error in *_places(instance, document), *_storage_type(instance):
            yield error.below(f"instances/{name}")

    request = document.get("request")
    if type(request) is dict:
        request_type = request.get("type")
        for check in _CHECKS.get(request_type, ()) if type(request_type) is str else ():
            for error in check(request, document):
                yield error.below("request")


def _members(document: Raw, key: str) -> list[tuple[str, Raw]]:
    """Return the members of the object `document[key]` that are objects, as (name, object)."""
    value = document.get(key)
    members = value.items() if type(value) is dict else ()
    return [(name, item) for name, item in members if type(item) is dict]


def _names(raw: Raw, key: str) -> list[tuple[int, str]]:
    """Return (position, name) for each name in the list `raw[key]`."""
    value = raw.get(key)
    names = value if type(value) is list else []
    return [(position, name) for position, name in enumerate(names) if type(name) is str and name]


def _whole(value: Any) -> int | None:
    """Return `value` as a whole number if the parser accepts it as one; otherwise None."""
    if type(value) is int or type(value) is float:
        return int(value) if 0 <= value <= LARGEST_NUMBER and value == int(value) else None
    return None


def _template_nodes(raw: Raw) -> int | None:
    """Return how many nodes the disk template of an instance requires; None if it is unknown."""
    template = raw.get("disk_template")
    if type(template) is not str or template not in TEMPLATES:
        return None
    return TEMPLATES[template].nodes


def _storage_type(instance: Raw) -> Iterator[RequestError]:
    """Check that the storage type of an instance is that of its disk template."""
    template, kind = instance.get("disk_template"), instance.get("storage_type")
    known = TEMPLATES.get(template) if type(template) is str else None
    usual = "external" if known and known.shared else "internal"
    other = type(kind) is str and kind in ("internal", "external") and kind != usual
    if known and known.has_disks and not known.may_be_external and other:
        yield RequestError("storage_type", f'expected "{usual}" for {template}, got "{kind}"')


def _places(instance: Raw, document: Raw) -> Iterator[RequestError]:
    yield from _known(instance, "nodes", document.get("nodes"), "a node of the document")
    seen: set[str] = set()
    for position, name in _names(instance, "nodes"):
        if name in seen:
            yield RequestError(
                f"nodes/{position}", f"expected different nodes, got {describe(name)} again"
            )
        seen.add(name)
    most, places = _template_nodes(instance), instance.get("nodes")
    if most and type(places) is list and not 1 <= len(places) <= most:
        expected = "one or two nodes" if most == 2 else "one node"
        yield RequestError("nodes", f"expected {expected}, got {len(places) or 'none'}")


def _known(
    raw: Raw, key: str, known: Collection[str] | Any, expected: str
) -> Iterator[RequestError]:
    """Yield an error for each name in the list `raw[key]` that is not in `known`.

    `known` may be a value of a wrong type; then nothing is checked. `expected`: the expected kind
    of name, for messages.
    """
    if type(known) is not dict:
        return
    for position, name in _names(raw, key):
        if name not in known:
            yield RequestError(f"{key}/{position}", f"expected {expected}, got {describe(name)}")


def _new_instance(request: Raw, document: Raw) -> Iterator[RequestError]:
    needed, required = _template_nodes(request), _whole(request.get("required_nodes"))
    if needed and required is not None and required != needed:
        template = request["disk_template"]
        yield RequestError("required_nodes", f"expected {needed} for {template}, got {required}")
    nodes = document.get("nodes")
    yield from _known(request, "restrict-to-nodes", nodes, "a node of the document")
    yield from _storage_type(request)


def _new_instances(request: Raw, document: Raw) -> Iterator[RequestError]:
    batch, known = request.get("instances"), document.get("instances")
    used_names = set(known) if type(known) is dict else set()
    for position, one in enumerate(batch if type(batch) is list else ()):
        if type(one) is not dict:
            continue
        name = one.get("name")
        if type(name) is str and name in used_names:
            yield RequestError(
                f"instances/{position}/name", f"expected a new name, got {describe(name)}"
            )
        elif type(name) is str:
            used_names.add(name)
        for error in _new_instance(one, document):
            yield error.below(f"instances/{position}")


def _named_instance(request: Raw, document: Raw) -> Iterator[RequestError]:
    name, known = request.get("name"), document.get("instances")
    if type(name) is str and type(known) is dict and name not in known:
        yield RequestError("name", f"expected an instance of the document, got {describe(name)}")


def _without_secondary(request: Raw, document: Raw) -> Iterator[RequestError]:
    _, nodes = _subject(request, document)
    if len(nodes) > 1:
        name = describe(request["name"])
        yield RequestError("name", f"expected an instance without a secondary, got {name}")


def _subject(request: Raw, document: Raw) -> tuple[Raw, list[str]]:
    """Return the instance that a request names, and its nodes."""
    name = request.get("name")
    subject = dict(_members(document, "instances")).get(name if type(name) is str else "", {})
    return subject, [node for _, node in _names(subject, "nodes")]


def _relocation(request: Raw, document: Raw) -> Iterator[RequestError]:
    """Check that ``relocate_from`` has one node, which the instance can leave by its template."""
    required = _whole(request.get("required_nodes"))
    if required is not None and required != 1:
        yield RequestError("required_nodes", f"expected 1, got {required}")
    sources = request.get("relocate_from")
    if type(sources) is not list:
        return
    if len(sources) != 1:
        yield RequestError("relocate_from", f"expected one node, got {len(sources)}")
        return
    instance, nodes = _subject(request, document)
    template = instance.get("disk_template")
    kind = TEMPLATES.get(str(template))
    movable = kind is not None and kind.relocatable
    if kind and movable and nodes and type(sources[0]) is str and sources[0] != nodes[-1]:
        role = "secondary" if kind.nodes == 2 else "primary"
        expected = f"the instance's {role} {describe(nodes[-1])}"
        yield RequestError("relocate_from/0", f"expected {expected}, got {describe(sources[0])}")


def _named_instances(request: Raw, document: Raw) -> Iterator[RequestError]:
    known = document.get("instances")
    yield from _known(request, "instances", known, "an instance of the document")
    seen: set[str] = set()
    for position, name in _names(request, "instances"):
        if name in seen:
            yield RequestError(
                f"instances/{position}", f"expected each instance once, got {describe(name)} again"
            )
        seen.add(name)


def _named_nodes(key: str) -> Check:
    def check(request: Raw, document: Raw) -> Iterator[RequestError]:
        yield from _known(request, key, document.get("nodes"), "a node of the document")

    return check


def _target_groups(request: Raw, document: Raw) -> Iterator[RequestError]:
    groups = document.get("nodegroups", {}) or {DEFAULT_GROUP: {}}
    yield from _known(request, "target_groups", groups, "the uuid of a group in nodegroups")


_CHECKS: dict[str, tuple[Check, ...]] = {
    "allocate": (_new_instance,),
    "multi-allocate": (_new_instances,),
    "allocate-secondary": (_named_instance, _without_secondary),
    "relocate": (_named_instance, _named_nodes("relocate_from"), _relocation),
    "node-evacuate": (_named_instances,),
    "change-group": (_named_instances, _target_groups),
    "multi-evacuate": (_named_nodes("evac_nodes"),),
}
"""Request type -> the checks in addition to its schema."""
