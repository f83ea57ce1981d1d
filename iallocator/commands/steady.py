"""``balance --steady``: add a sample to the history of loads, and plan moves by the history.

The history is a folder with one file per day, ``2026-01-02.jsonl``. A line is one round: its time,
the loads, virtual cpus and nodes of all instances, and the planned moves. Each move has its gain,
and the disks that the move copies. Files of days that are too old are removed. A line that is
damaged is left out with a warning.
"""

from __future__ import annotations

import json
from datetime import datetime
from time import time
from typing import Any

from iallocator.commands.day_files import DayFiles, day_file, time_words
from iallocator.errors import UsageError, many
from iallocator.execution.jobs import ExecutionError
from iallocator.execution.lock import ClusterLock
from iallocator.execution.queue_access import open_queue
from iallocator.model.cluster import set_loads
from iallocator.model.instance import UNIT_LOAD
from iallocator.planners.balance.steady import (
    LoadSample,
    Measured,
    SteadyLimits,
    SteadyPolicy,
)
from iallocator.tolerances import LARGEST_LOAD
from iallocator.units import HOUR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.commands.planner_options import Balance
    from iallocator.planners.result import GroupPlans

__all__ = ["HISTORY_DAYS", "LoadHistory", "SteadyRound", "sample_of"]

HISTORY_DAYS = 10
"""The number of days for which files are kept."""

HOUR_OF_LINE = '{"time":"2026-01-02T03'
"""An example of the beginning of a line, up to the hour. Lines of the same hour have the same
beginning.
"""


