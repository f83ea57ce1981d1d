"""``rescue --watch``: rescue nodes that do not answer, called again and again by a timer.

The state between calls is a file in a folder: how often in a row each node did not answer, which
nodes were rescued and are not yet back, and the journal of the last rescue. If the file is damaged
or missing, every node is probed anew, and the journals in the folder name the rescued nodes.

A failed switch must not lead to powering off a rack. Therefore nothing is done if more nodes are
away than `Watching.most_nodes` permits: nodes that do not answer, whatever their group, and nodes
that were rescued and are not yet back. After a rescue that failed, a person must go on.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from time import strftime, time
from typing import Any

from iallocator.commands.execution import records_in
from iallocator.commands.planner_options import WATCH_FOLDER
from iallocator.errors import RequestError, UsageError, tell
from iallocator.execution.cluster_check import dead_nodes
from iallocator.execution.jobs import ExecutionError
from iallocator.execution.journal import never_begun, read_journal
from iallocator.execution.records import FAILED, REJECTED
from iallocator.execution.report import complete, execution_document
from iallocator.model.state import State
from iallocator.planners.repair.rescue import QuietResult, nodes_to_watch
from iallocator.transition.step import FENCE, OFFLINE
from iallocator.units import HOUR
from iallocator.wire.fields import names, number
from iallocator.written_files import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.commands.planner_options import Rescue
    from iallocator.execution.records import Records
    from iallocator.model.cluster import Cluster, Node
    from iallocator.planners.result import PlanResult

__all__ = ["Rescues", "WatchState", "begun_rescue", "candidates_before", "watched"]

STATE_FILE = "state.json"

LONGEST_PAUSE = HOUR
"""The seconds between two calls after which they do not count as calls in a row."""

RESCUE_DONE, RESCUE_BEGUN, RESCUE_STUCK = "done", "begun", "stuck"
"""States of a rescue: complete; begun, and it can be resumed; stopped because a job failed."""


class WatchState:
    """The state of a watch between calls.

    Attributes
    ----------
    probes:
        Node -> in how many calls in a row it did not answer.
    rescued:
        Node that was rescued -> when, in seconds since 1970.
    journal:
        The path of the journal of the last rescue; "" for none.
    damaged:
        Whether the file and the journals do not show which nodes were rescued. Then every node that
        is marked offline counts as rescued.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, STATE_FILE)
        self.damaged = False
        self.probes: dict[str, int] = {}
        self.rescued: dict[str, float] = {}
        self.journal = ""
        self._written = 0.0
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with open(self._path, "rb") as file:
                self._written = os.fstat(file.fileno()).st_mtime
                raw: Any = json.loads(file.read())
            probes = {str(name): int(count) for name, count in raw["probes"].items()}
            rescued = {str(name): float(moment) for name, moment in raw["rescued"].items()}
            self.probes, self.rescued, self.journal = probes, rescued, str(raw["journal"])
        except FileNotFoundError:
            self._read_journals(folder)
        except OSError as error:
            raise UsageError(f"--state: {self._path}: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            if not self._read_journals(folder):
                self.damaged = True
            tell(f"Warning: {self._path} is damaged: every node is probed anew")

    def _read_journals(self, folder: str) -> bool:
        """Find the last rescue and all rescued nodes in the journals; return whether there is any.

        A journal that cannot be read may be that of any rescue: the state counts as damaged.
        """
        any_begun = False
        for _, path in sorted(_journals(folder, "")):
            try:
                with open(path, "rb") as file:
                    if never_begun(file.read()):
                        continue
                any_begun, self.journal = True, path
                head, records = records_in(path)
            except (OSError, UsageError, RequestError):
                self.damaged = True
            else:
                self.rescued |= dict.fromkeys(_dead(records), number(head, "time"))
        return any_begun

    def update(self, cluster: Cluster) -> None:
        """Count the nodes that do not answer, and forget the rescued nodes that are back.

        If the last call was longer ago than `LONGEST_PAUSE`, the nodes are counted anew: they may
        have answered meanwhile.
        """
        silent = cluster.assumed_offline
        earlier = self.probes if time() - self._written <= LONGEST_PAUSE else {}
        self.probes = {name: earlier.get(name, 0) + 1 for name in silent}
        marked = {node.name for node in cluster.nodes if node.offline and node.name not in silent}
        if self.damaged:
            self.rescued = dict.fromkeys(marked, time()) | self.rescued
            if marked:
                tell(
                    "Warning: it is not known which nodes were rescued: every node that is offline "
                    f"counts as rescued until it is back ({', '.join(sorted(marked))})"
                )
        self.rescued = {name: when for name, when in self.rescued.items() if name in marked}

    def save(self) -> None:
        """Write the state, completely or not at all."""
        document = {"probes": self.probes, "rescued": self.rescued, "journal": self.journal}
        write_file(self._path, json.dumps(document))

    def progress(self) -> str:
        """Return how far the last rescue is: done, begun or stuck; done if there was none."""
        if not os.path.exists(self.journal):
            return RESCUE_DONE
        try:
            _, records = records_in(self.journal)
        except UsageError:  # the process ended before the first line was written
            return RESCUE_DONE
        if complete(records):
            return RESCUE_DONE
        return RESCUE_STUCK if records.in_state(FAILED, REJECTED) else RESCUE_BEGUN


class Rescues:
    """The rescues of nodes of a cluster that left journals on this machine.

    Attributes
    ----------
    rescued:
        Name of each rescued node that is offline now -> when its last rescue began.
    report:
        The progress of the last rescue, as plain data; None for none.
    begun:
        When the last rescue began; 0 for none.
    watch:
        The time at which the watch stored its state, and how many nodes were ``silent`` and not
        rescued, or ``rescued`` and not back; None if the watch never ran.

    Times are in seconds since 1970. Files that cannot be read are left out.
    """

    report: Json | None = None
    begun = 0.0
    watch: Json | None = None

    def __init__(self, cluster: Cluster, folder: str, watch_folder: str = WATCH_FOLDER) -> None:
        self.rescued: dict[str, float] = {}
        with suppress(OSError, UsageError):
            moment = os.path.getmtime(os.path.join(watch_folder, STATE_FILE))
            state = WatchState(watch_folder)
            silent = state.probes.keys() - state.rescued.keys()
            self.watch = {
                "time": round(moment), "silent": len(silent), "rescued": len(state.rescued)
            }  # fmt: skip
        offline = {node.name for node in cluster.nodes if node.offline}
        offline -= {*cluster.assumed_offline}
        paths = [*_journals(folder, "rescue-"), *_journals(watch_folder, "")]
        for _, path in sorted(paths, reverse=True):
            with suppress(UsageError, RequestError):
                self._add(path, cluster.name, offline)
            if self.report is not None and offline <= self.rescued.keys():
                break

    def _add(self, path: str, cluster: str, offline: Collection[str]) -> None:
        """Add the rescue in a journal, if it is one of `cluster`; later rescues are added first.

        A journal of ``rescue --return`` marks no node offline, and fences none: it is left out.
        """
        head, records = records_in(path)
        dead = _dead(records)
        if head["command"] != "rescue" or head["cluster"] != cluster or not dead:
            return
        begun = number(head, "time")
        for name in dead.intersection(offline):
            self.rescued.setdefault(name, begun)
        if self.report is None:
            self.report, self.begun = execution_document(head, records, None), begun


def _dead(records: Records) -> set[str]:
    """Return the nodes that a rescue fences or marks offline; `records`: those of its journal."""
    return {
        step["node"]
        for job in records.whole.values() for step in job.steps
        if step["kind"] in (FENCE, OFFLINE)
    }  # fmt: skip


def candidates_before(
    cluster: str, node: str, folder: str, others: Sequence[str]
) -> list[str] | None:
    """Return the master candidates of a cluster when the last rescue of `node` set it offline.

    `cluster`: the name of the cluster. `folder`: the default one of journals of rescues by hand,
    with names that begin with ``rescue-``. `others`: further folders, in which a journal has any
    name with the ending ``.journal``. Journals that cannot be read are left out. Without a journal
    that lists the candidates, None is returned.
    """
    paths = {path: moment for one in others for moment, path in _journals(one, "")}
    paths |= {path: moment for moment, path in _journals(folder, "rescue-")}
    for path in sorted(paths, key=lambda one: paths[one], reverse=True):
        with suppress(UsageError, RequestError):
            head, _ = read_journal(path)
            if head["cluster"] == cluster and node in dead_nodes(head):
                return names(head, "candidates", []) or None  # the master node is always one
    return None


def _journals(folder: str, prefix: str) -> Iterator[tuple[float, str]]:
    """Yield the time of the last change and the path of each journal in `folder`."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(prefix) and entry.name.endswith(".journal"):
                yield entry.stat().st_mtime, entry.path


def begun_rescue(settings: Rescue) -> tuple[str, Collection[str]]:
    """Return the journal of an interrupted rescue that can be resumed, and nodes without answer.

    The second value names the nodes that did not answer when the rescue was planned. If there is no
    such rescue, the function returns "" and no nodes.
    """
    if not settings.execute or settings.dry_run:
        return "", ()
    state = WatchState(settings.state)
    return (state.journal, [*state.probes]) if state.progress() == RESCUE_BEGUN else ("", ())


def watched(command: Command, rescue: Callable[[Node], PlanResult]) -> PlanResult:
    """Count the nodes that do not answer, and plan the rescue of a node if one is due.

    `rescue`: plans the rescue of a node, or raises an `ExecutionError` if that is impossible.
    """
    own: Rescue = command.settings
    cluster = command.source.cluster
    state = WatchState(own.state)
    state.update(cluster)
    before = State(cluster)
    node, reason, calls_person = _due(state, cluster, own)
    done: PlanResult | None = None
    if node is not None:
        try:
            done = rescue(node)
        except ExecutionError as error:
            reason, calls_person = str(error), True
    if done is None:
        done = QuietResult(before, reason, calls_person)
    elif node is not None and own.execute and not own.dry_run:
        state.rescued[node.name] = time()
        name = f"{node.name}-{strftime('%Y%m%d-%H%M%S')}.journal"
        state.journal = own.journal = os.path.join(own.state, name)
        cluster.assumed_offline, command.dead = (), {*state.probes}  # not more than permitted
    if not own.dry_run:
        state.save()
    done.members["watch"] = {
        "silent": [{"node": name, "call_count": count} for name, count in state.probes.items()],
        "rescued": sorted(state.rescued),
    }
    return done


def _due(state: WatchState, cluster: Cluster, own: Rescue) -> tuple[Node | None, str, bool]:
    """Return the node to rescue, a reason, and whether the administrator must act.

    If no node is rescued, the node is None, and the reason says why.
    """
    if state.progress() == RESCUE_STUCK:
        again = f"iallocator rescue -L -X --resume {state.journal}"
        return None, f"the last rescue failed; {again} goes on, nothing is done before", True
    if not state.probes:
        return None, "every node answers, or is marked offline", False
    away = sorted({*state.probes, *state.rescued})
    if len(away) > own.most_nodes:
        what = f"{len(away)} nodes do not answer, or are rescued and not back: {', '.join(away)}"
        return None, f"{what}; a switch may have failed (--most-nodes {own.most_nodes})", True
    nodes = [node for node in cluster.nodes if node.name in state.probes]
    watched_nodes = nodes_to_watch(cluster, nodes, own.tag_prefix)
    if not watched_nodes:
        name, tag = nodes[0].name, f"{own.tag_prefix}rescue:auto"
        why = f"its group has no tag {tag}, or it is drained, in maintenance or without instances"
        return None, f"{name} does not answer, and is not watched: {why}", False
    node = max(watched_nodes, key=lambda one: state.probes[one.name])
    count = state.probes[node.name]
    if count < own.probes:
        return None, f"{node.name} did not answer in {count} of {own.probes} calls", False
    if not node.oob_program:
        why = "and has no out-of-band program: a person must rescue it"
        return None, f"{node.name} does not answer, {why}", True
    return node, "", False
