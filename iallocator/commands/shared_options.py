"""Options that several commands have: forms of the result, limits, and the execution of a plan."""

from __future__ import annotations

from iallocator.errors import UsageError
from iallocator.options.settings import BOOT_SECONDS
from iallocator.options.table import (
    CLUSTER,
    COMMON,
    EXECUTION,
    LIMITS,
    OUTPUT,
    SELECTION,
    CommandSettings,
    option,
)  # fmt: skip
from iallocator.options.values import (
    amount,
    bandwidth,
    file_name,
    json_version,
    number_between,
    share,
    whole_between,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "ALL", "BANDWIDTH", "BOOT", "DYNU", "GROUP", "HTML", "MAX_CPU", "METRICS", "MIN_DISK",
    "OFFLINE",
    "Execution",
    "Planning", "json_of",
]  # fmt: skip


def json_of(what: str) -> Any:
    """Return the option ``--json`` of a command that writes `what`."""
    return option(
        "--json",
        f"write {what} as one JSON document; 1: with the keys of version 0.1 (until 2.0)",
        json_version, "[=VERSION]", 0,
        bare="2", group=OUTPUT,
    )  # fmt: skip


ALL: Any = option("--all", "print all rows of long lists, also on a terminal", group=OUTPUT)
HTML: Any = option(
    "--html",
    "write a page for a browser, or linked pages into a folder (FOLDER/)",
    str,
    "FILE",
    group=OUTPUT,
)
METRICS: Any = option(
    "--metrics",
    "write metrics for Prometheus to this file, completely or not at all",
    file_name,
    "FILE",
    "",
    group=OUTPUT,
)
BANDWIDTH: Any = option(
    "--bandwidth",
    "size that is copied in a second, to estimate durations on a page (--html) and in maintain; "
    "MiB without a unit (default 100)",
    bandwidth,
    "SIZE",
    100.0,
    group=OUTPUT,
    rare=True,
)
OFFLINE: Any = option(
    "--offline -O",
    "treat this node as offline; may repeat",
    str,
    "NODE",
    repeats=True,
    group=CLUSTER,
)
GROUP: Any = option(
    "--group -G", "use only this group (name or uuid)", str, "GROUP", "", group=SELECTION
)
MAX_CPU: Any = option(
    "--max-cpu", "largest number of virtual cpus per cpu", amount, "RATIO", group=LIMITS, rare=True
)
MIN_DISK: Any = option(
    "--min-disk",
    "share of disk space that must stay free, 0 to 1",
    share,
    "RATIO",
    0.0,
    group=LIMITS,
    rare=True,
)
DYNU: Any = option(
    "--dynu-file -U", "file with dynamic utilisation: lines of instance, cpu, memory, disk, net",
    file_name,
    "FILE", "", group=CLUSTER,
)  # fmt: skip
BOOT: Any = option(
    "--boot-timeout",
    "with -X: time in which a node must answer after power-on or a reboot (default 600)",
    number_between(1, 86400), "SECONDS", BOOT_SECONDS, group=EXECUTION, rare=True,
)  # fmt: skip
"""The option of commands with plans that power nodes on, or wait for reboots."""

PRIORITIES = {"low": 10, "normal": 0, "high": -10}


def job_priority(text: str) -> int:
    """Return the priority of a job: from a word of Ganeti, or a number from -20 to 19."""
    if text in PRIORITIES:
        return PRIORITIES[text]
    try:
        value = int(text) if text.lstrip("-").isascii() and text.lstrip("-").isdigit() else 99
    except ValueError:
        value = 99
    if not -20 <= value <= 19:
        raise ValueError("low, normal, high or a whole number from -20 to 19")
    return value


WITH_X = (
    "assume_offline",
    "boot_timeout",
    "journal",
    "done_by_hand",
    "first_job_group",
    "ahead",
    "reason",
    "priority",
)
"""Attributes for an execution that have no effect without ``-X``."""

WITH_DRY_RUN = ("first_job_group",)
"""Attributes of `WITH_X` that also change the output of ``--dry-run``."""

WRITTEN = {
    "html": "--html",
    "graph": "--graph",
    "commands": "--print-commands",
    "verify_plan": "--verify-plan",
    "save_cluster": "--save-cluster",
    "allow": "--allow",
    "undo": "--undo",
}
"""Attribute of settings for an output that only a new plan has -> its option."""

IDLE = frozenset({
    "restrict_allocation_to", "compat", "exact_search", "optimal", "strategy", "stickiness",
    "make_room", "cost", "top", "ignore_dynu", "mond", "mond_data", "mond_xen",
    "exit_on_missing_mond_data", "affinity_overhead", "initial_msav", "final_msav", "msav_steps",
    "seed",
})  # fmt: skip
"""Common options that only a search needs; with ``--undo`` the target of each instance is known."""