class LoadHistory(DayFiles):
    """The history of loads in a folder."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, HISTORY_DAYS)

    def samples(self, now: float, limit: int) -> list[LoadSample]:
        """Return the samples before `now`, of the days that are kept, in order of time.

        Of days before yesterday, one sample for each hour is read: the profiles do not change
        much, and the time of a round stays short. `limit`: most bytes of a file.

        Raises
        ------
        UsageError
            If the folder cannot be made or read.
        """
        by_time = {}
        recent = day_file(now - 24 * HOUR)
        day = hour = ""
        for name, line in self.lines(now, limit):
            if name != day:
                day, hour = name, ""
            if hour and name < recent and line.startswith(hour):
                continue
            sample = sample_of(line)
            if sample is None or day_file(sample.time) != name:
                self.damaged += 1
            elif sample.time < now:
                hour = line[: len(HOUR_OF_LINE)]
                by_time[sample.time] = sample
        return [by_time[moment] for moment in sorted(by_time)]

    def add_sample(
        self, sample: LoadSample, planned: Sequence[Json], n1_held: Mapping[str, bool]
    ) -> None:
        """Add a sample to the file of its day, with the moves that were `planned`.

        `n1_held`: name of each group that was examined -> whether N+1 held.

        Raises
        ------
        UsageError
            If the file cannot be written.
        """
        document = {  # the time is first, see HOUR_OF_LINE
            "time": time_words(sample.time),
            "instances": {
                name: {"nodes": nodes}
                if measured is None
                else {"nodes": nodes, "load": measured.load, "vcpus": measured.vcpus}
                for name, (measured, nodes) in sample.instances.items()
            },
            "planned": list(planned),
            "n1_held": dict(n1_held),
        }
        self.add(sample.time, document)


def sample_of(line: str) -> LoadSample | None:
    """Return the sample in a line; None if the line is damaged."""
    try:
        raw: Any = json.loads(line)
        instances = {}
        for name, one in raw["instances"].items():
            if not isinstance(one["nodes"], list):
                return None
            nodes = tuple(map(str, one["nodes"]))
            measured = None
            if "load" in one:
                cpu, memory, disk, net = one["load"]
                if not (  # a generator would take twice the time
                    0 <= cpu <= LARGEST_LOAD and 0 <= memory <= LARGEST_LOAD
                    and 0 <= disk <= LARGEST_LOAD and 0 <= net <= LARGEST_LOAD
                ):  # fmt: skip
                    return None
                measured = Measured((cpu, memory, disk, net), int(one["vcpus"]), nodes)
            instances[name] = measured, nodes
        moment = datetime.fromisoformat(raw["time"]).timestamp()
        for move in raw["planned"]:
            if not all(0 <= abs(float(move[key])) < LARGEST_LOAD for key in ("gain", "copied_mib")):
                return None
        names = [str(move["instance"]) for move in raw["planned"]]
        n1_held = {name: bool(held) for name, held in raw.get("n1_held", {}).items()}
        return LoadSample(moment, instances, names, n1_held)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


def _obstacle(settings: Balance) -> str:
    """Return why moves cannot be executed on the running cluster now; "" if they can."""
    if not settings.asks_running_cluster:
        return ""
    queue, name = open_queue(settings)
    if queue.drained():
        return "the job queue is drained (gnt-cluster queue undrain opens it)"
    if settings.execute:
        try:
            with ClusterLock(name):
                return ""
        except ExecutionError as error:
            return str(error)
    return ""


class SteadyRound:
    """One run of ``balance --steady``, which adds a sample of loads to the history.

    Attributes
    ----------
    policy:
        The policy, with the history and the sample of this round.

    Raises
    ------
    UsageError
        If no load is measured, or the history cannot be read or written.
    """

    def __init__(self, command: Command) -> None:
        own: Balance = command.settings
        cluster = command.source.cluster
        now = time() if own.now is None else own.now
        loads_by_node: dict[str, tuple[Measured | None, tuple[str, ...]]] = {}
        for one in cluster.instances:  # one without a load of its own is not measured
            nodes = tuple(cluster.node_names(one.nodes))
            measured = None if one.load is UNIT_LOAD else Measured(one.load, one.vcpus, nodes)
            loads_by_node[one.name] = measured, nodes
        present = LoadSample(now, loads_by_node)
        if not any(measured for measured, _ in present.instances.values()):
            raise UsageError(
                "--steady needs measured loads, which LUXI, RAPI and files of clusters do not "
                "have: --mond=yes asks the monitoring daemons of the nodes; --mond-data FILE and "
                "-U FILE read a file"
            )
        self._own, self._cluster = own, cluster
        self._history = LoadHistory(own.history)
        samples = [*self._history.samples(now, own.max_input), present]
        self._history.warn_of_damage()
        limits = SteadyLimits(
            own.least_history, own.hold, own.steady_gain, own.gib_cost, own.hourly_moves,
            own.nightly_moves, own.hours, own.rest_days, own.overload, own.nodes_offline,
        )  # fmt: skip
        self.policy = SteadyPolicy(limits, samples, obstacle=_obstacle(own))
        means = [self._means(resource) for resource in range(len(UNIT_LOAD))]
        set_loads(cluster, dict(zip((one.name for one in cluster.instances), zip(*means))))

    def _means(self, resource: int) -> list[float]:
        """Return for each instance the mean of the profile of its load, for the score."""
        instances = self._cluster.instances
        series = self.policy.series(instances, resource)
        if not (series > 0).any():
            return [0.0] * len(instances)
        means: list[float] = (
            self.policy.profile(series, self.policy.now).loads.mean(axis=1).tolist()
        )
        return means

    def ended(self, done: GroupPlans) -> GroupPlans:
        """Add the sample and the planned moves to the history; return the completed plan.

        The plan receives the reason for its end, and facts about the balancing of each group. With
        ``--shadow``, its moves are only listed.
        """
        samples = self.policy.samples
        shadow_moves: list[Json] = []
        if self._own.shadow:
            # Remove the moves from the plan, and list them
            for entry in done.entries:
                document = entry.document(self._cluster)
                shadow_moves.append(
                    {key: document[key] for key in ("instance", "from", "to", "move")}
                )
            for one in done.plans:
                if one.plan.entries:
                    count = len(one.plan.entries)
                    one.plan.entries = []
                    one.plan.reason = f"--shadow: {many(count, 'move')} would have been planned"
            done.remarks += [f"would move {one['instance']}: {one['move']}" for one in shadow_moves]
        gains = {name: gain for one in self.policy.balancers for name, gain in one.gains.items()}
        planned = [
            {"instance": move.instance.name, "gain": round(gains.get(move.instance.name, 0.0), 4),
             "copied_mib": move.copied}
            for move in done.moves
        ]  # fmt: skip
        n1_held = {
            one.name: not one.failure for one in self.policy.balancers if one.failure is not None
        }
        self._history.add_sample(samples[-1], planned, n1_held)
        done.plan.reason = "; ".join(
            dict.fromkeys(one.plan.reason for one in done.plans if one.plan.reason)
        )
        done.members["steady"] = {
            "shadow": self._own.shadow,
            "sample_count": len(samples),
            "history_hours": (samples[-1].time - samples[0].time) / HOUR,
            "groups": [
                {"group": one.name, "deviation": one.before, "deviation_after": one.after}
                for one in self.policy.balancers
            ],
            "shadow_moves": shadow_moves,
        }
        return done
