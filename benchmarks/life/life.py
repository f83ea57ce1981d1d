"""Simulate one life of a cluster under one policy."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from benchmarks.life.policies import Policy, ask, balanced
from benchmarks.life.safety import all_failures_tolerable, all_failures_tolerated
from benchmarks.life.trace import ARRIVAL, BALANCE, DEPARTURE, FAILURE, OUTAGE, Event, trace_of
from benchmarks.life.world import Scenario, World

__all__ = ["Observer", "Outcome", "live"]

MOVES = 10
"""Largest number of moves of one balancing run."""


class Outcome(NamedTuple):
    """The results of one life.

    Attributes
    ----------
    asked, rejected:
        Number of instances that were requested, and that were rejected.
    lost, lost_memory:
        Number of instances, and their MiB, that could not be restarted when their node failed.
    kept:
        Share of the time in which every failure would have been tolerated (0 to 1).
    calm:
        Share of the time outside repairs in which every failure would have been tolerated.
        A repair lasts from a failure to the first balancing after the node is back.
    broken:
        Number of new instances after which a failure was not tolerated, while every failure
        was tolerated before.
    possible:
        Share of the time in which some other placement of the instances would have tolerated
        every failure; None if not computed.
    moved:
        GiB of memory and of disks that balancing and evacuations moved.
    """

    asked: int
    rejected: int
    lost: int
    lost_memory: int
    kept: float
    moved: float
    calm: float = 1.0
    broken: int = 0
    possible: float | None = None


class Observer(Protocol):
    """A receiver of the events of a life, which ignores them."""

    def rejected(self, world: World, name: str, memory: int) -> None:
        """Record that a new instance was rejected; `world` does not contain the instance."""

    def happened(self, world: World, event: Event) -> None:
        """Record that `event` is over; `world` is the cluster after it."""


class _Life:
    def __init__(
        self, scenario: Scenario, policy: Policy, mends: bool, observer: Observer | None
    ) -> None:
        self._mends = mends
        self._observer = observer
        self.world = World(scenario)
        self._policy = policy
        self.asked = self.rejected = self.lost = self.lost_memory = 0
        self.moved = 0.0
        self.repairing = False

    def happens(self, event: Event) -> None:
        """Apply the event to the cluster."""
        if event.kind == ARRIVAL:
            self._arrives(f"i{event.number}", event.memory)
        elif event.kind == DEPARTURE:
            if f"i{event.number}" in self.world.instances:
                self.world.remove(f"i{event.number}")
        elif event.kind == BALANCE:
            self._balances()
        else:
            node = self.world.names[event.number]
            self.world.nodes[node]["offline"] = event.kind == FAILURE
            if event.kind == FAILURE:
                self.repairing = True
                self._fails(node)
            if self._mends:
                self._balances()
        if self._observer:
            self._observer.happened(self.world, event)

    def _balances(self) -> None:
        for name, nodes in balanced(self._policy, self.world, MOVES):
            self._moves(name, nodes)
        if not any(node["offline"] for node in self.world.nodes.values()):
            self.repairing = False

    def _arrives(self, name: str, memory: int) -> None:
        self.asked += 1
        found = ask(self._policy, self.world, self.world.request(name, memory))
        if found["success"]:
            self.world.add(name, memory, found["result"])
        else:
            self.rejected += 1
            if self._observer:
                self._observer.rejected(self.world, name, memory)

    def _fails(self, node: str) -> None:
        """Fail a node: first the largest fitting instances fail over, then it is evacuated."""
        if self.world.scenario.template == "drbd":
            self._fail_over(node)
            self._evacuate(node, "secondary-only")
        else:
            for name in self._evacuate(node, "primary-only"):
                self._loses(name)

    def _fail_over(self, node: str) -> None:
        world = self.world
        for name in sorted(world.on(node, 0), key=lambda n: -world.instances[n]["memory"]):
            secondary = world.instances[name]["nodes"][1]
            home = world.nodes[secondary]
            if home["offline"] or home["free_memory"] <= world.instances[name]["memory"]:
                self._loses(name)
            else:
                world.move(name, [secondary, node])

    def _evacuate(self, node: str, mode: str) -> list[str]:
        """Evacuate `node`; return the instances that cannot be placed on other nodes."""
        names = self.world.on(node, int(mode == "secondary-only"))
        if not names:
            return []
        request = {"type": "node-evacuate", "instances": names, "evac_mode": mode}
        found = ask(self._policy, self.world, request)
        if not found["success"]:
            return names
        for name, _, nodes in found["result"][0]:
            self._moves(name, nodes)
        return [name for name, _ in found["result"][1]]

    def _loses(self, name: str) -> None:
        self.lost += 1
        self.lost_memory += self.world.instances[name]["memory"]
        self.world.remove(name)

    def _moves(self, name: str, nodes: list[str]) -> None:
        one = self.world.instances[name]
        before = one["nodes"]
        copied = sum(node not in before for node in nodes) * one["disk_space_total"]
        self.moved += (copied + (nodes[0] != before[0]) * one["memory"]) / 1024
        self.world.move(name, nodes)


def live(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    requests: int,
    mends: bool = False,
    outage: float = OUTAGE,
    observer: Observer | None = None,
) -> Outcome:
    """Return the result of the life with this seed and number of requests.

    With `mends`, the cluster is also balanced after every failure and repair. `outage` is the share
    of the life for which a failed node is offline.
    """
    life = _Life(scenario, policy, mends, observer)
    kept, calm, whole, broken = 0.0, 0.0, 0.0, 0
    since, safe, possible, able = 0.0, True, 0.0, True
    for event in trace_of(scenario, seed, requests, outage):
        passed = event.time - since
        since = event.time
        kept += passed * safe
        possible += passed * able
        if not life.repairing:
            whole += passed
            calm += passed * safe
        life.happens(event)
        before, safe = safe, all_failures_tolerated(life.world)
        able = safe or all_failures_tolerable(life.world)
        broken += event.kind == ARRIVAL and before and not safe
    share = calm / whole if whole else 1.0
    return Outcome(
        life.asked, life.rejected, life.lost, life.lost_memory, kept, life.moved, share, broken,
        possible,
    )  # fmt: skip
