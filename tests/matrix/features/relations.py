"""Define features of the matrix that are constraints between instances, or with nodes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.scenarios import (
    BEST,
    DRBD,
    KEEPER,
    NEXT,
    PLAIN,
    SHARED,
    SOURCE,
    Scenario,
)

from .table import HERE, PRIMARIES, STAYS, WAITS, feature


@feature("together", PRIMARIES)
def together(scenario: Scenario) -> Iterator[None]:
    """Require that the tested instance shares a node with a partner on the node `next`."""
    partner = scenario.add("partner", NEXT, memory=256, auto_balance=False)
    scenario.tag(scenario.subject, "iallocator:colocate:must:pair")
    yield
    scenario.tag(partner, "iallocator:colocate:must:pair")


@feature("together, as one", (SHARED,), rival=True)
def together_as_one(scenario: Scenario) -> Iterator[None]:
    """Require one node for the tested instance and a partner; only the node `next` fits both."""
    scenario.disable_n1()
    scenario.subject["memory"] = 12000
    if SOURCE in scenario.document["nodes"]:
        scenario.node(SOURCE)["total_memory"] += 12000
    scenario.node(BEST)["total_memory"] = 21000
    rival = scenario.add_rival()
    rival["memory"] = 10000
    scenario.tag(scenario.subject, "iallocator:priority:1")
    yield
    scenario.tag(scenario.subject, "iallocator:colocate:must:pair")
    scenario.tag(rival, "iallocator:colocate:must:pair")


@feature("apart (node)", PRIMARIES)
def apart_node(scenario: Scenario) -> Iterator[None]:
    """Forbid that the tested instance shares a node with the instance on the node `best`."""
    scenario.tag(scenario.subject, "iallocator:separate:must:web")
    yield
    scenario.tag(scenario.instance("at-best"), "iallocator:separate:must:web")


@feature("apart (domain)", PRIMARIES)
def apart_domain(scenario: Scenario) -> Iterator[None]:
    """Forbid that the tested instance shares a rack with an instance on the node `keeper`."""
    scenario.tag(scenario.subject, "iallocator:separate:must:web:rack")
    scenario.tag(scenario.instance("at-keeper"), "iallocator:separate:must:web:rack")
    scenario.tag(scenario.node(KEEPER), "rack:1")
    scenario.tag(scenario.node(NEXT), "rack:2")
    untagged = scenario.node(BEST)["tags"]
    scenario.tag(scenario.node(BEST), "rack:3")
    yield
    scenario.node(BEST)["tags"] = [*untagged, "rack:1"]


@feature("apart (group)", PRIMARIES, split=True)
def apart_group(scenario: Scenario) -> Iterator[None]:
    """Forbid that the tested instance shares a node group with the instance on the node `best`."""
    scenario.tag(scenario.subject, "iallocator:separate:must:web:group")
    yield
    scenario.tag(scenario.instance("at-best"), "iallocator:separate:must:web:group")


@feature("should with a penalty", PRIMARIES)
def should(scenario: Scenario) -> Iterator[None]:
    """Set a penalty for sharing a node with the instance on the node `best`."""
    scenario.tag(scenario.subject, "iallocator:separate:should:web:1000")
    yield
    scenario.tag(scenario.instance("at-best"), "iallocator:separate:should:web:1000")


@feature("priority", rival=True, expect=HERE)
def priority(scenario: Scenario) -> Iterator[None]:
    """Let two instances compete for one slot on the node `best`, by their priority."""
    if scenario.kind == DRBD:
        scenario.subject["disk_space_total"] = 70000
        for name in (KEEPER, SOURCE):
            scenario.node(name)["total_disk"] = 200000
            scenario.node(name)["total_memory"] += 1024
    else:
        scenario.subject["memory"] = 20000
        if SOURCE in scenario.document["nodes"]:
            scenario.node(SOURCE)["total_memory"] += 20000
    scenario.add_rival()
    yield
    scenario.tag(scenario.subject, "iallocator:priority:10")


@feature("order", rival=True, expect=WAITS)
def order(scenario: Scenario) -> Iterator[None]:
    """Require that the tested instance starts after another instance of the request."""
    scenario.add_rival()
    yield
    scenario.tag(scenario.subject, "iallocator:order:after:rival")


@feature("order after what fails", rival=True, nowhere=True)
def order_broken(scenario: Scenario) -> Iterator[None]:
    """Require that the tested instance starts after an instance that cannot be placed."""
    scenario.add_rival()["memory"] = 2**19
    yield
    scenario.tag(scenario.subject, "iallocator:order:after:rival")


@feature("keep-running", (SHARED,), expect=STAYS)
def keep_running(scenario: Scenario) -> Iterator[None]:
    """Forbid that the tested instance is stopped to make room for another instance."""
    for name in (BEST, NEXT):
        scenario.node(name)["drained"] = True
    if "rival" not in scenario.document["instances"]:
        rival = scenario.add("rival", NEXT, memory=2000)
        scenario.tag(rival, "iallocator:score:source:10", "iallocator:priority:10")
    yield
    scenario.tag(scenario.subject, "iallocator:keep-running")


@feature("hard location score", PRIMARIES)
def hard_score(scenario: Scenario) -> Iterator[None]:
    """Set a score of minus infinity for the tested instance on the node `best`."""
    yield
    scenario.tag(scenario.subject, "iallocator:score:best:-INFINITY")


@feature("hard node score", PRIMARIES)
def hard_node_score(scenario: Scenario) -> Iterator[None]:
    """Set a score of minus infinity for all instances on the node `best`."""
    yield
    scenario.tag(scenario.node(BEST), "iallocator:score:-INFINITY")


@feature("required location score", PRIMARIES)
def required_score(scenario: Scenario) -> Iterator[None]:
    """Set a score of plus infinity for the tested instance on the node `next`."""
    scenario.disable_n1()
    yield
    scenario.tag(scenario.subject, "iallocator:score:next:INFINITY")


@feature("infinite stickiness", (SHARED, PLAIN), nowhere=True)
def infinite_stickiness(scenario: Scenario) -> Iterator[None]:
    """Set an infinite stickiness, so that the tested instance stays on its node."""
    yield
    scenario.tag(scenario.subject, "iallocator:stickiness:INFINITY")


@feature("soft location score", PRIMARIES)
def soft_score(scenario: Scenario) -> Iterator[None]:
    """Set a score for the node `next` that outweighs the advantage of the node `best`."""
    yield
    scenario.tag(scenario.subject, "iallocator:score:next:10")


@feature("utilization")
def utilization(scenario: Scenario) -> Iterator[None]:
    """Give all nodes except `best` a capacity of an attribute that the tested instance uses."""
    yield
    scenario.tag(scenario.subject, "iallocator:utilization:slots:1")
    for name in scenario.document["nodes"]:
        scenario.tag(scenario.node(name), f"iallocator:utilization:slots:{9 * (name != BEST)}")
