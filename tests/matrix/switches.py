"""Disable each feature of the matrix at the place where the program implements it.

A switch disables the one place through which the feature reaches all paths: a row of the table of
limits, the reading of a kind of tag, a property of an instance. It never disables a path: a case
that passes with its feature disabled does not test the feature.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import iallocator
from iallocator import settings as effective_settings
from iallocator.constraints.table import MigrationTags, Networks, NodeLabels
from iallocator.limits import node as node_limits
from iallocator.model import tags as model_tags
from iallocator.model.cluster import Group, Node
from iallocator.model.instance import Instance, primary_vector
from iallocator.model.policy import Policy
from iallocator.model.storage import Storage
from iallocator.options.settings import Settings
from iallocator.requests import Allocate
from iallocator.scoring import metrics
from iallocator.tags import affinity, pacemaker, pacemaker_scores

__all__ = ["SWITCHES", "switched_off"]

Switch = Callable[[ExitStack], None]

SWITCHES: dict[str, Switch] = {}
"""Feature -> the switch that disables it."""


def _switch(*features: str) -> Callable[[Switch], Switch]:
    def put(function: Switch) -> Switch:
        SWITCHES.update(dict.fromkeys(features, function))
        return function

    return put


@contextmanager
def switched_off(feature: str) -> Iterator[None]:
    """Disable a feature for the time of a block."""
    with ExitStack() as stack:
        SWITCHES[feature](stack)
        yield


@cache
def _load_all() -> None:
    """Load the whole program, because a module loaded later would keep the changed objects."""
    for module in pkgutil.walk_packages(iallocator.__path__, "iallocator."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _everywhere(stack: ExitStack, old: Any, new: Any) -> None:
    """Replace `old` by `new` under every name in the modules of the program."""
    _load_all()
    for name, module in list(sys.modules.items()):
        if name.startswith("iallocator"):
            for word, value in list(vars(module).items()):
                if value is old:
                    stack.enter_context(patch.object(module, word, new))


def _after_init(stack: ExitStack, owner: type, change: Callable[[Any], None]) -> None:
    """Apply `change` to every new object of a class."""
    old = owner.__init__  # type: ignore[misc]

    def made(self: Any, *words: Any, **members: Any) -> None:
        old(self, *words, **members)
        change(self)

    stack.enter_context(patch.object(owner, "__init__", made))


# Nodes and groups.


def _node(**members: Any) -> Switch:
    def switch(stack: ExitStack) -> None:
        def change(node: Any) -> None:
            for name, value in members.items():
                setattr(node, name, value)
            node.online = node.vm_capable and not node.offline and not node.drained

        _after_init(stack, Node, change)

    return switch


SWITCHES["offline"] = _node(offline=False)
SWITCHES["drained"] = _node(drained=False)
SWITCHES["not vm_capable"] = _node(vm_capable=True)


@_switch("unallocable group")
def _unallocable(stack: ExitStack) -> None:
    def change(group: Any) -> None:
        group.alloc_policy = "preferred"

    _after_init(stack, Group, change)


@_switch("policy")
def _policy(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Policy, "rejects", lambda *words: None))


@_switch("networks")
def _networks(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Networks, "missing", lambda *_: frozenset()))


@_switch("restricted nodes")
def _restricted(stack: ExitStack) -> None:
    def change(request: Any) -> None:
        request.restrict_to = None

    _after_init(stack, Allocate, change)
    _setting(stack, "restrict_allocation_to", lambda names: None)


@_switch("volume groups")
def _volume_groups(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Storage, "free", lambda *words: {}))


@_switch("pools")
def _pools(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Storage, "nodes_for", lambda *words: None))


@_switch("required label", "excluded label")
def _labels(stack: ExitStack) -> None:
    stack.enter_context(patch.object(NodeLabels, "accepts", lambda *words: True))


# Limits.


def _passes(fails: Callable[..., Any], *views: Any) -> Any:
    """Return False for one node, or an array of False for many nodes."""
    return fails(*views) * 0 > 0


def _rows(*words: str) -> Switch:
    """Return a switch that lets each limit with one of the texts `words` never fail."""

    def switch(stack: ExitStack) -> None:
        rows = {*node_limits.PRIMARY.checks, *node_limits.SECONDARY.checks}
        for row in (row for row in rows if row.words in words):
            stack.callback(setattr, row, "fails", row.fails)
            row.fails = partial(_passes, row.fails)

    return switch


def _unweighed(*names: str) -> Switch:
    """Return a switch that removes the named statistics from the score."""

    def switch(stack: ExitStack) -> None:
        for one in (one for one in metrics.STATISTICS if one.name in names):
            stack.callback(setattr, one, "weight", one.weight)
            one.weight = 0

    return switch


def _both(*switches: Switch) -> Switch:
    def switch(stack: ExitStack) -> None:
        for one in switches:
            one(stack)

    return switch


SWITCHES["cpu ratio"] = _both(_node(vcpu_ratio=1e9), _unweighed("vcpu_ratio", "vcpu_ratio_forth"))
SWITCHES["spindle ratio"] = _node(high_spindles=1e9)
SWITCHES["exclusive storage"] = _both(
    _rows("own_spindles", "own_spindles_later"),
    _unweighed("free_disk", "free_disk_forth"),
)


@_switch("disk reserve")
def _disk_reserve(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Node, "disk_reserve", 0))


@_switch("exclusion tags")
def _exclusion(stack: ExitStack) -> None:
    _everywhere(stack, model_tags.exclusion_prefixes, lambda tags: ())


@_switch("migration tags")
def _migration(stack: ExitStack) -> None:
    stack.enter_context(patch.object(MigrationTags, "missing", lambda *_: frozenset()))


@_switch("location tags")
def _locations(stack: ExitStack) -> None:
    old = model_tags._values
    kinds = (model_tags.NODE_LOCATION, model_tags.DESIRED)
    new = lambda tags, kind: () if kind in kinds else old(tags, kind)
    _everywhere(stack, old, new)


# Settings.


def _setting(stack: ExitStack, name: str, taken: Callable[[Any], Any]) -> None:
    """Let `taken` replace the value of a setting when it is read."""
    default = getattr(Settings, name)

    def read(self: Any) -> Any:
        return taken(vars(self).get(name, default))

    def write(self: Any, value: Any) -> None:
        vars(self)[name] = value

    stack.enter_context(patch.object(Settings, name, property(read, write)))


def _n1(asked: str, taken: str) -> Switch:
    return lambda stack: _setting(stack, "n1", lambda mode: taken if mode == asked else mode)


def _groups(change: Callable[[Any], None]) -> Switch:
    def switch(stack: ExitStack) -> None:
        old = effective_settings.effective

        def new(settings: Any, *words: Any) -> Any:
            whole = copy(old(settings, *words))
            change(whole)
            return whole

        _everywhere(stack, old, new)

    return switch


SWITCHES["N+1 no-new"] = _n1("no-new", "off")
SWITCHES["N+1 no-worse"] = _n1("no-worse", "off")
SWITCHES["N+1 off"] = _n1("off", "no-new")
SWITCHES["N+1 strict"] = _n1("strict", "no-new")


def _alone(settings: Any) -> None:
    settings.by_group = {}


for _name in ("n1", "soft errors", "strategy", "memory ratio"):
    SWITCHES[f"group setting: {_name}"] = _groups(_alone)


def _leaking(settings: Any) -> None:
    """Apply the setting for soft errors of one group to all groups."""
    for own in settings.by_group.values():
        settings.ignore_soft_errors = settings.ignore_soft_errors or own.ignore_soft_errors


SWITCHES["setting of another group: soft errors"] = _groups(_leaking)


# Instances.


def _property(name: str, old_state: Callable[[Instance], bool], value: Any) -> Switch:
    def switch(stack: ExitStack) -> None:
        old = getattr(Instance, name).fget
        new = property(lambda self: value(self) if old_state(self) else old(self))
        stack.enter_context(patch.object(Instance, name, new))

    return switch


def _memory(instance: Instance) -> int:
    return instance.memory


@_switch("auto_balance off", "admin_state offline")
def _reserves(stack: ExitStack) -> None:
    _property("reserves", lambda one: True, lambda one: not one.forthcoming)(stack)


@_switch("not running")
def _running(stack: ExitStack) -> None:
    def change(instance: Any) -> None:
        instance.admin_state, instance.uses_memory = "up", True
        instance.as_primary = primary_vector(instance)

    _after_init(stack, Instance, change)


# Constraints: by what is read of tags.


def _unread(*starts: str) -> Switch:
    """Return a switch that ignores tags of iallocator that begin with one of `starts`."""

    def switch(stack: ExitStack) -> None:
        old = affinity._relation

        def relation(parsed: Any, named: Any, one: Any, tag: str, kind: str, rest: str) -> None:
            if not f"{kind}:{rest}".startswith(starts):
                old(parsed, named, one, tag, kind, rest)

        stack.enter_context(patch.object(affinity, "_relation", relation))
        if "colocate:must" in starts:
            stack.enter_context(patch.object(pacemaker, "COLOCATE", "no-such-tag:"))

    return switch


SWITCHES["together"] = SWITCHES["together, as one"] = _unread("colocate:must")
SWITCHES["apart (node)"] = SWITCHES["apart (domain)"] = _unread("separate:must")
SWITCHES["apart (group)"] = _unread("separate:must")
SWITCHES["should with a penalty"] = _unread("colocate:should", "separate:should")


@_switch("preferred label")
def _preferred(stack: ExitStack) -> None:
    stack.enter_context(patch.object(affinity, "_preferred_label", lambda *words: None))


@_switch("priority")
def _priority(stack: ExitStack) -> None:
    stack.enter_context(patch.object(affinity, "_priority", lambda *words: None))
    stack.enter_context(patch.object(pacemaker, "PRIORITY", "no-such-tag:"))


@_switch("order", "order after what fails")
def _order(stack: ExitStack) -> None:
    stack.enter_context(patch.object(affinity, "_order", lambda *words: None))


@_switch("keep-running")
def _keep_running(stack: ExitStack) -> None:
    stack.enter_context(patch.object(affinity.Parsed, "keep_running", []))


@_switch("maintenance tag")
def _maintenance(stack: ExitStack) -> None:
    stack.enter_context(patch.object(pacemaker, "MAINTENANCE", "no-such-tag"))


@_switch("hard location score", "hard node score")
def _hard_scores(stack: ExitStack) -> None:
    old = pacemaker_scores.read_score
    _everywhere(stack, old, lambda text, whole=True: max(old(text, whole), 0))


@_switch("soft location score", "required location score", "infinite stickiness")
def _soft_scores(stack: ExitStack) -> None:
    _everywhere(stack, pacemaker_scores.read_score, lambda text, whole=True: 0)


@_switch("utilization")
def _utilization(stack: ExitStack) -> None:
    stack.enter_context(patch.object(pacemaker, "UTILIZATION", "no tag begins so:"))
