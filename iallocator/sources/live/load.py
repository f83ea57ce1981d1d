"""Read a running cluster through LUXI or RAPI, or from a folder with answers of RAPI.

The queries are not one transaction: one answer can contain an instance that another lacks, because
it was created or removed in between.  The queries are repeated until the answers agree.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from iallocator.deadline import Deadline, Running
from iallocator.errors import RequestError, UsageError
from iallocator.files import read_file
from iallocator.light import copy
from iallocator.live.luxi import LuxiClient
from iallocator.live.rapi import RapiClient
from iallocator.live.stream import LiveError
from iallocator.sources.live.document import (
    Answers,
    Record,
    captured,
    check_kinds,
    master_of,
    silent_nodes,
)
from iallocator.sources.live.volume_groups import volume_groups_by_luxi, volume_groups_by_rapi
from iallocator.wire.codec import decode_any
from iallocator.wire.document import cluster_policy, read_cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from iallocator.model.cluster import Cluster
    from iallocator.model.policy import Policy
    from iallocator.options.settings import Settings
    from iallocator.wire.reading import Reading

__all__ = [
    "FILE_SCHEME",
    "AnswerSource",
    "StoredAnswers",
    "ask",
    "ask_luxi",
    "ask_rapi",
    "read_live",
    "reading_deadline",
    "reject_silence",
    "understood",
    "warnings_of_silent_nodes",
]

READ_REPEATS = 3
"""How often all queries are repeated if the answers do not agree."""


def reading_deadline(settings: Settings, in_run: bool) -> Deadline:
    """Return the deadline of reading a cluster, or of asking its monitoring daemons.

    `in_run`: whether the time limit of the run applies, too, if one was chosen. It does not apply
    while a plan is executed, which takes longer than planning.
    """
    seconds = settings.read_timeout
    limit = f"the {seconds:g} s for reading the cluster (--read-timeout)"
    if settings.time_limit is None or not in_run or Running.began is None:
        return Deadline(seconds, limit)
    whole = f"the {settings.time_limit:g} s for the whole run (--time-limit)"
    return Deadline(settings.time_limit, whole, Running.began).within(seconds, limit)


def read_live(
    settings: Settings, reading: Reading, in_run: bool = True
) -> tuple[Cluster, Policy, str, Record]:
    """Return the cluster that ``-L`` or ``-m`` names, its policy, its master, and its document.

    `in_run`: whether the time limit of the run applies, too.

    Raises
    ------
    LiveError, UsageError
        If the cluster cannot be reached, or its answers are invalid.
    """
    answers = ask(settings, reading_deadline(settings, in_run))
    return understood(answers, reading, through_luxi=settings.luxi is not None)


def understood(
    answers: Answers, reading: Reading, through_luxi: bool
) -> tuple[Cluster, Policy, str, Record]:
    """Return the cluster, its policy, its master and its document from `answers`.

    Errors contain the source of the answers.
    """
    own = copy(reading)
    own.reads_auto_balance = True
    own.reads_cpu_speed = through_luxi or reading.behaviour.reads_cpu_speed_by_rapi
    try:
        document = captured(answers)
        cluster = read_cluster(document, own)
        cluster.assumed_offline = silent_nodes(answers)
        return cluster, cluster_policy(document), master_of(answers), document
    except RequestError as error:
        raise LiveError(answers.where, str(error)) from None


def warnings_of_silent_nodes(cluster: Cluster) -> list[str]:
    """Return a warning for each node of `cluster` that is only assumed to be offline."""
    return [
        f"Warning: node {name} does not answer and is not marked offline: it counts as offline "
        f"({mark_offline(name)} marks it)"
        for name in cluster.assumed_offline
    ]


def reject_silence(cluster: Cluster, option: str) -> NoReturn:
    """Reject a change of the cluster while nodes are only assumed to be offline.

    `option`: the option that allows the change.

    Raises
    ------
    LiveError
        Always, because such a node may answer again in a moment.
    """
    node = cluster.assumed_offline[0]
    raise LiveError(
        f"node {node}",
        "it does not answer and is not marked offline, and its instances may be running: if the "
        f"node is down, run {mark_offline(node)}, or give {option}",
    )


def mark_offline(node: str) -> str:
    """Return the command that marks a node offline."""
    return f"gnt-node modify --offline=yes {node}"


def ask(settings: Settings, deadline: Deadline) -> Answers:
    """Return consistent answers of the cluster that `settings` name, all before `deadline`."""
    # hail, and --compat hail, know no volume groups
    by_jobs = settings.volume_groups and settings.behaviour.reads_pools
    if settings.luxi is not None:
        path = settings.luxi
        answers = _consistent(lambda: ask_luxi(path, deadline, settings.max_input), READ_REPEATS)
        if by_jobs:
            with LuxiClient(path, settings.max_input) as luxi:
                groups = volume_groups_by_luxi(answers, luxi, deadline)
            answers = answers._replace(volume_groups=groups)
        return answers

    if settings.rapi.startswith(FILE_SCHEME):
        stored = StoredAnswers(settings.rapi, settings.max_input)
        return _consistent(lambda: ask_rapi(stored, deadline), 0)
    client = RapiClient(
        settings.rapi,
        cacert=settings.cacert,
        insecure=settings.insecure,
        credentials=settings.credentials,
        limit=settings.max_input,
    )
    answers = _consistent(lambda: ask_rapi(client, deadline), READ_REPEATS)
    if by_jobs:
        groups = volume_groups_by_rapi(answers, client, deadline)
        answers = answers._replace(volume_groups=groups)
    return answers


def _consistent(question: Callable[[], Answers], again: int) -> Answers:
    for _ in range(again):
        answers = question()
        check_kinds(answers)
        if next(_contradictions(answers), None) is None:
            return answers
    answers = question()
    check_kinds(answers)
    for problem in _contradictions(answers):
        attempts = f", asked {again + 1} times: it changes, or is damaged" if again else ""
        raise LiveError(answers.where, f"the answers contradict each other{attempts}: {problem}")
    return answers


def _contradictions(answers: Answers) -> Iterator[str]:
    """Yield each object that one answer names and another lacks."""
    groups = {raw.get("uuid") for raw in answers.groups}
    nodes = {raw.get("name") for raw in answers.nodes}
    for raw in answers.nodes:
        if raw.get("group.uuid") not in groups:
            yield f"node {raw.get('name')} is in the unknown group {raw.get('group.uuid')}"
    for raw in answers.instances:
        for node in (raw.get("pnode"), *(raw.get("snodes") or ())):
            if node not in nodes:
                yield f"instance {raw.get('name')} is on the unknown node {node}"
    if answers.info.get("master") not in nodes:
        yield f"the master is the unknown node {answers.info.get('master')}"


QUERY_FIELDS = {
    "group": "uuid name alloc_policy ipolicy tags diskparams",
    "node": (
        "name mtotal mnode mfree dtotal dfree ctotal cnos offline drained vm_capable group.uuid "
        "tags sptotal spfree pip sip master_candidate master_capable "
        "ndp/spindle_count ndp/exclusive_storage ndp/cpu_speed ndp/oob_program"
    ),
    "instance": (
        "name disk_usage be/memory be/maxmem be/vcpus be/auto_balance be/spindle_use status "
        "admin_state pnode snodes tags disk_template disk.sizes disk.spindles nic.networks "
        "nic.macs nic.ips nic.modes nic.links forthcoming hypervisor os"
    ),
    "network": "uuid name group_list",
}
"""Type of object, in the order of `Answers` -> the fields to query."""

NORMAL = 0
"""The status of a field that has a value, in answers of LUXI."""


def ask_luxi(path: str, deadline: Deadline, limit: int) -> Answers:
    """Return the answers of the daemons at the socket `path`; "" means the default socket.

    All answers must arrive before `deadline`; none may have more than `limit` bytes.

    Raises
    ------
    LiveError
        If the daemons do not answer, or an answer is invalid.
    """
    with LuxiClient(path, limit) as client:
        info = client.call("QueryClusterInfo", (), deadline)
        if not isinstance(info, dict):
            raise LiveError(f"{client.path}: QueryClusterInfo", "expected an object")
        answers: dict[str, list[Record]] = {}
        for what, words in QUERY_FIELDS.items():
            fields = words.split()
            result = client.call("Query", [what, fields, None], deadline)
            try:
                answers[what] = [
                    {
                        field: value if status == NORMAL else None
                        for field, (status, value) in zip(fields, row, strict=True)
                    }
                    for row in result["data"]
                ]
            except (TypeError, KeyError, ValueError):
                problem = f"expected rows of {len(fields)} fields, each a status and a value"
                raise LiveError(f"{client.path}: Query {what}", problem) from None
        groups, nodes, instances, networks = answers.values()
        return Answers(client.path, info, groups, nodes, instances, networks)


FILE_SCHEME = "file://"
"""The prefix of an address that is a folder with stored answers."""

RAPI_PATHS = {
    "info": "/2/info",
    "groups": "/2/groups?bulk=1",
    "nodes": "/2/nodes?bulk=1",
    "instances": "/2/instances?bulk=1",
    "networks": "/2/networks?bulk=1",
}
"""Name of a question, and of the file with its stored answer -> its path in RAPI."""


class AnswerSource(Protocol):
    """The interface of a source of RAPI's answers."""

    base: str

    def get(self, path: str, deadline: Deadline) -> Any:
        """Return the JSON value at `path`, which must be complete before `deadline`."""


