"""Define features of nodes: their states, resources, and storage pools."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.scenarios import (
    BEST,
    DRBD,
    NEXT,
    PAIR,
    SHARED,
    SOURCE,
    Scenario,
)

from .table import ON_DISK, PRIMARIES, feature


@feature("offline")
def offline(scenario: Scenario) -> Iterator[None]:
    """Set the node `best` offline, so that it accepts nothing, whatever amounts it reports."""
    _empty_best(scenario)
    scenario.asleep = True
    yield
    scenario.node(BEST)["offline"] = True


@feature("drained")
def drained(scenario: Scenario) -> Iterator[None]:
    """Drain the node `best`, so that it accepts no new instance."""
    _empty_best(scenario)
    yield
    scenario.node(BEST)["drained"] = True


@feature("not vm_capable")
def not_vm_capable(scenario: Scenario) -> Iterator[None]:
    """Clear vm_capable of the node `best`, so that it accepts no instance, whatever it reports."""
    _empty_best(scenario)
    scenario.asleep = True
    yield
    scenario.node(BEST)["vm_capable"] = False


def _empty_best(scenario: Scenario) -> None:
    """Remove the instance on the node `best`, so that N+1 does not depend on that node."""
    scenario.disable_n1()
    del scenario.document["instances"]["at-best"]


@feature("maintenance tag")
def maintenance(scenario: Scenario) -> Iterator[None]:
    """Set the node `best` in maintenance, so that it accepts no new instance."""
    yield
    scenario.tag(scenario.node(BEST), "iallocator:maintenance")


@feature("cpu ratio", PRIMARIES)
def cpu_ratio(scenario: Scenario) -> Iterator[None]:
    """Let the tested instance exceed the ratio of 4 virtual cpus on one cpu of node `best`."""
    scenario.subject["vcpus"] = 5
    yield
    scenario.node(BEST)["total_cpus"] = 1


@feature("disk reserve", ON_DISK)
def disk_reserve(scenario: Scenario) -> Iterator[None]:
    """Reserve all of the disk of the node `best`, so that it accepts no new disk."""
    yield
    scenario.tag(scenario.node(BEST), "iallocator:disk-reserve:100%")


@feature("volume groups", ON_DISK)
def volume_groups(scenario: Scenario) -> Iterator[None]:
    """Fill the tested instance's volume group on the node `best`, but not another one."""
    scenario.disable_n1()  # from `next` it could go to `best` only
    for disk in scenario.subject["disks"]:
        disk["vg"] = "fast"
    for node in scenario.document["nodes"].values():
        node["volume_groups"] = [{"name": name, "free": 500000} for name in ("fast", "lvm")]
    yield
    scenario.node(BEST)["volume_groups"][0]["free"] = 0


@feature("spindle ratio", ON_DISK)
def spindle_ratio(scenario: Scenario) -> Iterator[None]:
    """Exceed the spindle ratio 32 on the node `best` with 40 uses of one spindle."""
    scenario.subject["spindle_use"] = 40
    for node in scenario.document["nodes"].values():
        node["ndparams"]["spindle_count"] = 4
    yield
    scenario.node(BEST)["ndparams"]["spindle_count"] = 1


@feature("exclusive storage", ON_DISK)
def exclusive_storage(scenario: Scenario) -> Iterator[None]:
    """Give the node `best` exclusive storage with one spindle, which the instance there uses."""
    scenario.disable_n1()  # from `next` it could go to `best` only
    for name in (BEST, NEXT):
        scenario.node(name)["ndparams"]["exclusive_storage"] = True
        scenario.node(name)["total_spindles"] = 9
    yield
    scenario.node(BEST)["total_spindles"] = 1


@feature("pools", (SHARED, DRBD, PAIR))
def pools(scenario: Scenario) -> Iterator[None]:
    """Remove the access of the node `best` to the storage pool of the tested instance."""
    where = "external" if scenario.kind == SHARED else "internal"
    tag = f"iallocator:pool:{where}:fast"
    scenario.disable_n1()  # from `next` it could fail over to `best` only
    scenario.tag(scenario.subject, tag)
    for name, node in scenario.document["nodes"].items():
        if name != BEST:
            scenario.tag(node, tag)
    control = scenario.node(BEST)["tags"]
    scenario.tag(scenario.node(BEST), tag)
    yield
    scenario.node(BEST)["tags"] = [*control, f"iallocator:pool:{where}:slow"]


@feature("required label")
def required_label(scenario: Scenario) -> Iterator[None]:
    """Let the tested instance require a label that the node `best` does not have."""
    scenario.disable_n1()  # from `next` it could fail over to `best` only
    scenario.tag(scenario.subject, "iallocator:nodes:must:fast")
    for name, node in scenario.document["nodes"].items():
        if name != BEST:
            scenario.tag(node, "fast")
    control = scenario.node(BEST)["tags"]
    scenario.tag(scenario.node(BEST), "fast")
    yield
    scenario.node(BEST)["tags"] = [*control, "slow"]


@feature("excluded label")
def excluded_label(scenario: Scenario) -> Iterator[None]:
    """Let the tested instance exclude a label that the node `best` has."""
    scenario.disable_n1()
    scenario.tag(scenario.subject, "iallocator:nodes:never:slow")
    yield
    scenario.tag(scenario.node(BEST), "slow")


@feature("preferred label", PRIMARIES)
def preferred_label(scenario: Scenario) -> Iterator[None]:
    """Let the tested instance prefer a label, at a high penalty, that the node `best` lacks."""
    scenario.disable_n1()
    scenario.tag(scenario.subject, "iallocator:nodes:should:quick:1000")
    for name, node in scenario.document["nodes"].items():
        if name not in (BEST, SOURCE):
            scenario.tag(node, "quick")
    control = scenario.node(BEST)["tags"]
    scenario.tag(scenario.node(BEST), "quick")
    yield
    scenario.node(BEST)["tags"] = [*control, "slow"]


@feature("restricted nodes")
def restricted_nodes(scenario: Scenario) -> Iterator[None]:
    """Restrict the request to some nodes without the node `best`."""
    scenario.subject["restrict-to-nodes"] = [BEST, NEXT, *_more(scenario)]
    yield
    scenario.subject["restrict-to-nodes"] = [NEXT, *_more(scenario)]


def _more(scenario: Scenario) -> list[str]:
    """Return the nodes that exist only in scenarios with a pair of new nodes."""
    return ["spare"] if scenario.kind == PAIR else []
