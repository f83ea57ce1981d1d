"""The options of ``iallocator maintain``."""

from __future__ import annotations

from datetime import datetime, timedelta

from iallocator.commands.planner_options import NodesAway
from iallocator.commands.shared_options import BOOT, METRICS, Execution, PlanForms
from iallocator.errors import UsageError
from iallocator.options.settings import WORK_SECONDS
from iallocator.options.table import (
    EXECUTION,
    LIMITS,
    OUTPUT,
    SELECTION,
    CommandSettings,
    option,
)  # fmt: skip
from iallocator.options.values import NODE_PLACE, Choice, name_list, number_between, whole_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CampaignSettings", "Maintain"]

BOOT_ID = "ssh -o BatchMode=yes -o ConnectTimeout=10 {node} cat /proc/sys/kernel/random/boot_id"
"""The default command that prints the boot id of a node."""


def moment(text: str) -> float:
    """Parse the next time of day, like 06:00, or a time with a zone: 2026-01-02T06:00:00Z."""
    expected = "a time of day, like 06:00, or a time with its zone, like 2026-01-02T06:00:00Z"
    try:
        if len(text) == 5:
            now = datetime.now().astimezone()
            hour, minute = map(int, (text[:2], text[3:]))
            time = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (time if time > now else time + timedelta(days=1)).timestamp()
        time = datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError(expected) from None
    if time.tzinfo is None:
        raise ValueError(expected)
    return time.timestamp()


class CampaignSettings(CommandSettings):
    """The options of a campaign, which its state file keeps."""

    run: str = option(
        "--run",
        "command of a shell that maintains a node; {node} is its name (default: by hand)",
        str, "COMMAND", "", group=SELECTION,
    )  # fmt: skip
    check_command: str = option(
        "--check",
        "command that checks a node before it takes instances again; {node} is its name",
        str, "COMMAND", "", group=SELECTION,
    )  # fmt: skip
    no_reboot: bool = option(
        "--no-reboot", "the nodes are not rebooted: the end of the command is enough",
        group=SELECTION,
    )  # fmt: skip
    boot_id: str = option(
        "--boot-id",
        "with -X: command that prints the boot id of a node; {node} is its name (default: "
        "ssh {node} cat /proc/sys/kernel/random/boot_id)",
        str, "COMMAND", BOOT_ID, group=EXECUTION, rare=True,
    )  # fmt: skip
    after: str = option(
        "--after",
        "instances of a group return (back, default), stay where they are (stay), or all "
        "instances of its node group are balanced (balance)",
        Choice("back", "stay", "balance"), "WHAT", "back", group=LIMITS,
    )  # fmt: skip
    only: Sequence[str] = option(
        "--only", "only these nodes", name_list, "NODE,...", (), group=SELECTION
    )
    skip: Sequence[str] = option(
        "--skip", "leave out these nodes", name_list, "NODE,...", (), group=SELECTION
    )
    parallel: int = option(
        "--parallel", "largest number of nodes that are away together (default: any)",
        whole_between(1), "N", 0, group=LIMITS,
    )  # fmt: skip
    local_node: str = option(
        "--local-node",
        "the node on which the command runs, which is left out (with -L or -m default: this host)",
        str, "NODE", "", group=SELECTION, rare=True,
    )  # fmt: skip
    work_time: float = option(
        "--work-time",
        "for estimates: time for which a group is away (default 600)",
        number_between(0, 604_800), "SECONDS", WORK_SECONDS, group=OUTPUT, rare=True,
    )  # fmt: skip


class Maintain(PlanForms, Execution, NodesAway, CampaignSettings):
    """The options of ``iallocator maintain``."""

    estimates_durations = True

    metrics: str = METRICS
    boot_timeout: float = BOOT
    until: float | None = option(
        "--until",
        "begin no group that would not end before this time (06:00, or RFC 3339); without -X: "
        "report which groups end before it, as estimated",
        moment, "TIME", group=EXECUTION,
    )  # fmt: skip

    def check(self, positional: Sequence[str]) -> None:
        """Reject commands without ``{node}``, and options that contradict each other."""
        commands = {
            "--run": self.run, "--check": self.check_command, "--boot-id": self.boot_id
        }  # fmt: skip
        for name, text in commands.items():
            if text and NODE_PLACE not in text:
                problem = f"expected {NODE_PLACE} in the command, for the name of a node"
                raise UsageError(f"{name}: {problem}")
        both = [name for name in self.only if name in self.skip]
        if both:
            raise UsageError(f"--only and --skip contradict each other: {', '.join(both)}")
        if self.no_reboot and "boot_id" in self.chosen:
            raise UsageError("--boot-id and --no-reboot exclude each other")
        if "boot_id" in self.chosen and not self.execute:
            raise UsageError("--boot-id needs -X: it is about the execution of a campaign")
        NodesAway.check(self, positional)
        super().check(positional)


Maintain.options = tuple(one for one in Maintain.options if one.target != "first_job_group")
"""All options except ``--first-job-group``, which has no meaning for a campaign."""
