"""``capacity --forecast``: collect what the instances of each node group used on each day.

There are three sources: totals that ``capacity --history FOLDER`` has recorded, the clusters in
captured requests (``--capture FOLDER``), and Ganeti's archive of jobs (``--job-archive FOLDER``).
On a day with several samples, the last one counts. The archive counts on days without a sample.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from math import inf
from time import time
from typing import Any

from iallocator.calls.history import request_files
from iallocator.commands.day_files import DayFiles, time_words
from iallocator.deadline import check
from iallocator.errors import IallocatorError, UsageError, many, tell
from iallocator.files import read_file
from iallocator.planners.capacity.demand import (
    SAMPLE_WINDOW,
    DemandSample,
    GroupDemand,
    daily,
    demand_of,
    too_few,
)
from iallocator.sources.job_archive import past_demand
from iallocator.units import DAY
from iallocator.wire.codec import decode
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.commands.command import Command
    from iallocator.commands.planner_options import Capacity

__all__ = ["demand_history"]

ANSWER_KEYS = {"success", "info", "result"}
"""The keys of an answer of the plugin, which may be in the folder of the requests."""


def demand_history(command: Command) -> tuple[list[DemandSample], float]:
    """Return the samples of demand for a forecast, and the present time in seconds since 1970.

    There is one sample of each past day, in order, and one of the present cluster. Without
    ``--forecast`` there are none. With ``--history``, the present demand is recorded.

    Raises
    ------
    UsageError
        If a source cannot be read or written, or if there are too few days with data.
    """
    own: Capacity = command.settings
    now = time() if own.now is None else own.now
    present = DemandSample(now, demand_of(command.source.cluster))
    known_samples: list[DemandSample] = []
    if own.history:
        history = DayFiles(own.history, SAMPLE_WINDOW)
        for _, line in history.lines(now, own.max_input):
            sample = _sample(line)
            if sample is None:
                history.damaged += 1
            elif sample.time < now:
                known_samples.append(sample)
        history.warn_of_damage()
        groups = {uuid: demand._asdict() for uuid, demand in present.groups.items()}
        history.add(now, {"time": time_words(now), "groups": groups})
    if not own.forecast:
        return [], now
    if own.capture:
        known_samples += _captured(own, now)
    known_samples.append(present)
    if own.job_archive:
        known = {int(one.time // DAY) for one in known_samples}
        past = _archived(command, now)
        known_samples += [one for one in past if int(one.time // DAY) not in known]
    samples = daily(known_samples, now)
    lacking = too_few(samples)
    if lacking:
        recorded = "; this run is recorded" if own.history else ""
        raise UsageError(f"--forecast: {lacking}{recorded}")
    return samples, now


def _sample(line: str) -> DemandSample | None:
    """Return the sample in a line; None if the line is damaged."""
    try:
        raw: Any = json.loads(line)
        groups = {
            str(uuid): GroupDemand(*(float(one[name]) for name in GroupDemand._fields))
            for uuid, one in raw["groups"].items()
        }
        if not all(0 <= value < inf for one in groups.values() for value in one):
            return None
        return DemandSample(datetime.fromisoformat(raw["time"]).timestamp(), groups)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


def _captured(own: Capacity, now: float) -> list[DemandSample]:
    """Return the demand in the last readable request of each day before `now`."""
    by_day: dict[int, DemandSample] = {}
    damaged = 0
    reading = Reading.of(own)
    for moment, path in sorted(request_files(own.capture), reverse=True):
        check()
        day = int(moment // DAY)
        if day in by_day or not now - SAMPLE_WINDOW * DAY <= moment < now:
            continue
        try:
            if not os.path.isfile(path):  # reading a pipe would block
                raise UsageError(f"{path}: no file")
            document = decode(read_file(path, own.max_input))
            if document.keys() >= ANSWER_KEYS:
                continue
            cluster = read_cluster(document, reading)
        except IallocatorError:
            damaged += 1
            continue
        by_day[day] = DemandSample(moment, demand_of(cluster))
    if damaged:
        tell(f"Warning: {own.capture}: {damaged} requests cannot be read, and are left out")
    return list(by_day.values())


def _archived(command: Command, now: float) -> list[DemandSample]:
    """Return the demand at the end of each day, from the archive of jobs."""
    own: Capacity = command.settings
    past = past_demand(own.job_archive, command.source.cluster, now, own.max_input)
    if past.damaged:
        damaged = many(past.damaged, "file")
        tell(f"Warning: {own.job_archive}: {damaged} cannot be read; the jobs there are left out")
    if past.unknown:
        tell(
            f"Warning: {own.job_archive}: {past.unknown} removed instances have no size or group "
            "in the archive: the mean size counts, or they are left out if there are several groups"
        )
    samples = []
    for moment, sizes in past.days:
        if moment < now - SAMPLE_WINDOW * DAY:
            break
        groups: dict[str, GroupDemand] = {}
        for size in sizes:
            if size.group is not None:
                old = groups.get(size.group, GroupDemand(0, 0, 0, 0))
                parts = (1.0, size.memory or 0.0, size.disk or 0.0, size.vcpus or 0.0)
                groups[size.group] = GroupDemand(*(a + b for a, b in zip(old, parts)))
        samples.append(DemandSample(moment, groups))
    return samples
