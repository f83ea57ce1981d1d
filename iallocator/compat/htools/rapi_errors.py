"""Report in the words of htools why a cluster, or a folder with its answers, cannot be read.

`folder_problem` reads the answers of RAPI in a folder in the order of htools, up to the first
problem. `connection_problem` returns the problem of a connection.
"""

from __future__ import annotations

import socket

from iallocator.compat.htools.members import (
    ALLOC_POLICY,
    HYPERVISOR,
    INSTANCE_STATUS,
    IPOLICY,
    TEMPLATE,
    Members,
    Problem,
    flag,
    items,
    list_of,
    objects,
    parsed,
    real,
    spindles,
    string,
    whole,
)
from iallocator.compat.htools.message_errors import STRINGS
from iallocator.compat.htools.text_errors import complain_of_file
from iallocator.compat.releases import followed_release
from iallocator.errors import IallocatorError
from iallocator.files import read_file
from iallocator.live.rapi import RAPI_PORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

__all__ = ["connection_problem", "folder_problem"]


NO_GROUP = "00000000-0000-0000-0000-000000000000"
"""The uuid of the group of a node without the member for its group."""


def folder_problem(folder: str, limit: int) -> str:
    """Return the first problem of the answers of RAPI in `folder`; "" if htools accept them.

    `limit`: most bytes of a file.
    """
    try:
        _read(folder, limit)
    except Problem as problem:
        return str(problem)
    return ""


def _answer(folder: str, name: str, limit: int, what: str) -> Any:
    """Return the JSON value in the file `name` of `folder`; `what`: its name in messages."""
    path = f"{folder}/{name}.json"
    try:
        text = read_file(path, limit).decode("utf-8", "replace")
    except IallocatorError:
        raise Problem(complain_of_file(path)) from None
    return parsed(text, what)


def _read(folder: str, limit: int) -> None:
    def listed(name: str, what: str) -> list[dict[str, Any]]:
        whole_answer = _answer(folder, f"{name}s", limit, what)
        try:
            objects: list[dict[str, Any]] = list_of(items)(whole_answer)
        except Problem as problem:
            raise Problem(f"{what}: {problem}") from None
        return objects

    groups: set[str] = set()
    for raw in listed("group", "Parsing group data"):
        name = Members(raw, "Parsing new group").need("name", string)
        group = Members(raw, f"Group '{name}'")
        groups.add(group.need("uuid", string))
        group.need("alloc_policy", ALLOC_POLICY)
        group.need("ipolicy", IPOLICY)
        group.need("tags", STRINGS)
    nodes = {_node(raw, groups) for raw in listed("node", "Parsing node data")}
    for raw in listed("instance", "Parsing instance data"):
        _instance(raw, nodes)
    raw = _answer(folder, "info", limit, "Parsing cluster info")
    if not isinstance(raw, dict):
        raise Problem("Parsing cluster info: Unable to read JSObject")
    info = Members(raw, "Parsing cluster data")
    master = info.need("master", string)
    info.need("tags", STRINGS)
    info.need("ipolicy", IPOLICY)
    info.need("default_hypervisor", HYPERVISOR)
    if master not in nodes:
        raise Problem(f"Master node {master} unknown")


def _node(raw: dict[str, Any], groups: Collection[str]) -> str:
    """Read the node `raw`, and return its name; raise `Problem` if it is invalid."""
    name: str = Members(raw, "Parsing new node").need("name", string)
    owner = f"Node '{name}', error while parsing data"
    node = Members(raw, owner)
    given = Members({key: value for key, value in raw.items() if value is not None}, owner)
    offline = node.need("offline", flag)
    node.need("drained", flag)
    live = not offline and given.may("vm_capable", flag) is not False
    parameters = Members(objects([node.need("ndparams", lambda value: value)])[0], owner)
    exclusive = parameters.need("exclusive_storage", flag)
    uuid = given.may("group.uuid", string) or (NO_GROUP if raw.get("group.uuid") is None else "")
    if uuid not in groups:
        raise Problem(f"Unknown group '{uuid}' for node {name}")
    if not exclusive:
        parameters.need("spindle_count", whole)
    elif live:
        node.need("sptotal", whole)
    if live:
        given.may("spfree", whole, named=False)
        node.need("mtotal", real)
        node.need("mnode", whole)
        node.need("mfree", whole)
        given.may("dtotal", real, named=False)
        given.may("dfree", whole, named=False)
        node.need("ctotal", real)
        node.need("cnos", whole)
    node.need("tags", STRINGS)
    return name


def _instance(raw: dict[str, Any], nodes: Collection[str]) -> None:
    name = Members(raw, "Parsing new instance").need("name", string)
    owner = f"Instance '{name}', error while parsing data"
    one = Members(raw, owner)
    one.need("disk_usage", whole)
    one.need("disk.sizes", list_of(whole))
    spindles(one.need("disk.spindles", lambda value: value), owner)
    parameters = Members(one.need("beparams", items), owner)
    used = one.need("oper_ram", lambda value: value)
    if isinstance(used, bool) or not isinstance(used, int | float):
        # The instance does not run, so one of these members has its memory
        problems = []
        for key in ("memory", "maxmem"):
            try:
                parameters.need(key, whole)
                break
            except Problem as problem:
                problems.append(str(problem))
        else:
            raise Problem("; ".join(problems))
    parameters.need("vcpus", whole)
    held = [one.need("pnode", string)]
    _look_up(held, name, nodes)
    secondaries = one.need("snodes", list_of(lambda value: value))[:1]
    if not all(isinstance(node, str) for node in secondaries):
        raise Problem("Wrong JSON type")
    _look_up(secondaries, name, nodes)
    one.need("status", INSTANCE_STATUS)
    one.need("tags", STRINGS)
    parameters.need("auto_balance", flag)
    one.need("disk_template", TEMPLATE)
    parameters.need("spindle_use", whole)


def _look_up(names: list[str], instance: str, nodes: Collection[str]) -> None:
    for name in names:
        if name not in nodes:
            raise Problem(f"Unknown node '{name}' for instance {instance}")


def connection_problem(error: BaseException, rapi: str) -> str:
    """Return the problem of a connection in htools' words; "" if `error` has another cause.

    `rapi`: the address of RAPI; "" for a local socket.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    if cause is None:
        return ""
    if not rapi:
        denied = isinstance(cause, PermissionError)
        why = "permission denied" if denied else "does not exist"
        number = followed_release().socket
        return f"Network.Socket.connect: <socket: {number}>: {why} ({cause.strerror})"
    import ssl

    if isinstance(cause, socket.gaierror):
        code = "CurlCouldntResolveHost"
    elif isinstance(cause, ssl.SSLError):
        code = "CurlSSLConnectError"
    elif isinstance(cause, TimeoutError):
        code = "CurlOperationTimeout"
    else:
        code = "CurlCouldntConnect"
    address = rapi if ":" in rapi else f"https://{rapi}:{RAPI_PORT}"
    return f"Curl error for '{address}/2/groups?bulk=1', error {code}"