class StoredAnswers:
    """Reads answers from the folder of an address ``file://FOLDER``; networks may be missing there.

    Each file is read on demand, so that the error about a damaged file contains its name.
    """

    def __init__(self, address: str, limit: int) -> None:
        self.base = address
        self._limit = limit
        self._folder = address.removeprefix(FILE_SCHEME)

    def get(self, path: str, deadline: Deadline) -> Any:
        """Return the content of the file with the answer for `path`."""
        name = next(name for name, question in RAPI_PATHS.items() if question == path)
        file = f"{self._folder}/{name}.json"
        if name == "networks" and not os.path.exists(file):
            return []
        try:
            return decode_any(read_file(file, self._limit))
        except RequestError as error:
            raise UsageError(f"{file}: {error}") from None


def ask_rapi(source: AnswerSource, deadline: Deadline) -> Answers:
    """Return RAPI's answers, all before `deadline`.

    Raises
    ------
    LiveError, UsageError
        If RAPI does not answer, or an answer is invalid.
    """
    said = {name: source.get(path, deadline) for name, path in RAPI_PATHS.items()}
    info = said.pop("info")
    if not isinstance(info, dict):
        raise LiveError(f"{source.base}: {RAPI_PATHS['info']}", "expected an object")
    for name, records in said.items():
        if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
            raise LiveError(f"{source.base}: {RAPI_PATHS[name]}", "expected a list of objects")
    nodes = [{**raw, **_named("ndp/", raw.get("ndparams"))} for raw in said["nodes"]]
    instances = [{**raw, **_named("be/", raw.get("beparams"))} for raw in said["instances"]]
    for record in instances:  # the memory in use now, if it is known
        used = record.get("oper_ram")
        if isinstance(used, int | float) and not isinstance(used, bool):
            record["be/memory"] = used
    return Answers(source.base, info, said["groups"], nodes, instances, said["networks"])


def _named(prefix: str, parameters: Any) -> Record:
    if not isinstance(parameters, dict):
        return {}
    return {prefix + key: value for key, value in parameters.items()}
