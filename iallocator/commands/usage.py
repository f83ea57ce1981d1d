"""Describe each command for its page in the manual, from which its man page is made.

A page begins with the summary in the table of commands; the details here follow it. The files in
the examples are those of ``docs/examples``. The manual runs the examples.
"""

from __future__ import annotations

from iallocator.commands import COMMANDS, OLD_NAMES, PLANS, UNMEASURED, options_of
from iallocator.options.table import COMMON, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["USAGE", "Example", "Usage", "description", "exit_statuses"]


class Example:
    """An example: a command line without the name of the program, and its purpose."""

    __slots__ = ("purpose", "words")

    def __init__(self, words: str, purpose: str) -> None:
        self.words = words
        self.purpose = purpose


class Usage:
    """The help of a command, without its summary and its options.

    Attributes
    ----------
    details:
        Facts that the summary leaves out: paragraphs, separated by empty lines; "" for none.
    wrong:
        The meaning of exit status 1, beside the causes in `exit_statuses`; "" for no other cause.
    examples:
        Two command lines.
    unfinished:
        The meaning of exit status 3; "" if the command never exits with it.
    """

    __slots__ = ("details", "examples", "unfinished", "wrong")

    def __init__(
        self, details: str, wrong: str, examples: tuple[Example, Example], unfinished: str = ""
    ) -> None:
        self.details = details
        self.wrong = wrong
        self.examples = examples
        self.unfinished = unfinished


PLAN_FAILED = "The plan, or a part of it, failed its check and was left out."
"""Exit status 1 of most planners."""

PLAN_CUT = "The time limit ended the search: the plan is valid, but can be shorter."
"""Exit status 3 of the commands that plan moves."""

