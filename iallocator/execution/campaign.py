"""The state file of a campaign: its options, the nodes that are done, and the group in maintenance.

The file is one JSON document, replaced as a whole after each change. It contains the path of the
journal of the group in maintenance. The journal records every job, and the work on every node.
After an interruption the journal is completed first. Then the next groups are planned anew, after
the cluster is read again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import time

from iallocator.errors import RequestError, UsageError
from iallocator.execution.jobs import ExecutionError
from iallocator.files import read_file
from iallocator.wire.codec import decode, dumps
from iallocator.wire.fields import child, name_of, names, number, objects, text
from iallocator.written_files import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json

__all__ = ["CampaignState"]

CAMPAIGN_FORMAT = 1
"""The version of the state file."""

KIND = "campaign"


class CampaignState:
    """The state of a campaign, and its file.

    Attributes
    ----------
    path:
        The path of the state file.
    cluster:
        Name of the cluster.
    options:
        Attribute of the settings -> value, for the options that the campaign was begun with.
    done:
        Names of the nodes that are done, in order.
    left:
        Name of a node that is left out -> the reason.
    groups:
        The groups that were begun: ``nodes``, ``journal``, ``begun`` and ``ended``, in seconds
        since 1970; ``ended`` is 0 for a group in maintenance.
    nodes:
        Names of all nodes to maintain, as they were requested at the beginning.
    """

    def __init__(self, path: str, cluster: str, options: Mapping[str, object]) -> None:
        self.path = path
        self.cluster = cluster
        self.options = dict(options)
        self.done: list[str] = []
        self.left: dict[str, str] = {}
        self.groups: list[Json] = []
        self.nodes: list[str] = []

    @classmethod
    def create(cls, path: str, cluster: str, options: Mapping[str, object]) -> CampaignState:
        """Return the state of a new campaign, with a new file.

        Raises
        ------
        UsageError
            If the file exists, or cannot be written.
        """
        if os.path.exists(path):
            raise UsageError(f"{path}: exists; --resume continues it")
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        state = cls(path, cluster, options)
        state.save()
        return state

    @classmethod
    def read(cls, path: str) -> CampaignState:
        """Return the state in a file.

        Raises
        ------
        UsageError
            If the file cannot be read, or is not the state of a campaign.
        """
        try:
            raw = decode(read_file(path))
            if raw.get("kind") != KIND or raw.get("format") != CAMPAIGN_FORMAT:
                raise UsageError(f"{path}: not the state of a campaign of iallocator maintain")
            state = cls(path, name_of(raw, "cluster"), child(raw, "options"))
            state.done, state.nodes = names(raw, "done"), names(raw, "nodes")
            left = child(raw, "left")
            state.left = {node: text(left, node) for node in left}
            state.groups = objects(raw, "groups")
            for one in state.groups:
                names(one, "nodes")
                name_of(one, "journal")
                number(one, "begun")
                number(one, "ended")
        except RequestError as error:
            raise UsageError(f"{path}: {error}") from None
        return state

    @property
    def away(self) -> Json | None:
        """Return the group of nodes in maintenance; None if there is none."""
        if self.groups and not self.groups[-1]["ended"]:
            return self.groups[-1]
        return None

    @property
    def to_do(self) -> list[str]:
        """Return the nodes that are not done, and not left out."""
        return [node for node in self.nodes if node not in self.done and node not in self.left]

    @property
    def complete(self) -> bool:
        """Return whether every node is done."""
        return not (self.left or self.to_do or self.away)

    def progress(self) -> Json:
        """Return the progress of the campaign as plain data."""
        to_do = self.to_do
        return {
            "state_file": self.path,
            "complete": self.complete,
            "done": self.done,
            "to_do": to_do,
            "left_out": [{"node": node, "reason": why} for node, why in self.left.items()],
            "groups_done": sum(bool(one["ended"]) for one in self.groups),
            "begun": self.groups[0]["begun"] if self.groups else 0,
            "estimated_seconds": round(self.seconds_left(len(to_do))),
        }

    def begin_group(self, nodes: Sequence[str]) -> str:
        """Record that the maintenance of a group of `nodes` begins; return its journal's path."""
        journal = f"{self.path}.group-{len(self.groups) + 1}"
        self.groups.append(
            {"nodes": list(nodes), "journal": journal, "begun": round(time(), 3), "ended": 0}
        )
        self.save()
        return journal

    def end_group(self, done: Sequence[str]) -> None:
        """Record that the maintenance of the group has ended; its nodes `done` are maintained."""
        self.groups[-1]["ended"] = round(time(), 3)
        self.done += [node for node in done if node not in self.done]
        self.save()

    @classmethod
    def latest(cls, folder: str, cluster: str) -> CampaignState | None:
        """Return the state that was written last in `folder` for `cluster`; None if there is none.

        Files that are not readable, or are not the state of a campaign, are left out.
        """
        states: list[tuple[float, str]] = []
        with suppress(OSError):
            for entry in os.scandir(folder):
                if entry.name.startswith("maintain-") and entry.name.endswith(".journal"):
                    states.append((entry.stat().st_mtime, entry.path))
        for _, path in sorted(states, reverse=True):
            with suppress(UsageError):
                state = cls.read(path)
                if state.cluster == cluster:
                    return state
        return None

    def seconds_left(self, nodes: int) -> float:
        """Return the estimated seconds for that many further nodes, by the groups that ended."""
        ended = [one for one in self.groups if one["ended"]]
        count = sum(len(one["nodes"]) for one in ended)
        spent = sum(one["ended"] - one["begun"] for one in ended)
        return float(spent / count * nodes) if count else 0.0

    def longest(self) -> float:
        """Return the seconds that the longest group took; 0 if none has ended."""
        return max(
            (one["ended"] - one["begun"] for one in self.groups if one["ended"]), default=0.0
        )

    def save(self) -> None:
        """Write the state to the file, which is replaced as a whole.

        Raises
        ------
        ExecutionError
            If the file cannot be written.
        """
        document = {
            "kind": KIND,
            "format": CAMPAIGN_FORMAT,
            "cluster": self.cluster,
            "options": self.options,
            "nodes": self.nodes,
            "done": self.done,
            "left": self.left,
            "groups": self.groups,
        }
        try:
            write_file(self.path, dumps(document) + "\n")
        except UsageError as error:
            raise ExecutionError(
                f"{error}: the campaign stops, because its state cannot be stored"
            ) from None
