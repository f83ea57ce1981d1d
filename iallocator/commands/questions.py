"""Convert questions in words and options to requests in the form of Ganeti's.

=====================  ==============================================================
``allocate``           place new instances, of the size in ``--memory``, ``--disk`` ...
``evacuate NODES``     move instances off these nodes (``--mode``: in which role)
``relocate NAME``      find a secondary node; a primary node if disks are shared
``change-group NAMES`` move instances to the groups ``--to``, or to any other group
=====================  ==============================================================

Commas separate names.  The part of a name before the first dot is enough if it is unique.
"""

from __future__ import annotations

import shlex

from iallocator.commands.other_options import Question, words_of_question
from iallocator.errors import UsageError
from iallocator.model.templates import TEMPLATES
from iallocator.names import whole_name, whole_names
from iallocator.options.parser import parse
from iallocator.planners.eligible import group_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster
    from iallocator.sources import Source


__all__ = ["in_group", "request_in_words", "request_of"]

BELONGS = {
    option.target: option.help.partition(":")[0]
    for option in Question.options
    if option.target != "group"
}
"""Attribute -> the kind of question to which it belongs."""


def request_of(kind: str, names: Sequence[str], settings: Question, source: Source) -> Json:
    """Return the request that Ganeti would send for a question in words and options.

    Raises
    ------
    UsageError
        If an option belongs to another kind of question, or a necessary option is missing.
    NotFoundError
        If the cluster has no such node, instance or group.
    """
    for target, owner in BELONGS.items():
        if target in settings.chosen and owner != kind:
            raise UsageError(f"--{target.replace('_', '-')} is for {owner}, not for {kind}")
    cluster = source.cluster
    known = [one.name for one in cluster.instances]
    if kind == "allocate":
        request = _allocate(settings, source)
    elif kind == "evacuate":
        nodes = whole_names(names, [node.name for node in cluster.nodes], "evacuate", "node")
        leaving = {node.index for node in cluster.nodes if node.name in nodes}
        mode = settings.mode or "all"
        roles = {"primary-only": slice(0, 1), "secondary-only": slice(1, None)}
        held = roles.get(mode, slice(None))
        concerned = [i.name for i in cluster.instances if leaving.intersection(i.nodes[held])]
        request = {"type": "node-evacuate", "instances": sorted(concerned), "evac_mode": mode}
    elif kind == "relocate":
        if len(names) != 1:
            raise UsageError(f"relocate is about one instance, got {len(names)}")
        name = whole_name(names[0], known, "relocate", "instance")
        instance = next(i for i in cluster.instances if i.name == name)
        node = cluster.nodes[instance.nodes[-1]].name
        request = {"type": "relocate", "name": name, "relocate_from": [node], "required_nodes": 1}
    else:
        targets = [group_named(cluster, target, "--to").uuid for target in settings.to]
        instances = whole_names(names, known, "change-group", "instance")
        request = {"type": "change-group", "instances": instances, "target_groups": targets}
    return in_group(request, cluster, settings) if settings.group else request


def in_group(request: Json, cluster: Cluster, settings: Any) -> Json:
    """Return the valid `request` of Ganeti, restricted to the group of ``--group``.

    New instances, and those that change their group, go to this group. Of the instances that
    another request moves, only those of this group are moved, and they stay in it.

    Raises
    ------
    NotFoundError
        If there is no such group.
    UsageError
        If the request excludes this group.
    """
    group = group_named(cluster, settings.group)
    kind = request["type"]
    if kind == "allocate":
        return {**request, "group_name": group.name}
    if kind == "multi-allocate":
        wanted = [{**one, "group_name": group.name} for one in request["instances"]]
        return {**request, "instances": wanted}
    if kind == "change-group":
        if group.uuid not in (request["target_groups"] or [group.uuid]):
            raise UsageError(f"--group {group.name}: the request names other groups")
        return {**request, "target_groups": [group.uuid]}
    if settings.asks_here("inter_group") and settings.inter_group == "yes":
        raise UsageError("--group and --inter-group yes exclude each other")
    settings.inter_group = "no"
    settings.chosen |= {"inter_group"}  # as the command line, it overrides tags
    members = {one.name for one in cluster.members(group)}
    if "instances" in request:
        return {**request, "instances": [one for one in request["instances"] if one in members]}
    if "evac_nodes" in request:
        nodes = {cluster.nodes[index].name for index in group.nodes}
        return {**request, "evac_nodes": [one for one in request["evac_nodes"] if one in nodes]}
    if request["name"] not in members:
        raise UsageError(f"--group {group.name}: {request['name']} is in another group")
    return request


def request_in_words(text: str, source: Source) -> Json:
    """Return the request for `text`: words and options as of ``ask``.

    Raises
    ------
    UsageError, NotFoundError
        If the words are no valid request, or one of them is a file, or a name is unknown.
    """
    question = Question()
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--request: {error}") from None
    kind, names, more = words_of_question(parse(words, question, Question.options))
    if more:
        raise UsageError(f"--request: expected no file, got {' '.join(more)}")
    return request_of(kind, names, question, source)


def _allocate(settings: Question, source: Source) -> Json:
    template = settings.disk_template or _first_template(settings, source.policy.templates)
    if settings.memory is None or not template:
        raise UsageError(
            "ask allocate needs --disk-template NAME: the policy allows none"
            if template == ""
            else "ask allocate needs --memory SIZE"
        )
    kind = TEMPLATES.get(template)
    if bool(settings.disk) == (kind is not None and not kind.has_disks):
        needs = "takes no --disk" if settings.disk else "needs --disk SIZE"
        option = settings.written.get("disk_template", "--disk-template")
        raise UsageError(f"{option} {template} {needs}")
    name = settings.name or "new"
    if settings.count == 1:
        return {"type": "allocate", **_instance(name, template, settings)}
    wanted = [_instance(f"{name}-{n}", template, settings) for n in range(1, settings.count + 1)]
    return {"type": "multi-allocate", "instances": wanted}


def _first_template(settings: Question, allowed: Sequence[str]) -> str:
    """Return the first allowed disk template, preferably one that fits the options for disks."""
    for template in allowed:
        kind = TEMPLATES.get(template)
        if kind is not None and kind.has_disks == bool(settings.disk):
            return template
    return next(iter(allowed), "")


def _instance(name: str, template: str, settings: Question) -> Json:
    kind = TEMPLATES.get(template)
    nodes, metadata = (kind.nodes, kind.metadata) if kind else (1, 0)
    disks = [{"size": size, "mode": "rw"} for size in settings.disk]
    return {
        "name": name,
        "memory": settings.memory,
        "vcpus": settings.vcpus,
        "spindle_use": settings.spindle_use,
        "disk_template": template,
        "disks": disks,
        "disk_space_total": sum(settings.disk) + metadata * len(disks),
        "nics": [{"network": network} for network in settings.network],
        "tags": list(settings.instance_tags),
        "required_nodes": nodes,
        "group_name": None,
    }