USAGE = {
    "ask": Usage(
        "The questions are those of Ganeti: allocate an instance, evacuate nodes, relocate an "
        "instance, and move instances to other groups (change-group).",
        "",
        (
            Example(
                "ask allocate --memory 4G --disk 20G --disk-template drbd --brief cluster.json",
                "Find nodes for a new drbd instance.",
            ),
            Example(
                "ask evacuate node5 --brief cluster.json",
                "Find new nodes for all instances of a node.",
            ),
        ),
    ),
    "balance": Usage(
        "The plan repairs violated hard constraints first. Then it lowers the cluster score, until "
        "no move lowers the score further, or a limit is reached.\n\n"
        "Without -G, the group with the worst score is balanced. Every plan is checked against "
        "all limits before it is printed.",
        PLAN_FAILED,
        (
            Example(
                "balance --max-length 2 cluster.json",
                "Plan the two most useful moves.",
            ),
            Example(
                "balance --no-disk-moves --print-commands cluster.json",
                "Print the commands of a plan that copies no disks.",
            ),
        ),
    ),
    "balance-groups": Usage(
        "A tag iallocator:inter-group:no of the cluster forbids it.",
        PLAN_FAILED,
        (
            Example(
                "balance-groups --max-length 3 -t racks.data",
                "Plan the three most useful moves between groups.",
            ),
            Example(
                "balance-groups --cost 20 --print-commands -t racks.data",
                "Print the commands of a plan that copies at most 20 GiB.",
            ),
        ),
    ),
    "capacity": Usage(
        "The instances have the standard size of the policy, or the sizes of tiers, the largest "
        "first.",
        "There are no online nodes for the instances.",
        (
            Example("capacity cluster.json", "Report what fits."),
            Example(
                "capacity --add-nodes 2:800g,24g,16 --add-nodes 1:800g,64g,32 cluster.json",
                "Report which purchase of nodes adds more capacity.",
            ),
        ),
        unfinished="The time limit ended the search for further instances.",
    ),
    "check": Usage(
        "It reports failures of nodes that are not tolerated, violated constraints, instances on "
        "nodes that are not online, and instances outside the policy. If something is wrong, it "
        "also reports what balancing would repair.",
        "Something is wrong with the cluster. With --nagios: something is wrong, but no instance "
        "is down (WARNING).",
        (
            Example("check cluster.json", "Check a cluster."),
            Example(
                "check --offline node5 cluster.json",
                "Check what would be wrong without a node.",
            ),
        ),
        unfinished="Nothing wrong was found, but the time limit ended the check before all "
        "failures were analysed. With --nagios: also if the cluster cannot be read (UNKNOWN).",
    ),
    "compress": Usage(
        "The plan empties the group that frees the most capacity.",
        PLAN_FAILED,
        (
            Example("compress -t racks.data", "Find a group that can be emptied."),
            Example(
                "compress --print-commands -t racks.data",
                "Print the commands that empty it.",
            ),
        ),
    ),
    "config": Usage(
        "The origin is the command line, the request, tags, the configuration file, or the "
        "default. The command also checks the whole configuration file.",
        "",
        (
            Example("show --settings --n1 strict cluster.json", "Show the effective settings."),
            Example(
                "show --settings --strategy pacemaker-balanced request.json",
                "Show the settings that a request has with an option.",
            ),
        ),
    ),
    "constraints": Usage(
        "The list has everything that restricts where instances can run, with its strength.",
        "",
        (
            Example("show --rules cluster.json", "List all constraints."),
            Example("show --rules -t racks.data", "List the constraints of a text file."),
        ),
    ),
    "explain": Usage(
        "The explanation has the statistics that decided, and for every rejected node the resource "
        "that is short, and by how much.",
        "",
        (
            Example("explain --brief request.json", "Show the decision."),
            Example(
                "explain --node node2 request.json",
                "Show why an instance was not placed on a node.",
            ),
        ),
    ),
    "history": Usage(
        "",
        "",
        (
            Example("history calls", "List all captured calls."),
            Example("history --outcome failed calls", "List the calls that were rejected."),
        ),
    ),
    "make-room": Usage(
        "The plan has the smallest number of moves after which a rejected request can be "
        "satisfied.",
        f"No moves were found after which the request fits. {PLAN_FAILED}",
        (
            Example(
                "make-room full.json",
                "Plan the moves that free the capacity for a request.",
            ),
            Example(
                "make-room --print-commands full.json",
                "Print the commands of the moves.",
            ),
        ),
    ),
    "maintain": Usage(
        "Nodes that can be away together form a group, as in reboot. The nodes of a group are "
        "drained and emptied, maintained and rebooted, checked, and undrained. Then its instances "
        "return, stay, or are balanced (--after). N+1 holds throughout. The output is the whole "
        "campaign. With -X, each group is planned again from the cluster as it is, and executed. "
        "The state file (--journal) names the nodes that are done; --resume goes on from it, and "
        "without -X reports it.",
        f"A node is left out. {PLAN_FAILED}",
        (
            Example(
                "maintain --master-node b3 -t racks.data",
                "Show the campaign for all nodes, which are maintained by hand.",
            ),
            Example(
                "maintain --master-node b3 --only b1,b2 --run 'ssh {node} reboot' -t racks.data",
                "Two nodes, with a command for each.",
            ),
        ),
    ),
    "metrics": Usage(
        "The output is OpenMetrics text for the textfile collector of Prometheus' node exporter. "
        "Requests are counted from the file of --log, or from the folder of --capture. Every "
        "group is filled with instances of the standard size, unless --no-capacity is given.",
        "",
        (
            Example("metrics --no-capacity cluster.json", "Write the health of a cluster."),
            Example(
                "metrics --metrics /tmp/ganeti.prom cluster.json",
                "Write the health and the free capacity into a file.",
            ),
        ),
        unfinished="The time limit ended the analysis of failures, or the count of instances.",
    ),
    "place": Usage(
        "The plan moves each instance to the node that the strategy chooses.",
        PLAN_FAILED,
        (
            Example(
                "place --strategy pacemaker-balanced -t racks.data",
                "Distribute all instances by free capacity.",
            ),
            Example(
                "place --strategy pacemaker-default --print-commands -t racks.data",
                "Print the commands of the moves.",
            ),
        ),
    ),
    "reboot": Usage(
        "The nodes of one group can be rebooted at the same time. With --no-headers, the groups "
        "are written as hroller writes them: one line per group.",
        f"A node is in no group. {PLAN_FAILED}",
        (
            Example("reboot --master-node b3 -t racks.data", "Group the nodes as hroller does."),
            Example(
                "reboot --master-node b3 --print-commands -t racks.data",
                "Print the commands of the reboots, with the moves away and back.",
            ),
        ),
    ),
    "redistribute": Usage(
        "Instances leave groups with offline nodes, or with nodes that fail N+1.",
        PLAN_FAILED,
        (
            Example(
                "redistribute --offline a1 -t racks.data",
                "Plan moves to other groups after a node failed.",
            ),
            Example(
                "redistribute --offline a1 --print-commands -t racks.data",
                "Print the commands of these moves.",
            ),
        ),
    ),
    "repair": Usage(
        "The option --allow allows more than the tags. Run the command regularly, as harep: it "
        "stores the state of each repair in tags, and continues from there at the next run. With "
        "-X it executes the repairs with a journal, and waits for them.",
        "An administrator has to repair an instance: a repair failed, is not allowed, or is "
        "impossible.",
        (
            Example("repair dead.json", "Show what is broken, and what would repair it."),
            Example(
                "repair --allow failover dead.json",
                "Show what would be repaired if failovers are allowed.",
            ),
        ),
    ),
    "replay": Usage(
        "The requests and commands are those of stored cases, or of captured calls.",
        "An answer differs from the stored answer, or there is none.",
        (
            Example("replay calls", "Answer all captured calls again."),
            Example("replay calls#1", "Answer one captured call again."),
        ),
    ),
    "report": Usage(
        "By default, the page is written to standard output.",
        "",
        (
            Example("report --html page.html cluster.json", "Write a page."),
            Example("report --html page.html --offline node5 cluster.json",
                    "Write a page of the cluster without a node."),
        ),
    ),
    "rescue": Usage(
        "NODE is fenced by its out-of-band program, or by hand, and marked offline. Its "
        "instances fail over by priority (tag iallocator:priority:N), and then get new "
        "secondaries. On a running cluster, the command first verifies that the node is dead: its "
        "node daemon and its addresses must not answer. In a file, the node is taken as dead. With "
        "--return, the node returns to service. With --watch, for a timer, the command finds the "
        "node itself: in groups with the tag iallocator:rescue:auto, after several calls in which "
        "the node did not answer, and only if at most --most-nodes nodes are away.",
        "The node is not dead, or is the master node. An instance cannot be saved, or has no new "
        f"secondary. {PLAN_FAILED}",
        (
            Example("rescue node4 cluster.json", "Show what would be done for a dead node."),
            Example(
                "rescue a1 --print-commands -t racks.data",
                "Print the commands of a rescue.",
            ),
        ),
    ),
    "show": Usage(
        "The statistics are those of the score. With --html, the state of the cluster is also "
        "written as a page. Two forms have options of their own: show --settings lists the "
        "effective settings, and show --rules lists the constraints on placements.",
        "",
        (
            Example("show cluster.json", "Show groups and statistics."),
            Example(
                "show --print-nodes=name,pcnt,scnt cluster.json",
                "Show also the number of instances on each node.",
            ),
        ),
    ),
    "snapshot": Usage(
        "If some of several clusters cannot be read, the others are written.",
        "Some of several clusters cannot be read.",
        (
            Example("snapshot cluster.json", "Write a cluster in the text format of htools."),
            Example(
                "snapshot --form json -t racks.data",
                "Convert a text file to a JSON document.",
            ),
        ),
    ),
    "squeeze": Usage(
        "A node is emptied before it is powered down.",
        PLAN_FAILED,
        (
            Example(
                "squeeze --master-node a1 -t racks.data",
                "Find the nodes that can be powered down.",
            ),
            Example(
                "squeeze --master-node a1 --print-commands -t racks.data",
                "Print the commands that empty them and power them down.",
            ),
        ),
    ),
}  # fmt: skip
"""Command -> its description."""