class Execution(CommandSettings):
    """The options that execute a plan."""

    json: int = 0
    boot_timeout: float = BOOT_SECONDS
    fenced: bool = False

    execute: bool = option(
        "--exec -X", "execute the plan on the running cluster (-L or -m)", group=EXECUTION
    )
    dry_run: bool = option(
        "--dry-run",
        "print the jobs that -X would submit, and submit none; also without -X",
        group=EXECUTION,
    )
    journal: str = option(
        "--journal",
        "with -X: the journal (default: a new file in the folder of journals)",
        file_name, "FILE", "", group=EXECUTION, rare=True,
    )  # fmt: skip
    resume: str = option(
        "--resume",
        "with -X: continue the execution of this journal, and retry failed jobs; "
        "without -X: report its progress",
        file_name, "JOURNAL", "", group=EXECUTION,
    )  # fmt: skip
    done_by_hand: bool = option(
        "--done-by-hand", "with --resume: the manual steps are done", group=EXECUTION, rare=True
    )
    first_job_group: bool = option(
        "--first-job-group",
        "with -X: submit only the jobs without dependencies",
        group=EXECUTION,
        rare=True,
    )
    ahead: int = option(
        "--ahead",
        "with -X: number of jobs that may wait in the queue beyond the running ones (default 2)",
        whole_between(1, 1000), "JOBS", 2, group=EXECUTION, rare=True,
    )  # fmt: skip
    assume_offline: bool = option(
        "--assume-offline",
        "with -X: continue although nodes do not answer that are not marked offline",
        group=EXECUTION,
        rare=True,
    )
    reason: str = option(
        "--reason",
        "with -X: text for the reason trail of every job",
        str,
        "TEXT",
        "",
        group=EXECUTION,
        rare=True,
    )
    priority: int | None = option(
        "--priority",
        "with -X: priority of every job: low, normal, high, or a number from -20 (first) to 19",
        job_priority, "PRIORITY", group=EXECUTION, rare=True,
    )  # fmt: skip

    def check(self, positional: Sequence[str]) -> None:
        """Reject options that have no effect."""
        names = {one.target: one.names[0] for one in self.options}
        late = [name for target, name in WRITTEN.items() if target in self.chosen]
        if self.resume and late:
            raise UsageError(
                f"--resume continues the plan in the journal: {late[0]} needs a new plan"
            )
        if self.dry_run and (self.journal or self.done_by_hand):
            raise UsageError(
                "--dry-run executes nothing: --journal and --done-by-hand have no effect"
            )
        if not self.execute:
            idle = [
                names[target]
                for target in WITH_X
                if target in self.chosen and not (self.dry_run and target in WITH_DRY_RUN)
            ]
            if idle:
                raise UsageError(f"{idle[0]} needs -X: it is about the execution of a plan")
            return
        if not self.asks_running_cluster:
            raise UsageError("-X executes a plan on a running cluster: it needs -L or -m HOST")
        if self.rapi and self.priority not in (None, *PRIORITIES.values()):
            raise UsageError("--priority: RAPI (-m) accepts only low, normal and high")
        if self.resume and self.journal:
            raise UsageError(
                "--resume continues the journal that it reads: --journal has no effect"
            )
        if self.done_by_hand and not self.resume:
            raise UsageError("--done-by-hand needs --resume JOURNAL")


class PlanForms(CommandSettings):
    """The options for the forms in which a plan is shown."""

    json: int = json_of("the plan")
    all_rows: bool = ALL
    commands: str | None = option(
        "--print-commands -C",
        "print the commands that execute the plan, in job sets, or write them to FILE",
        str, "[=FILE]",
        bare="-", group=OUTPUT,
    )  # fmt: skip
    graph: str | None = option(
        "--graph",
        "draw the steps and their dependencies: an SVG file, otherwise DOT (- or none: stdout)",
        str,
        "[=FILE]", bare="-", group=OUTPUT,
    )  # fmt: skip
    html: str | None = HTML
    bandwidth: float = BANDWIDTH
    verify_plan: bool = option(
        "--verify-plan",
        "also check other orders of the steps on the model, and report the result",
        group=OUTPUT,
        rare=True,
    )


class Planning(PlanForms, Execution):
    """The options of every command that plans moves."""

    undo: str = option(
        "--undo",
        "plan to move back exactly the instances that this journal has moved",
        file_name, "JOURNAL", "", group=EXECUTION,
    )  # fmt: skip

    def check(self, positional: Sequence[str]) -> None:
        """Reject options that have no effect; with ``--undo``, reject options of a search."""
        super().check(positional)
        if not self.undo:
            return
        own = [one for one in self.options if one not in Planning.options]
        names = {one.target: one.names[0] for one in (*COMMON, *own)}
        wrong = sorted(self.chosen & (IDLE | {one.target for one in own}))
        if wrong:
            raise UsageError(f"--undo only moves back instances: {names[wrong[0]]} has no effect")
