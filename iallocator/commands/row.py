"""A row in the table of commands."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = [
    "LISTS_GROUP", "OTHERS", "PLANNERS", "READS_CLUSTER", "READS_ITSELF", "SETS_OFFLINE",
    "UNMEASURED", "Row",
]  # fmt: skip

PLANNERS, OTHERS = "planner_options", "other_options"
"""The modules with the options of commands."""

READS_ITSELF, READS_CLUSTER = "", "cluster"
"""Sources of a command: what its function reads, or the cluster, which the runner reads."""

SETS_OFFLINE = "sets-offline"
"""The nodes of ``--offline`` are offline as soon as the cluster is read."""

LISTS_GROUP = "lists-group"
"""Lists of nodes and instances show only the group of ``--group``."""

UNMEASURED = "unmeasured"
"""Monitoring daemons are not asked how busy instances are."""


class Row:
    """A command in the table.

    Attributes
    ----------
    summary:
        What the command does, for the help.
    options:
        The module with its class of settings, which is named as the command, without hyphens.
    module:
        The module with the function that does its work, which is named as the command, with ``_``
        for hyphens. It takes the `Command`, and with the source `READS_CLUSTER` a deadline. It
        returns a `Result`, or with the document ``plan`` or ``reboots`` a `PlanResult`, which is
        verified before it is shown. If executions are followed, the module has a ``follower``.
    document:
        The type of the document that it returns: a row of `iallocator.render.renderers.RENDERERS`.
    source:
        `READS_CLUSTER` or `READS_ITSELF`.
    request:
        The use of a request in the document: ``needed``, ``optional``, or "" if it is not read.
    states:
        Endings of the files that ``--save-cluster`` writes.
    traits:
        Some of `SETS_OFFLINE`, `LISTS_GROUP` and `UNMEASURED`.
    """

    __slots__ = (
        "document", "module", "options", "request", "source", "states", "summary", "traits",
    )  # fmt: skip

    def __init__(
        self,
        summary: str,
        options: str,
        module: str,
        document: str,
        *,
        source: str = READS_CLUSTER,
        request: str = "",
        states: Sequence[str] = (),
        traits: Collection[str] = (),
    ) -> None:
        self.summary = summary
        self.options = options
        self.module = module
        self.document = document
        self.source = source
        self.request = request
        self.states = states
        self.traits = traits
