"""The JSON documents of commands: the envelope, and one meaning for each key.

Commands make their documents with the keys of version 0.1, which ``--json=1`` writes until version
2.0. `enveloped` changes the keys by the table `KEYS`, from which a page of the manual is made.
Explanations are large. Therefore they are made with the present keys, and `with_old_keys` converts
them to the keys of version 0.1.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from iallocator.aliases import Json

__all__ = [
    "DOCUMENT_VERSION",
    "ENVELOPE",
    "KEYS",
    "VALIDATION",
    "enveloped",
    "new_paths",
    "with_old_keys",
]  # fmt: skip

DOCUMENT_VERSION = 2
"""The version of the documents; 1 has the keys of version 0.1, and no envelope."""

ENVELOPE = {
    "command": "the command that wrote the document",
    "version": f"the version of the schema: {DOCUMENT_VERSION}",
    "cluster": "the name of the cluster; empty if the source does not contain it",
    "source": "where the cluster was read: a file, `-` (stdin), `luxi`, `rapi:ADDRESS`, or "
    "`simulate:SPEC`; of `history` the folder",
    "time": "when the data were read, as `2026-01-02T03:10:00Z`",
}
"""Keys with which every document begins, in this order, and their meanings."""

_MOVES = (
    ("groups[].before", "score"),
    ("groups[].after", "score_after"),
    ("groups[].moves", "move_count"),
)

_EXECUTION = (
    ("execution.jobs[].what", "description"),
    ("execution.jobs[].why", "reason"),
    ("execution.jobs[].steps", "step_numbers"),
    ("execution.nodes", "node_states"),
)

_TRANSITION = (
    ("transition.steps[].after", "depends_on"),
    ("transition.jobs[].steps", "step_numbers"),
    ("transition.waits", "dependency_count"),
)

_STEPS = (*_TRANSITION, *_EXECUTION)

_PLAN = (*_MOVES, *_STEPS)

_OBJECTIVE = (("scores", "objective"), ("moves[].score", "objective_after"))
"""Renamed keys of plans between groups, which improve another objective than the score."""

_EFFECT = (*_OBJECTIVE, *_PLAN)

_REBOOTS = (
    ("scores", ""),
    ("moves[].score", ""),
    *_PLAN,
    ("reboots[].moves", "placements"),
)
"""Keys of plans of ``reboot``: those that were renamed, and "scores" that are left out."""


def _below(path: str, rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(f"{path}.{old}", new) for old, new in rows]


_RESOURCES = (("memory", "memory_usage"), ("disk", "disk_usage"), ("cpu", "cpu_usage"))

_LOADS = (
    ("memory", "memory_load"),
    ("disk", "disk_load"),
    ("cpu", "cpu_load"),
    ("net", "net_load"),
)

_FAILURE = (("survived", "tolerated"),)

_FILLING = (
    ("scores", "cluster_scores"),
    ("after", "usage_after"),
    ("after.score", "cluster_score"),
    ("after.instances", "instance_count"),
    *_below("after", _RESOURCES),
    ("reason", "failure_reason"),
    ("end", "reason"),
    ("instances[].name", "instance"),
)

_DECISION = (
    ("closest", "closest_by_group"),
    ("steps[].move", "kind"),
    ("steps[].words", "text"),
    ("comparisons[].statistics[].answer", "with_answer"),
    ("comparisons[].statistics[].other", "with_other"),
    ("groups[].group_uuid", "uuid"),
    ("groups[].verdict", "comparison"),
    ("groups[].nodes", "candidates"),
    ("groups[].nodes[].name", "node"),
    ("groups[].nodes[].verdict", "result"),
    ("groups[].nodes[].why", "reasons"),
    ("groups[].nodes[].roles[].placements", "placement_count"),
    ("groups[].nodes[].roles[].refusals[].placements", "placement_count"),
    ("groups[].nodes[].roles[].refusals[].reason", "failure_reason"),
    ("groups[].n1_refused[].why", "reason"),
)


_EXPLANATION = (
    ("type", "request_type"),
    ("settings", "request_settings"),
    *_below("decisions[]", _DECISION),
    *_below("decisions[].choice", _DECISION),
    *_below("decisions[].elsewhere", _DECISION),
)

VALIDATION = "--validate"
"""The row of `KEYS` for the documents of ``--validate`` of any command."""

KEYS: dict[str, Sequence[tuple[str, str]]] = {
    "ask": _EXPLANATION,
    "balance-groups": (
        ("groups[].before", "load"),
        ("groups[].after", "load_after"),
        *_below("groups[].before", _LOADS),
        *_below("groups[].after", _LOADS),
        *_OBJECTIVE,
        *_STEPS,
    ),
    "capacity": (
        ("cluster", "totals"),
        ("cluster.nodes", "node_count"),
        ("before", "usage"),
        ("before.score", "cluster_score"),
        ("before.instances", "instance_count"),
        *_below("before", _RESOURCES),
        *_below("tiered", _FILLING),
        *_below("standard", _FILLING),
        ("forecast.asked", "instance_count"),
        ("forecast.hopeless", "rejected_initially"),
        ("forecast.end", "reason"),
        ("purchases[].instances[].name", "instance"),
    ),
    "check": (
        ("rebalancing", "balancing"),
        ("rebalancing.moves", "move_count"),
        ("groups[].reason", "summary"),
        ("failures", "node_failures"),
        ("failures.nodes", "sets"),
        ("failures.nodes.count", "set_count"),
        ("failures.nodes.survived", "tolerated_count"),
        *_below("failures.nodes.losing[]", _FAILURE),
        *_below("failures.domains[]", _FAILURE),
    ),
    "compress": (
        *_EFFECT,
        ("evacuable", "evacuable_groups"),
        ("chosen", "chosen_group"),
        ("groups[].used", "used_resources"),
        ("groups[].used.cpu", "vcpus"),
        ("groups[].free", "free_resources"),
        ("groups[].free.cpu", "vcpus"),
    ),
    "config": (
        ("settings[].from", "origin"),
        ("groups", "group_settings"),
        ("groups[].from", "origin"),
        ("commands", "command_settings"),
        ("commands[].from", "origin"),
    ),
    "constraints": (
        ("constraints[].domain", "domain_prefix"),
        ("constraints[].other", "other_instance"),
        ("unusable", "unusable_tags"),
    ),
    "explain": _EXPLANATION,
    "history": (
        ("calls[].time", "unix_time"),
        ("calls[].type", "request_type"),
        ("calls[].version", "program_version"),
        ("calls[].groups", "group_count"),
        ("calls[].nodes", "node_count"),
        ("calls[].instances", "instance_count"),
    ),
    "maintain": (*_REBOOTS, ("progress.done", "nodes_done"), ("progress.to_do", "nodes_to_do")),
    "place": (*_PLAN, ("instances[].why", "reason")),
    "reboot": _REBOOTS,
    "redistribute": _EFFECT,
    "repair": (
        ("broken", "unrepaired_count"),
        ("counts", "state_counts"),
        ("instances[].broken", "damage"),
        ("instances[].command", "shell_command"),
        ("instances[].tags", "tag_changes"),
        *_EXECUTION,
    ),
    "rescue": _PLAN,
    "show": (
        ("name", ""),
        ("score", "cluster_score"),
        ("groups[].name", "group"),
        ("groups[].nodes", "node_count"),
        ("groups[].instances", "instance_count"),
        ("groups[].n1", "n1_compliant"),
        ("nodes", "node_fields"),
        ("instances[].name", "instance"),
        ("instances[].disk", "disk_per_node"),
        ("instances[].load", "utilisation"),
    ),
    "squeeze": (
        ("nodes", "switched_nodes"),
        ("tags", "node_tag_changes"),
        ("tags.add", "add_by_node"),
        ("tags.remove", "remove_by_node"),
        ("commands", "shell_commands"),
        *_PLAN,
    ),
    "plan": _PLAN,
    VALIDATION: (("inputs[].problems", "errors"),),
}
"""Command, or type of document -> its keys that have another name in `DOCUMENT_VERSION`.

