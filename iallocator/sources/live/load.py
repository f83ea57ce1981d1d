"""A running cluster as a model: asked as often as it takes until the answers fit together.

The questions are no transaction: what is created or removed between two of them is in one
answer and not in the other.
"""

from __future__ import annotations

from copy import copy

from iallocator.deadline import Deadline, Running
from iallocator.errors import RequestError
from iallocator.live.errors import LiveError
from iallocator.sources.live.answers import check_kinds
from iallocator.sources.live.document import captured, master_of, silent_nodes
from iallocator.wire.document import read_cluster
from iallocator.wire.policy import cluster_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from iallocator.model.cluster import Cluster
    from iallocator.model.policy import Policy
    from iallocator.options.settings import Settings
    from iallocator.sources.live.answers import Answers, Record
    from iallocator.wire.reading import Reading

__all__ = [
    "ask",
    "read_live",
    "reading_deadline",
    "refuse_silence",
    "silence_warnings",
    "understood",
]

AGAIN = 3
"""How often everything is asked once more."""


def reading_deadline(settings: Settings, in_run: bool) -> Deadline:
    """Return the deadline of reading a cluster, or of asking its monitoring daemons.

    `in_run`: whether the time limit of the run counts, too, if one was chosen.  It does not
    while a plan is carried out, which takes longer than planning.
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
    """The cluster that ``-L`` or ``-m`` names, its policy, its master, and its document.

    `in_run`: as of `reading_deadline`.

    Raises
    ------
    LiveError, UsageError
        If it is not reached, or does not answer as it should.
    """
    answers = ask(settings, reading_deadline(settings, in_run))
    return understood(answers, reading, through_luxi=settings.luxi is not None)


def understood(
    answers: Answers, reading: Reading, through_luxi: bool
) -> tuple[Cluster, Policy, str, Record]:
    """What `answers` say, as a model and as a document; errors name where they come from."""
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


def silence_warnings(cluster: Cluster) -> list[str]:
    """Return a warning for each node of `cluster` that is only assumed to be offline."""
    return [
        f"Warning: node {name} does not answer and is not marked offline: it counts as offline "
        f"({mark_offline(name)} marks it)"
        for name in cluster.assumed_offline
    ]


def refuse_silence(cluster: Cluster, option: str) -> NoReturn:
    """Refuse to change a cluster with nodes that are only assumed to be offline.

    `option`: the one that allows it.

    Raises
    ------
    LiveError
        Always: the node may answer again in a moment.
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
    """Answers that fit together, from the cluster that `settings` name; all before `deadline`."""
    if settings.luxi is not None:
        from iallocator.sources.live.luxi import ask_luxi

        path = settings.luxi
        return _consistent(lambda: ask_luxi(path, deadline, settings.max_input), AGAIN)
    from iallocator.sources.live.rapi import FILE, StoredAnswers, ask_rapi

    if settings.rapi.startswith(FILE):
        stored = StoredAnswers(settings.rapi, settings.max_input)
        return _consistent(lambda: ask_rapi(stored, deadline), 0)
    from iallocator.live.rapi import RapiClient

    client = RapiClient(
        settings.rapi,
        cacert=settings.cacert,
        insecure=settings.insecure,
        credentials=settings.credentials,
        limit=settings.max_input,
    )
    return _consistent(lambda: ask_rapi(client, deadline), AGAIN)


def _consistent(question: Callable[[], Answers], again: int) -> Answers:
    for _ in range(again):
        answers = question()
        check_kinds(answers)
        if next(_contradictions(answers), None) is None:
            return answers
    answers = question()
    check_kinds(answers)
    for problem in _contradictions(answers):
        asked = f", asked {again + 1} times: it changes, or is damaged" if again else ""
        raise LiveError(answers.where, f"the answers contradict each other{asked}: {problem}")
    return answers


def _contradictions(answers: Answers) -> Iterator[str]:
    """What one answer names that another does not know."""
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