def description(command: str) -> str:
    """Return the description of `command`: paragraphs, separated by empty lines."""
    summary, form = COMMANDS[command].summary, OLD_NAMES.get(command)
    old = f"The command {command} is an old name for {form}.\n\n" if form else ""
    return f"{summary[0].upper()}{summary[1:]}.\n\n{old}{USAGE[command].details}".strip()


def exit_statuses(command: str) -> dict[str, str]:
    """Return exit status -> meaning, of `command`; "" is the program without a command."""
    wrong, unfinished, measured = "", "", True
    table: Sequence[Option] = COMMON
    if command:
        wrong, unfinished = USAGE[command].wrong, USAGE[command].unfinished
        if COMMANDS[command].document in PLANS:
            unfinished = PLAN_CUT
        table = options_of(command)
        measured = UNMEASURED not in COMMANDS[command].traits
    targets = {option.target for option in table}
    causes = [wrong] if wrong else []
    if "execute" in targets:
        causes.append("With -X: something was not executed.")
    if "undo" in targets:
        causes.append("With --undo: an instance stays where it is.")
    if measured and "exit_on_missing_mond_data" in targets:
        causes.append("With --exit-on-missing-mond-data: the report of a daemon is missing.")
    meanings = {
        "0": "Done. A plan can be empty, and a request can be rejected: the output says so.",
        "1": " ".join([*causes, "Standard output cannot be written."]),
        "2": "The command line or the input is not valid, or the cluster cannot be read; "
        "stderr says what is wrong."
        + " With --nagios: instances are down (CRITICAL)."
        * ("nagios" in targets),
        "3": unfinished,
        "130, 143": "Interrupted by SIGINT or SIGTERM; the results until then are printed.",
    }
    return {status: meaning for status, meaning in meanings.items() if meaning}
