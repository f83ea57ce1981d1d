"""Read the state of the cluster from Ganeti's list commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_SEPARATOR = "|"

# Runs a command on the master and returns what it printed.
Ask = Callable[..., str]


@dataclass(frozen=True)
class Instance:
    """The nodes and the status of an instance.

    Attributes
    ----------
    nodes : tuple of str
        Primary first.
    template : str
        Disk template.
    status : str
        ``running``, ``ADMIN_down``, ...
    """

    nodes: tuple[str, ...]
    template: str
    status: str


def instances(ask: Ask) -> dict[str, Instance]:
    """Return all instances by name.

    Parameters
    ----------
    ask : callable
        Runs a command on the master.

    Returns
    -------
    dict of str to Instance
        The instances.
    """
    found = {}
    for name, primary, secondaries, template, status in _rows(
        ask, "gnt-instance", "name,pnode,snodes,disk_template,status"
    ):
        nodes = (primary, *(n for n in secondaries.split(",") if n not in ("", "-")))
        found[name] = Instance(nodes, template, status)
    return found


def node_groups(ask: Ask) -> dict[str, str]:
    """Return the name of each node's group.

    Parameters
    ----------
    ask : callable
        Runs a command on the master.

    Returns
    -------
    dict of str to str
        Group name by node name.
    """
    return {row[0]: row[1] for row in _rows(ask, "gnt-node", "name,group")}


def failed_jobs(ask: Ask) -> dict[int, str]:
    """Return the summaries of failed jobs.

    Parameters
    ----------
    ask : callable
        Runs a command on the master.

    Returns
    -------
    dict of int to str
        Summary by job number.
    """
    jobs = _rows(ask, "gnt-job", "id,status,summary")
    return {int(number): summary for number, status, summary in jobs if status == "error"}


def _rows(ask: Ask, command: str, fields: str) -> list[list[str]]:
    output = ask(command, "list", "--no-headers", f"--separator={_SEPARATOR}", "-o", fields)
    return [line.split(_SEPARATOR) for line in output.splitlines() if line]
