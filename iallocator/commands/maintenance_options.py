"""The options of ``iallocator maintain``."""

from __future__ import annotations

from iallocator.commands.planner_options import NodesAway
from iallocator.commands.shared_options import PlanForms
from iallocator.errors import UsageError
from iallocator.options.table import LIMITS, OUTPUT, SELECTION, option
from iallocator.options.values import Choice, name_list, number_between, whole_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Maintain"]

PLACE = "{node}"
"""This part of a command stands for the name of a node."""


class Maintain(PlanForms, NodesAway):
    """The options of ``iallocator maintain``."""

    estimates_durations = True
    execute = False
    dry_run = False

    run: str = option(
        "--run",
        "command of a shell that maintains a node; {node} is its name (default: a person does it)",
        str, "COMMAND", "", group=SELECTION,
    )  # fmt: skip
    check_command: str = option(
        "--check",
        "command that checks a node before it takes instances again; {node} is its name",
        str, "COMMAND", "", group=SELECTION,
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
        number_between(0, 604_800), "SECONDS", 600.0, group=OUTPUT, rare=True,
    )  # fmt: skip

    def check(self, positional: Sequence[str]) -> None:
        """Reject commands without a place for the node, and lists that contradict each other."""
        for name, text in (("--run", self.run), ("--check", self.check_command)):
            if text and PLACE not in text:
                raise UsageError(f"{name}: expected {PLACE} in the command, for the name of a node")
        both = [name for name in self.only if name in self.skip]
        if both:
            raise UsageError(f"--only and --skip contradict each other: {', '.join(both)}")
        NodesAway.check(self, positional)
        super().check(positional)
