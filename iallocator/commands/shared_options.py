"""Options that several commands have: forms of the result, and how a plan is carried out."""

from __future__ import annotations

from iallocator.errors import UsageError
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.options.values import amount, file_name, number_between, share, whole_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster

__all__ = [
    "BOOT_OPTION", "COMMANDS_OPTION", "EXECUTION_OPTIONS", "GRAPH_OPTION", "GROUP_OPTION",
    "HTML_OPTION", "JSON_OPTION", "MAX_CPU_OPTION", "MIN_DISK_OPTION", "OFFLINE_OPTION",
    "UNDO_OPTION", "VERIFY_OPTION", "ExecutionSettings", "reject_contradictions",
    "reject_silent_nodes",
]  # fmt: skip

JSON_OPTION = Option("--json", "json", "write the plan as one JSON document")
COMMANDS_OPTION = Option(
    "--print-commands -C", "commands",
    "print the commands that carry it out, in job sets, or write them to FILE", str, "[=FILE]",
    bare="-",
)  # fmt: skip
GRAPH_OPTION = Option(
    "--graph", "graph",
    "draw the steps and what they wait for: an SVG file, or else DOT (- or none: stdout)", str,
    "[=FILE]", bare="-",
)  # fmt: skip
HTML_OPTION = Option("--html", "html", "write a page for a browser", str, "FILE")
VERIFY_OPTION = Option(
    "--verify-plan",
    "verify_plan",
    "try other orders of the steps on the model, too, and say that all is well",
)
OFFLINE_OPTION = Option(
    "--offline -O", "offline", "treat this node as offline; may repeat", str, "NODE", repeats=True
)
GROUP_OPTION = Option("--group -G", "group", "look at this group only (name or uuid)", str, "GROUP")
MAX_CPU_OPTION = Option("--max-cpu", "max_cpu", "virtual cpus per cpu at most", amount, "RATIO")
MIN_DISK_OPTION = Option(
    "--min-disk", "min_disk", "share of disk that stays free, 0 to 1", share, "RATIO"
)

PRIORITIES = {"low": 10, "normal": 0, "high": -10}


def priority(text: str) -> int:
    """One of Ganeti's words for priorities, or a number from -20 to 19."""
    if text in PRIORITIES:
        return PRIORITIES[text]
    try:
        value = int(text) if text.lstrip("-").isascii() and text.lstrip("-").isdigit() else 99
    except ValueError:
        value = 99
    if not -20 <= value <= 19:
        raise ValueError("low, normal, high or a whole number from -20 to 19")
    return value


class ExecutionSettings(options.Settings):
    """What a person says about carrying a plan out."""

    json: bool = False
    execute: bool = False
    dry_run: bool = False
    resume: str = ""
    journal: str = ""
    done_by_hand: bool = False
    first_job_group: bool = False
    reason: str = ""
    priority: int | None = None
    ahead: int = 2
    boot_timeout: float = 600.0
    assume_offline: bool = False


EXECUTION_OPTIONS = (
    Option("--exec -X", "execute", "carry the plan out on the running cluster (-L or -m)"),
    Option("--dry-run", "dry_run", "with -X: show the jobs, submit none"),
    Option("--journal", "journal",
           "with -X: write down here what is done (default: a new file in a directory of state)",
           file_name, "FILE"),
    Option("--resume", "resume",
           "with -X: continue what this journal tells of, and retry what failed; "
           "without: show how far it came",
           file_name, "JOURNAL"),
    Option("--done-by-hand", "done_by_hand",
           "with --resume: what was to be done by hand has been done"),
    Option("--first-job-group", "first_job_group",
           "with -X: submit only the jobs that wait for nothing"),
    Option("--ahead", "ahead",
           "with -X: let so many jobs wait in the queue, beyond those that run (default 2)",
           whole_between(1, 1000), "JOBS"),
    Option("--assume-offline", "assume_offline",
           "with -X: go on although nodes do not answer that are not marked offline"),
    Option("--reason", "reason", "with -X: say this in the reason trail of every job", str,
           "TEXT"),
    Option("--priority", "priority",
           "with -X: of every job: low, normal, high or a number from -20 (first) to 19",
           priority, "PRIORITY"),
)  # fmt: skip

BOOT_OPTION = Option(
    "--boot-timeout",
    "boot_timeout",
    "with -X: after power-on or a reboot, wait so long for the node to answer (default 600)",
    number_between(1, 86400),
    "SECONDS",
)
"""Of the commands whose plans power nodes on, or have them rebooted."""

UNDO_OPTION = Option(
    "--undo", "undo",
    "plan to move back the instances that the plan of this journal has moved, and no others",
    file_name, "JOURNAL",
)  # fmt: skip

WITH_X = (
    "assume_offline",
    "boot_timeout",
    "dry_run",
    "journal",
    "done_by_hand",
    "first_job_group",
    "ahead",
    "reason",
    "priority",
)

WRITTEN = {
    "html": "--html",
    "graph": "--graph",
    "commands": "--print-commands",
    "verify_plan": "--verify-plan",
    "save_cluster": "--save-cluster",
    "allow": "--allow",
    "undo": "--undo",
}
"""What is told of a plan when it is made -> how that is asked for."""


def reject_silent_nodes(cluster: Cluster, settings: ExecutionSettings) -> None:
    """Refuse to change a cluster with nodes that are only assumed to be offline.

    Their instances may be running.

    Raises
    ------
    LiveError
        Unless ``--assume-offline`` is given.
    """
    if not (settings.execute and cluster.assumed_offline) or settings.assume_offline:
        return
    from iallocator.sources.live.load import reject_silence

    reject_silence(cluster, "--assume-offline")


def reject_contradictions(settings: ExecutionSettings) -> None:
    """Refuse options that would do nothing.

    Raises
    ------
    UsageError
        Says which.
    """
    names = {one.target: one.names[0] for one in (*EXECUTION_OPTIONS, BOOT_OPTION)}
    late = [name for target, name in WRITTEN.items() if target in settings.chosen]
    if settings.resume and late:
        raise UsageError(f"--resume goes on with a plan that is made: no {late[0]}")
    if not settings.execute:
        idle = [names[target] for target in WITH_X if target in settings.chosen]
        if idle:
            raise UsageError(f"{idle[0]} says how a plan is carried out: it goes with -X")
        return
    from iallocator.execution.doors import runs

    if not runs(settings):
        raise UsageError("-X carries a plan out on a running cluster: it needs -L, or -m HOST")
    if settings.rapi and settings.priority not in (None, *PRIORITIES.values()):
        raise UsageError("--priority: RAPI (-m) takes low, normal and high only")
    if settings.resume and settings.journal:
        raise UsageError("--resume goes on in the journal that it reads: no --journal")
    if settings.done_by_hand and not settings.resume:
        raise UsageError("--done-by-hand is about the journal of an execution: --resume JOURNAL")
    if settings.dry_run and (settings.journal or settings.done_by_hand):
        raise UsageError("--dry-run does nothing that a journal would tell of")