Each row has the old path and the new last key. ``[]`` stands for each item of a list. If the new
key is "", the member is left out. The row of a type applies to all commands that have no row of
their own.
"""

LARGE = ("ask", "explain")
"""The commands that make their documents with the keys of `DOCUMENT_VERSION`."""

UNTRIED = ("moves", "job_sets", "scores", "reason", "problems_after", "rebalancing")
UNTRIED_OF_GROUP = ("score_after", "problems_after", "findings_after")
"""Keys of a group in ``check`` that have no meaning if no balancing is tried."""


def enveloped(kind: str, document: Json, envelope: Json) -> Json:
    """Return `document` of a command with the present keys, after those of the `envelope`.

    `kind`: the key of `KEYS`. `document` is not changed. Cost: the objects on the paths in `KEYS`
    are copied.
    """
    if kind in LARGE:
        return {**envelope, **document}
    if kind == "check" and "rebalancing" in document and not document["rebalancing"]["tried"]:
        document = {key: one for key, one in document.items() if key not in UNTRIED}
        document["groups"] = [
            {key: one for key, one in group.items() if key not in UNTRIED_OF_GROUP}
            for group in document["groups"]
        ]
    rows = [(old.replace("[]", "").split("."), new) for old, new in KEYS.get(kind, ())]
    changed: Json = _Level(rows).of(document)
    changed.pop("command", None)
    return {**envelope, **changed}


def with_old_keys(kind: str, document: Json) -> Json:
    """Return `document` of a command with the keys of version 0.1; `kind`: the key of `KEYS`."""
    if kind not in LARGE:
        return document
    paths = [[path.replace("[]", "").split(".") for path in row] for row in new_paths(kind)]
    changed: Json = _Level([(new, old[-1]) for old, new in paths]).of(document)
    return changed


def new_paths(kind: str) -> Iterator[tuple[str, str]]:
    """Yield the old and the new path of each key that was renamed after version 0.1.

    `kind`: the key of `KEYS`. The new path is "" for a key that is left out.
    """
    new_of: dict[str, str] = {}
    for old, new in sorted(KEYS[kind], key=lambda row: row[0].count(".")):
        above = old.split(".")[:-1]
        parents = []
        for position, key in enumerate(above):
            name = key.removesuffix("[]")
            here = ".".join([*above[:position], name])
            parents.append(new_of.get(here, name) + key[len(name) :])
        new_of[old] = new
        yield old, ".".join([*parents, new]) if new else ""


class _Level:
    """The renamed keys of an object, and the renamed keys in its members.

    Attributes
    ----------
    names:
        Old key -> new key; "" if the member is left out.
    below:
        (old key, new key, level of the value) for each key with renamed keys in its value.
    """

    __slots__ = ("_known", "below", "names")

    def __init__(self, rows: Sequence[tuple[Sequence[str], str]]) -> None:
        self._known: dict[int, Json] = {}  # the same object stands in many places of explanations
        self.names = {path[0]: new for path, new in rows if len(path) == 1}
        deeper: dict[str, list[tuple[Sequence[str], str]]] = {}
        for (key, *path), new in rows:
            if path:
                deeper.setdefault(key, []).append((path, new))
        self.below = [(key, self.names.get(key, key), _Level(deeper[key])) for key in deeper]

    def of(self, value: Any) -> Any:
        """Return `value` with new keys, if it is an object or a list of objects; else unchanged."""
        if isinstance(value, list):
            known = self._known
            return [known[id(one)] if id(one) in known else self.of(one) for one in value]
        if not isinstance(value, dict):
            return value
        # No comprehension: there are many keys, and `zip` and `map` loop in C
        renamed = dict(zip(map(self.names.get, value, value), value.values()))
        self._known[id(value)] = renamed
        renamed.pop("", None)
        for old, new, level in self.below:
            if new and value.get(old):
                renamed[new] = level.of(value[old])
        return renamed
