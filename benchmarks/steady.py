"""Compare policies of balancing in simulated months: ``python -m benchmarks.steady``.

Each cluster lives 30 days in steps of 10 minutes. The cpu load of an instance has a daily cycle,
noise, drift and bursts; instances arrive and leave. A policy sees measured loads only, and moves
instances. Figures per policy and kind of cluster:

* moves, moves back to a node that the instance left within a week, TiB of disks copied;
* the standard deviation of the true cpu load of nodes, in percent of a node, as the mean over time;
* hours of nodes above 90 % of their cpus.

``balance --steady`` runs through its command line, and hbal is the installed program. The rules of
ProxLB and of Proxmox CRS are those that their manuals describe. Writes ``benchmarks/STEADY.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import random
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, pstdev
from typing import NamedTuple

from iallocator.cli import main as iallocator

HERE = Path(__file__).parent
BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
STEP = 600
"""Seconds between two states of the simulation."""

DAYS = 30
STEPS_PER_DAY = 24 * 3600 // STEP
CPUS, MEMORY, DISK = 32, 131072, 8_000_000
OVERLOAD = 0.9
NIGHT = 2 * 3600
"""Seconds after midnight at which nightly policies balance."""


class Scenario(NamedTuple):
    """The description of a kind of cluster.

    `fill` is the memory of instances as a share of the memory of nodes. `keeps_n1`: whether new
    drbd instances get nodes with which N+1 holds, instead of any nodes with free memory.
    """

    name: str
    nodes: int
    template: str
    fill: float
    keeps_n1: bool = True


SCENARIOS = (
    Scenario("10 nodes, shared, 70 % full", 10, "rbd", 0.70),
    Scenario("20 nodes, shared, 82 % full", 20, "rbd", 0.82),
    Scenario("10 nodes, drbd, 60 % full", 10, "drbd", 0.60),
    Scenario("10 nodes, drbd, 60 % full, N+1 often violated", 10, "drbd", 0.60, keeps_n1=False),
)


@dataclass(slots=True)
class Guest:
    """An instance; loads are in cpus, memory and disk in MiB."""

    memory: int
    vcpus: int
    disk: int
    base: float
    amplitude: float
    peak: float
    nodes: list[str]
    drift: float = 0.0
    noise: float = 0.0
    burst: int = 0
    load: float = 0.0
    left: dict[str, float] = field(default_factory=dict)


class SimulatedCluster:
    """A simulated cluster; equal seeds give equal events for every policy.

    Attributes
    ----------
    time:
        Seconds since 1970.
    guests:
        Name -> instance.
    samples:
        The measured loads of the last day, the latest one last.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.random = random.Random(seed)
        self.names = [f"node{k:02}" for k in range(scenario.nodes)]
        self.guests: dict[str, Guest] = {}
        self.samples: list[dict[str, float]] = []
        self.time = BEGIN
        self.moves = self.back = self.copied = 0
        self._count = 0
        while self.memory() < scenario.fill * scenario.nodes * MEMORY:
            self._arrive()

    def memory(self, node: str = "") -> int:
        """Return the MiB of all instances, or of the primary instances of `node`."""
        return sum(one.memory for one in self.guests.values() if node in ("", one.nodes[0]))

    def loads(self, loads: dict[str, float] | None = None) -> dict[str, float]:
        """Return the load of each node as a share of its cpus, from true loads or from `loads`."""
        found = dict.fromkeys(self.names, 0.0)
        for name, one in self.guests.items():
            found[one.nodes[0]] += (one.load if loads is None else loads.get(name, 0.0)) / CPUS
        return found

    def step(self) -> None:
        """Advance by one step: arrivals, departures, true and measured loads."""
        draw = self.random
        self.time += STEP
        hour = self.time % 86400 / 3600
        scenario = self.scenario
        if draw.random() < 1.6 / STEPS_PER_DAY and len(self.guests) > 5:
            del self.guests[draw.choice(sorted(self.guests))]
        full = scenario.fill * scenario.nodes * MEMORY
        if draw.random() < 2.4 / STEPS_PER_DAY and self.memory() < full:
            self._arrive()
        sample = {}
        for name, one in self.guests.items():
            one.drift += draw.gauss(0, 0.006)
            one.noise = 0.8 * one.noise + draw.gauss(0, 0.12)
            if one.burst:
                one.burst -= 1
            elif draw.random() < 1 / (8 * STEPS_PER_DAY):
                one.burst = draw.randint(6, 24)
            wave = 1 + one.amplitude * math.cos((hour - one.peak) / 12 * math.pi)
            load = one.base * math.exp(one.drift) * wave * (2 if one.burst else 1)
            one.load = min(one.vcpus, load * math.exp(one.noise))
            sample[name] = min(one.vcpus, one.load * math.exp(draw.gauss(0, 0.15)))
        self.samples = [*self.samples[1 - STEPS_PER_DAY :], sample]

    def measured(self, steps: int = 1) -> dict[str, float]:
        """Return the mean of the last `steps` samples of each instance."""
        return {
            name: mean(seen)
            for name in self.guests
            if (seen := [one[name] for one in self.samples[-steps:] if name in one])
        }

    def move(self, name: str, nodes: list[str]) -> None:
        """Move an instance; count moves, moves back, and copied disks."""
        one = self.guests[name]
        if nodes == one.nodes:
            return
        self.moves += 1
        if nodes[0] != one.nodes[0]:
            self.back += self.time - one.left.get(nodes[0], -math.inf) < 7 * 86400
            one.left[one.nodes[0]] = self.time
        if self.scenario.template == "drbd":
            self.copied += one.disk * len(set(nodes) - set(one.nodes))
        one.nodes = nodes

    def text(self) -> str:
        """Return the cluster in htools' text format."""
        lines = ["default|uuid-default|preferred||", ""]
        for node in self.names:
            disk = sum(one.disk for one in self.guests.values() if node in one.nodes)
            disk *= self.scenario.template == "drbd"
            free = MEMORY - self.memory(node)
            lines.append(
                f"{node}|{MEMORY}|0|{free}|{DISK}|{DISK - disk}|{CPUS}|N|uuid-default|1||N|1"
            )
        lines.append("")
        for name, one in self.guests.items():
            second = one.nodes[1] if len(one.nodes) > 1 else ""
            lines.append(
                f"{name}|{one.memory}|{one.disk}|{one.vcpus}|running|Y|{one.nodes[0]}|{second}"
                f"|{self.scenario.template}||1"
            )
        return "\n".join([*lines, "", "", ""])

    def _arrive(self) -> None:
        """Add an instance on the node with the most free memory of three random ones.

        The nodes of a drbd instance are random ones with which N+1 holds, if the scenario says so.
        """
        draw = self.random
        memory = draw.choice([4096, 8192, 8192, 16384, 16384])
        vcpus = max(2, memory // 2048)
        base = min(vcpus * 0.8, draw.lognormvariate(math.log(vcpus * 0.25), 0.9))
        peak = draw.choice([2, 9, 14, 14, 15, 20]) + draw.uniform(-2, 2)
        nodes = sorted(draw.sample(self.names, 3), key=self.memory)
        if self.memory(nodes[0]) + memory > MEMORY * 0.95:
            nodes = sorted(self.names, key=self.memory)
        nodes = nodes[: 2 if self.scenario.template == "drbd" else 1]
        if self.scenario.template == "drbd" and self.scenario.keeps_n1:
            nodes = self._pair(memory)
        disk = draw.choice([20, 50, 100]) * 1024
        guest = Guest(memory, vcpus, disk, base, draw.uniform(0.1, 0.6), peak, nodes)
        self.guests[f"i{self._count:04}"] = guest
        self._count += 1

    def _pair(self, memory: int) -> list[str]:
        """Return a random primary and a random secondary for a new instance.

        On each node, the instances of any one other node can still fail over, if possible.
        """
        reserved: dict[tuple[str, str], int] = defaultdict(int)
        for one in self.guests.values():
            reserved[one.nodes[0], one.nodes[1]] += one.memory
        free = {name: MEMORY - self.memory(name) for name in self.names}
        spare = {
            name: free[name] - max(reserved[other, name] for other in self.names)
            for name in self.names
        }
        order = self.random.sample(self.names, len(self.names))
        for primary in order:
            for secondary in order[::-1] if spare[primary] > memory else ():
                needed = reserved[primary, secondary] + memory
                if secondary != primary and free[secondary] > needed:
                    return [primary, secondary]
        return sorted(order, key=lambda name: -free[name])[:2]


class Policy:
    """A policy that does nothing; subclasses override `act`, which is called after each step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def act(self, simulated: SimulatedCluster) -> None:
        """Move instances if the policy requires it at this time."""

    def files(self, simulated: SimulatedCluster, loads: dict[str, float]) -> list[str]:
        """Write the cluster and the loads; return the options that name the files."""
        cluster, utilisation = self.folder / "cluster", self.folder / "loads"
        cluster.write_text(simulated.text(), encoding="utf-8")
        utilisation.write_text(
            "".join(f"{name} {load:.4f} 0 0 0\n" for name, load in loads.items()), encoding="utf-8"
        )
        return ["-t", str(cluster), "-U", str(utilisation)]

    def balance(self, simulated: SimulatedCluster, *options: str) -> None:
        """Run ``balance --json``, and execute its moves."""
        out = io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stdout(out):
            status = iallocator(["balance", "--json", *options])
        out.seek(0)
        plan = json.loads(out.read())
        if status:
            raise RuntimeError(plan)
        for move in plan["moves"]:
            simulated.move(move["instance"], move["to"])


def at_night(simulated: SimulatedCluster) -> bool:
    """Return whether it is the time at which nightly policies act."""
    return simulated.time % 86400 == NIGHT


class Hbal(Policy):
    """Policy that runs hbal each night with the last sample of the loads."""

    steps = 1

    def act(self, simulated: SimulatedCluster) -> None:
        """Run hbal at night, and set the placement that it writes."""
        if not at_night(simulated):
            return
        files = self.files(simulated, simulated.measured(self.steps))
        saved = self.folder / "saved"
        subprocess.run(["hbal", *files, "-q", "-S", str(saved)], check=True, capture_output=True)
        lines = Path(f"{saved}.balanced").read_text(encoding="utf-8").split("\n\n")[2]
        for line in lines.splitlines():
            columns = line.split("|")
            simulated.move(columns[0], [node for node in columns[6:8] if node])


class HbalMean(Hbal):
    """Policy that runs hbal each night with the mean loads of the day."""

    steps = STEPS_PER_DAY


class Nightly(Policy):
    """Policy that runs ``balance`` each night with mean loads, for at most five moves."""

    def act(self, simulated: SimulatedCluster) -> None:
        """Run ``balance`` at night."""
        if at_night(simulated):
            files = self.files(simulated, simulated.measured(STEPS_PER_DAY))
            self.balance(simulated, *files, "--min-gain", "0.1", "--max-length", "5")


class Rule(Policy):
    """Policy that moves instances off the busiest node each half hour.

    The target is the least loaded node, or the secondary of a drbd instance.
    """

    def act(self, simulated: SimulatedCluster) -> None:
        """Move instances while the loads of nodes differ too much."""
        if simulated.time % 1800:
            return
        measured = simulated.measured(3)
        for _ in range(self.most(simulated)):
            loads = simulated.loads(measured)
            high, low = max(loads, key=loads.__getitem__), min(loads, key=loads.__getitem__)
            targets = {}
            for name, one in simulated.guests.items():
                target = one.nodes[1] if len(one.nodes) > 1 else low
                if one.nodes[0] == high and one.memory <= MEMORY - simulated.memory(target):
                    targets[name] = target
            chosen = self.choose(loads, measured, high, targets)
            if chosen is None:
                return
            other = [high] if len(simulated.guests[chosen].nodes) > 1 else []
            simulated.move(chosen, [targets[chosen], *other])

    def most(self, simulated: SimulatedCluster) -> int:
        """Return the largest number of moves in a round."""
        return len(simulated.guests)

    def choose(
        self,
        loads: dict[str, float],
        measured: dict[str, float],
        high: str,
        targets: dict[str, str],
    ) -> str | None:
        """Return the instance to move, one of `targets`; None if there is none.

        `targets` maps instances to their next nodes.
        """
        raise NotImplementedError


class ProxLB(Rule):
    """Policy of ProxLB: instances move while the loads of two nodes differ by more than 10 %."""

    def choose(
        self,
        loads: dict[str, float],
        measured: dict[str, float],
        high: str,
        targets: dict[str, str],
    ) -> str | None:
        """Return the instance with the load closest to half of the difference, and below it."""
        if loads[high] - min(loads.values()) <= 0.10:
            return None
        gaps = {n: (loads[high] - loads[target]) * CPUS for n, target in targets.items()}
        fitting = [n for n, gap in gaps.items() if measured.get(n, gap) < gap]
        return min(fitting, key=lambda n: abs(measured[n] - gaps[n] / 2), default=None)


class ProxmoxCrs(Rule):
    """Policy of Proxmox CRS: one move if the imbalance exceeded 30 % three times.

    The move must improve the imbalance by 10 %.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._held = 0

    def most(self, simulated: SimulatedCluster) -> int:
        """Return the largest number of moves in a round."""
        return 1

    def choose(
        self,
        loads: dict[str, float],
        measured: dict[str, float],
        high: str,
        targets: dict[str, str],
    ) -> str | None:
        """Return the instance with the move that lowers the imbalance most."""

        def imbalance(of_nodes: dict[str, float]) -> float:
            return pstdev(of_nodes.values()) / mean(of_nodes.values())

        def after(name: str) -> float:
            share, target = measured.get(name, 0) / CPUS, targets[name]
            return imbalance(loads | {high: loads[high] - share, target: loads[target] + share})

        now = imbalance(loads)
        self._held = self._held + 1 if now > 0.3 else 0
        best = min(targets, key=after, default=None)
        if self._held < 3 or best is None or after(best) > 0.9 * now:
            return None
        self._held = 0
        return best


class Steady(Policy):
    """Policy that runs ``balance --steady`` every hour."""

    interval = 3600
    options: tuple[str, ...] = ()

    def act(self, simulated: SimulatedCluster) -> None:
        """Run ``balance --steady`` with the last sample of the loads."""
        if simulated.time % self.interval:
            return
        files = self.files(simulated, simulated.measured(1))
        moment = datetime.fromtimestamp(simulated.time, UTC).isoformat().replace("+00:00", "Z")
        history = str(self.folder / "history")
        self.balance(
            simulated, "--steady", *files, "--now", moment, "--history", history, "--all-groups",
            *self.options,
        )  # fmt: skip


class SteadySixHours(Steady):
    """Policy that runs ``balance --steady`` every six hours."""

    interval = 6 * 3600


POLICIES: dict[str, Callable[[Path], Policy]] = {
    "nothing": Policy,
    "hbal, nightly, last sample": Hbal,
    "hbal, nightly, mean of the day": HbalMean,
    "balance, nightly, mean of the day, 5 moves": Nightly,
    "ProxLB's rule, every 30 minutes": ProxLB,
    "Proxmox CRS's rule, every 30 minutes": ProxmoxCrs,
    "balance --steady, every hour": Steady,
    "balance --steady, every six hours": SteadySixHours,
}


class Figures(NamedTuple):
    """The results of one month: moves, copied disks, deviation, and overloaded hours."""

    moves: int
    back: int
    copied: float
    deviation: float
    overloaded: float


def live(work: tuple[str, Scenario, int]) -> Figures:
    """Return the results of a simulated month with a policy."""
    policy, scenario, seed = work
    with tempfile.TemporaryDirectory() as folder:
        simulated, acting = SimulatedCluster(scenario, seed), POLICIES[policy](Path(folder))
        deviations, overloaded = [], 0
        for _ in range(DAYS * STEPS_PER_DAY):
            simulated.step()
            loads = list(simulated.loads().values())
            deviations.append(100 * pstdev(loads))
            overloaded += sum(load > OVERLOAD for load in loads)
            acting.act(simulated)
    hours = overloaded * STEP / 3600
    return Figures(
        simulated.moves, simulated.back, simulated.copied / 2**20, mean(deviations), hours
    )


def main() -> None:
    """Simulate all months, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="clusters of each kind")
    parser.add_argument("--start", type=int, default=1, help="the first seed")
    parser.add_argument("--only", default="", help="only policies with one of these: A;B;...")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options = parser.parse_args()
    chosen = [name for name in POLICIES if any(o in name for o in options.only.split(";"))]
    seeds = range(options.start, options.start + options.seeds)
    work = [(policy, kind, seed) for kind in SCENARIOS for policy in chosen for seed in seeds]
    with get_context("fork").Pool(options.jobs) as pool:
        lines = _table(dict(zip(work, pool.imap(live, work))), chosen, list(seeds))
    print("\n".join(lines))
    if not options.only:
        (HERE / "STEADY.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(
    done: dict[tuple[str, Scenario, int], Figures], chosen: list[str], seeds: list[int]
) -> list[str]:
    many = f"one cluster of each kind (seed {seeds[0]})"
    if len(seeds) > 1:
        many = f"the means of {len(seeds)} clusters of each kind (seeds {seeds[0]} to {seeds[-1]})"
    lines = [
        "# Steady balancing",
        "",
        f"Written by `python -m benchmarks.steady --seeds {len(seeds)}`: simulated months, {many}.",
    ]
    for kind in SCENARIOS:
        lines += [
            "",
            f"## {kind.name}",
            "",
            "| policy | moves | moves back | TiB copied | deviation | hours above 90 % |",
            "|---|---|---|---|---|---|",
        ]
        for policy in chosen:
            figures = [done[policy, kind, seed] for seed in seeds]
            moves, back, copied, deviation, hours = map(mean, zip(*figures))
            lines.append(
                f"| {policy} | {moves:.0f} | {back:.0f} | {copied:.1f} | {deviation:.1f} "
                f"| {hours:.1f} |"
            )
    return lines


if __name__ == "__main__":
    main()
