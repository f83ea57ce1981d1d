"""Define features of node groups: policies, networks, group settings."""

from __future__ import annotations

from collections.abc import Iterator

from tests import builders
from tests.matrix.scenarios import (
    BEST,
    KEEPER,
    NEXT,
    PLAIN,
    SHARED,
    SPARE,
    Scenario,
)

from .shared import excluded_from_best, only_best_can_rescue
from .table import HERE, PRIMARIES, feature


@feature("policy", split=True)
def policy(scenario: Scenario) -> Iterator[None]:
    """Set a policy of the group of the node `best` that permits only smaller instances."""
    yield
    high = builders.spec(scenario.subject["memory"] - 1, 64, 16777216, 16, 64)
    scenario.group_of(BEST)["ipolicy"] = builders.policy(high=high)


@feature("networks", split=True)
def networks(scenario: Scenario) -> Iterator[None]:
    """Disconnect the group of the node `best` from a network of the tested instance."""
    scenario.subject["nics"] = [{"mac": "aa:00:00:11:22:33", "ip": None, "network": "net1"}]
    for group in scenario.document["nodegroups"].values():
        group["networks"] = ["net1"]
    yield
    scenario.group_of(BEST)["networks"] = ["net2"]


@feature("unallocable group", split=True)
def unallocable(scenario: Scenario) -> Iterator[None]:
    """Make the group of the node `best` unallocable, so that no instance is placed in it."""
    yield
    scenario.group_of(BEST)["alloc_policy"] = "unallocable"


@feature("group setting: soft errors", PRIMARIES, expect=HERE)
def group_soft_errors(scenario: Scenario) -> Iterator[None]:
    """Let the group ignore soft errors, while each placement violates a soft limit."""
    _unwelcome(scenario)
    yield
    scenario.tag(scenario.group_of(BEST), "iallocator:ignore-soft-errors:yes")


@feature("setting of another group: soft errors", PRIMARIES, split=True)
def other_group_soft_errors(scenario: Scenario) -> Iterator[None]:
    """Let the other group ignore soft errors, while each placement violates a soft limit."""
    _unwelcome(scenario)
    untagged = scenario.group_of(BEST)["tags"]
    scenario.tag(scenario.group_of(BEST), "iallocator:ignore-soft-errors:yes")
    yield
    scenario.group_of(BEST)["tags"] = untagged
    scenario.tag(scenario.group_of(NEXT), "iallocator:ignore-soft-errors:yes")


def _unwelcome(scenario: Scenario) -> None:
    """Let the tested instance violate a soft limit on every node: of tags, or of cpus."""
    if scenario.wanted is not None:
        scenario.wanted["vcpus"] = 5
        for name in (BEST, NEXT, SPARE):
            scenario.node(name)["total_cpus"] = 1
        return
    excluded_from_best(scenario)
    for name, one in scenario.document["instances"].items():
        if name in ("at-next", "at-keeper", "at-spare"):
            scenario.tag(one, "service:dns")


@feature("group setting: memory ratio", (SHARED, PLAIN), expect=HERE)
def group_memory_ratio(scenario: Scenario) -> Iterator[None]:
    """Set a memory ratio of the group; without it, the node `best` lacks one MiB."""
    scenario.disable_n1()
    instances = scenario.document["instances"].values()
    for name, short in ((BEST, 0), (NEXT, 400), (KEEPER, 300), (SPARE, 400)):
        if name in scenario.document["nodes"]:
            held = sum(one["memory"] for one in instances if one["nodes"][0] == name)
            size = held + scenario.subject["memory"] - short
            scenario.node(name)["total_memory"] = min(scenario.node(name)["total_memory"], size)
    yield
    scenario.tag(scenario.group_of(BEST), "iallocator:memory-ratio:1.01")


@feature("group setting: n1", expect=HERE)
def group_n1(scenario: Scenario) -> Iterator[None]:
    """Disable the N+1 check in the group of the node `best`."""
    only_best_can_rescue(scenario)
    scenario.options[:] = [option for option in scenario.options if not option.startswith("--n1")]
    yield
    scenario.tag(scenario.group_of(BEST), "iallocator:n1:off")


@feature("group setting: strategy")
def group_strategy(scenario: Scenario) -> Iterator[None]:
    """Set a strategy of Pacemaker for the group, by which an infinite score decides."""
    scenario.tag(scenario.node(NEXT), "iallocator:score:INFINITY")
    yield
    scenario.tag(scenario.group_of(NEXT), "iallocator:strategy:pacemaker-default")
