"""``history`` of a folder of loads: the moves that steady balancing made, and their regrets.

A move is found as `balance --steady` finds it: an instance with other nodes than one round before.
It is *planned* if the round before, or a round of the last hour, planned to move the instance. It
is a *regret* if the instance returns, within a week, to the primary that it left.
"""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timedelta
from time import time
from typing import TYPE_CHECKING

from iallocator.commands.command import Result
from iallocator.commands.day_files import DayFiles
from iallocator.commands.steady import HISTORY_DAYS, sample_of
from iallocator.errors import UsageError, many, tell
from iallocator.planners.balance.steady import LoadSample
from iallocator.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json
    from iallocator.commands.command import Command

__all__ = ["day_of_moves", "has_loads", "made_moves"]

FILE = re.compile(r"(\d{4}-\d\d-\d\d)\.jsonl")

REGRET_SECONDS = 7 * DAY
"""The time in seconds within which the return of an instance makes its move a regret."""

CARRIED_OUT = HOUR
"""The seconds after a plan within which a move is attributed to it.

A plan of the round directly before the move may be older."""


def has_loads(folder: str) -> bool:
    """Return whether `folder` has a history of loads."""
    try:
        names = sorted(name for name in os.listdir(folder) if FILE.fullmatch(name))
    except OSError:
        return False
    for name in names:
        try:
            with open(os.path.join(folder, name), "rb") as file:
                if b'"instances":{' in file.read(100):
                    return True
        except OSError:
            continue
    return False


def made_moves(command: Command) -> Result:
    """List the moves in a history of loads, oldest first, and count rounds and regrets.

    Raises
    ------
    UsageError
        If the folder cannot be read, or an option is for captured calls.
    """
    folder, own = command.positional[0], command.settings
    for name in ("type", "outcome"):
        if name in own.chosen:
            raise UsageError(f"--{name} selects captured calls: {folder} has a history of loads")
    files = DayFiles(folder, HISTORY_DAYS)
    days = [match[1] for name in os.listdir(folder) if (match := FILE.fullmatch(name))]
    latest = datetime.fromisoformat(f"{max(days)}T00:00:00+00:00") + timedelta(days=1)
    rounds, moves = 0, []
    for move in _moves(files, latest.timestamp() - 1, own.max_input):
        if isinstance(move, LoadSample):
            rounds += 1
        else:
            moves.append(move)
    files.warn_of_damage()
    since = 0.0 if own.days is None else time() - own.days * DAY
    wanted = [
        move for move in moves
        if move["unix_time"] >= since
        and own.text in " ".join((move["instance"], *move["from"], *move["to"]))
    ]  # fmt: skip
    wanted = wanted[-(own.last or 0) :]
    if not wanted:
        tell(f"{many(rounds, 'round')}, and no move" + (" matches" if moves else ""))
    return Result({
        "rounds": rounds,
        "moves": wanted,
        "planned_moves": sum(move["planned"] for move in wanted),
        "gain": round(sum(move["gain"] for move in wanted), 4),
        "copied_mib": sum(move["copied_mib"] for move in wanted),
        "regrets": sum(move["returned"] is not None for move in wanted),
    })  # fmt: skip


def day_of_moves(folder: str, now: float, limit: int) -> Json | None:
    """Count the moves of the 24 hours before `now` in a history of loads.

    `now`: seconds since 1970. `limit`: most bytes of a file. Damaged lines are left out.

    The result has ``planned``: instances that a round planned to move; ``made``: planned moves that
    were made; ``unplanned``: other moves that were made; ``last_round``: the time of the last
    round. It is None if there is no round.
    """
    if not has_loads(folder):
        return None
    found: Json = {"made": 0, "unplanned": 0, "last_round": None}
    planned: set[str] = set()
    for move in _moves(DayFiles(folder, 2), now, limit):
        if isinstance(move, LoadSample):
            found["last_round"] = move.time
            if now - move.time < DAY:
                planned.update(move.planned)
        elif now - move["unix_time"] < DAY:
            found["made" if move["planned"] else "unplanned"] += 1
            if move["planned"]:  # the plan may be older than a day
                planned.add(move["instance"])
    found["planned"] = len(planned)
    return found if found["last_round"] is not None else None


def _moves(files: DayFiles, until: float, limit: int) -> Iterator[Json | LoadSample]:
    """Yield the sample of each round, followed by the moves made since the round before."""
    places: dict[str, tuple[str, ...]] = {}
    planned: dict[str, tuple[float, Json]] = {}
    before = 0.0
    left: dict[tuple[str, str], Json] = {}
    for _, line in files.lines(until, limit):
        sample = sample_of(line)
        if sample is None:
            files.damaged += 1
            continue
        yield sample
        now = sample.time
        for name, (_, nodes) in sample.instances.items():
            old = places.get(name, nodes)
            if old == nodes:
                continue
            moment, plan = planned.pop(name, (0.0, {}))
            due = bool(plan) and (moment >= before or now - moment <= CARRIED_OUT)
            move: Json = {
                "unix_time": now, "instance": name, "from": list(old), "to": list(nodes),
                "planned": due, "gain": plan["gain"] if due else 0.0,
                "copied_mib": plan["copied_mib"] if due else 0, "returned": None,
            }  # fmt: skip
            yield move
            earlier = left.get((name, nodes[0])) if old[0] != nodes[0] else None
            if earlier is not None and now - earlier["unix_time"] < REGRET_SECONDS:
                earlier["returned"] = now
            left[name, old[0]] = move
        places.update((name, nodes) for name, (_, nodes) in sample.instances.items())
        planned |= {str(one["instance"]): (now, one) for one in json.loads(line)["planned"]}
        before = now
