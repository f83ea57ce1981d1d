"""Simulate one life of a cluster under one policy."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from benchmarks.life.policies import Policy, ask, balanced
from benchmarks.life.safety import all_failures_tolerable, all_failures_tolerated
from benchmarks.life.simulated_cluster import Scenario, SimulatedCluster
from benchmarks.life.trace import ARRIVAL, BALANCE, DEPARTURE, FAILURE, OUTAGE, Event, trace_of

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
    """Receives the events of a life and ignores them; subclasses record them."""

    def rejected(self, simulated: SimulatedCluster, name: str, memory: int) -> None:
        """Record that a new instance was rejected; `simulated` does not contain the instance."""

    def happened(self, simulated: SimulatedCluster, event: Event) -> None:
        """Record that `event` is over; `simulated` is the cluster after it."""


class _Life:
    def __init__(
        self, scenario: Scenario, policy: Policy, mends: bool, observer: Observer | None
    ) -> None:
        self._mends = mends
        self._observer = observer
        self.simulated = SimulatedCluster(scenario)
        self._policy = policy
        self.asked = self.rejected = self.lost = self.lost_memory = 0
        self.moved = 0.0
        self.repairing = False

    def happens(self, event: Event) -> None:
        """Apply the event to the cluster."""
        if event.kind == ARRIVAL:
            self._arrives(f"i{event.number}", event.memory)
        elif event.kind == DEPARTURE:
            if f"i{event.number}" in self.simulated.instances:
                self.simulated.remove(f"i{event.number}")
        elif event.kind == BALANCE:
            self._balances()
        else:
            node = self.simulated.names[event.number]
            self.simulated.nodes[node]["offline"] = event.kind == FAILURE
            if event.kind == FAILURE:
                self.repairing = True
                self._fails(node)
            if self._mends:
                self._balances()
        if self._observer:
            self._observer.happened(self.simulated, event)

    def _balances(self) -> None:
        for name, nodes in balanced(self._policy, self.simulated, MOVES):
            self._moves(name, nodes)
        if not any(node["offline"] for node in self.simulated.nodes.values()):
            self.repairing = False

    def _arrives(self, name: str, memory: int) -> None:
        self.asked += 1
        found = ask(self._policy, self.simulated, self.simulated.request(name, memory))
        if found["success"]:
            self.simulated.add(name, memory, found["result"])
        else:
            self.rejected += 1
            if self._observer:
                self._observer.rejected(self.simulated, name, memory)

    def _fails(self, node: str) -> None:
        """Fail a node: the largest instances that fit fail over, then the node is evacuated."""
        if self.simulated.scenario.template == "drbd":
            self._fail_over(node)
            self._evacuate(node, "secondary-only")
        else:
            for name in self._evacuate(node, "primary-only"):
                self._loses(name)

    def _fail_over(self, node: str) -> None:
        simulated = self.simulated
        for name in sorted(simulated.on(node, 0), key=lambda n: -simulated.instances[n]["memory"]):
            secondary = simulated.instances[name]["nodes"][1]
            home = simulated.nodes[secondary]
            if home["offline"] or home["free_memory"] <= simulated.instances[name]["memory"]:
                self._loses(name)
            else:
                simulated.move(name, [secondary, node])

    def _evacuate(self, node: str, mode: str) -> list[str]:
        """Evacuate `node`; return the instances that cannot be placed on other nodes."""
        names = self.simulated.on(node, int(mode == "secondary-only"))
        if not names:
            return []
        request = {"type": "node-evacuate", "instances": names, "evac_mode": mode}
        found = ask(self._policy, self.simulated, request)
        if not found["success"]:
            return names
        for name, _, nodes in found["result"][0]:
            self._moves(name, nodes)
        return [name for name, _ in found["result"][1]]

    def _loses(self, name: str) -> None:
        self.lost += 1
        self.lost_memory += self.simulated.instances[name]["memory"]
        self.simulated.remove(name)

    def _moves(self, name: str, nodes: list[str]) -> None:
        one = self.simulated.instances[name]
        before = one["nodes"]
        copied = sum(node not in before for node in nodes) * one["disk_space_total"]
        self.moved += (copied + (nodes[0] != before[0]) * one["memory"]) / 1024
        self.simulated.move(name, nodes)


def live(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    requests: int,
    mends: bool = False,
    outage: float = OUTAGE,
    observer: Observer | None = None,
) -> Outcome:
    """Return the result of the life with `seed` and a number of `requests`.

    If `mends`, the cluster is also balanced after every failure and repair. `outage` is the share
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
        before, safe = safe, all_failures_tolerated(life.simulated)
        able = safe or all_failures_tolerable(life.simulated)
        broken += event.kind == ARRIVAL and before and not safe
    share = calm / whole if whole else 1.0
    return Outcome(
        life.asked, life.rejected, life.lost, life.lost_memory, kept, life.moved, share, broken,
        possible,
    )  # fmt: skip
