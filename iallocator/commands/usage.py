"""Describe each command for its help, its man page and its page in the manual.

The names of files in the examples are those of ``docs/examples``. The manual runs the examples.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["USAGE", "Example", "Usage", "exit_statuses"]


class Example(NamedTuple):
    """A command line without the name of the program, and its purpose."""

    words: str
    purpose: str


class Usage(NamedTuple):
    """What a person has to know about a command besides its options.

    Attributes
    ----------
    description:
        Paragraphs, separated by empty lines.
    wrong:
        The meaning of exit status 1; "" if the command never exits with it.
    examples:
        Two command lines.
    unfinished:
        The meaning of exit status 3; "" if the command never exits with it.
    """

    description: str
    wrong: str
    examples: tuple[Example, Example]
    unfinished: str = ""


PLAN_FAILED = (
    "the plan, or the part of a group, breaks a limit and was cut or left out; with -X: something "
    "was not executed"
)
"""Exit status 1 of every planner."""

DONE = "done; a plan can be empty, and a request can be rejected: the output says so"

USAGE = {
    "ask": Usage(
        "Answers a question about any cluster as Ganeti would ask it, and explains the answer. "
        "Nothing is changed.\n\n"
        "The questions are: allocate an instance, evacuate nodes, relocate an instance, and move "
        "instances to other groups (change-group).",
        "",
        (
            Example(
                "ask allocate --memory 4G --disk 20G --template drbd --brief cluster.json",
                "Find nodes for a new drbd instance.",
            ),
            Example(
                "ask evacuate node5 --brief cluster.json",
                "Find new nodes for all instances of a node.",
            ),
        ),
    ),
    "balance": Usage(
        "Plans moves that repair violated hard constraints, and then lower the cluster score. The "
        "plan ends when no move lowers the score further, or at a limit.\n\n"
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
        "Plans moves between groups that share external storage, so that the groups are equally "
        "loaded. A tag iallocator:inter-group:no of the cluster forbids it.",
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
        "Computes how many more instances fit, with N+1 kept: instances of the standard size of "
        "the policy, and instances in tiers, the largest first.",
        "no online node accepts instances",
        (
            Example("capacity cluster.json", "Report what fits."),
            Example(
                "capacity --standard-alloc 40G,8G,2 cluster.json",
                "Report how many instances of another size fit.",
            ),
        ),
    ),
    "check": Usage(
        "Reports what is wrong with a cluster: failures of nodes that are not tolerated, violated "
        "constraints, instances on nodes that are not online, and instances outside the policy. "
        "If something is wrong, it also reports what balancing would repair.",
        "something is wrong with the cluster",
        (
            Example("check cluster.json", "Check a cluster."),
            Example(
                "check --offline node5 cluster.json",
                "Check what would be wrong without a node.",
            ),
        ),
        unfinished="nothing wrong was found, but the time limit ended the check before all "
        "failures were analysed",
    ),
    "compress": Usage(
        "Finds whole groups that can be emptied, and plans the moves that empty the group that "
        "gives back the most free capacity.",
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
        "Shows the effective settings, and the origin of each: the command line, the request, "
        "tags, the configuration file, or the default. It also checks the whole configuration "
        "file.",
        "",
        (
            Example("config --n1 strict cluster.json", "Show the effective settings."),
            Example(
                "config --strategy pacemaker-balanced request.json",
                "Show the settings that a request has with an option.",
            ),
        ),
    ),
    "constraints": Usage(
        "Lists everything that restricts where instances can run, with its strength and origin.",
        "",
        (
            Example("constraints cluster.json", "List all constraints."),
            Example("constraints -t racks.data", "List the constraints of a text file."),
        ),
    ),
    "explain": Usage(
        "Answers a request, and explains the answer: the statistics that decided, and for every "
        "rejected node the resource that is short, and by how much.",
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
        "Lists the calls of Ganeti that --capture stored in a folder.",
        "",
        (
            Example("history calls", "List all captured calls."),
            Example("history --outcome failed calls", "List the calls that were rejected."),
        ),
    ),
    "make-room": Usage(
        "Plans the smallest number of moves of other instances after which a rejected request "
        "can be satisfied.",
        "no such moves were found, or the plan breaks a limit",
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
    "place": Usage(
        "Places all instances of a cluster again by a strategy of Pacemaker, and plans the moves.",
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
        "Groups the nodes that can be rebooted at the same time, and plans the moves away from "
        "them and back.",
        "a node is in no group, or its reboot breaks a limit; stderr says which",
        (
            Example("reboot --master b3 -t racks.data", "Group the nodes as hroller does."),
            Example(
                "reboot --master b3 --print-commands -t racks.data",
                "Print the commands of the reboots, with the moves away and back.",
            ),
        ),
    ),
    "redistribute": Usage(
        "Plans moves of instances out of groups with offline nodes, or with nodes that fail N+1, "
        "so that every group is healthy.",
        PLAN_FAILED,
        (
            Example(
                "redistribute --offline a1 -t racks.data",
                "Plan moves to other groups after a node failed.",
            ),
            Example(
                "redistribute --offline a1 --print-commands -t racks.data",
                "Print their commands.",
            ),
        ),
    ),
    "repair": Usage(
        "Repairs instances with offline nodes, as far as their tags, or --allow, allow it. "
        "It stores the state of each repair in tags, and continues from there at the next run.",
        "an administrator has to repair an instance: a repair failed, is not allowed, or is "
        "impossible",
        (
            Example("repair dead.json", "Show what is broken, and what would repair it."),
            Example(
                "repair --allow failover dead.json",
                "Show what would be repaired if failovers are allowed.",
            ),
        ),
    ),
    "replay": Usage(
        "Runs stored requests and commands again, and compares the answers with the stored ones.",
        "an answer differs from the stored answer, or there is none",
        (
            Example("replay calls", "Answer all captured calls again."),
            Example("replay calls#1", "Answer one captured call again."),
        ),
    ),
    "report": Usage(
        "Writes the state of a cluster as a page for a browser.",
        "",
        (
            Example("report --html page.html cluster.json", "Write a page."),
            Example("report --html page.html --offline node5 cluster.json",
                    "Write a page of the cluster without a node."),
        ),
    ),
    "show": Usage(
        "Shows a cluster: groups, networks, statistics of the score, nodes and instances.",
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
        "Writes clusters as files that every planner, and htools, can read.",
        "",
        (
            Example("snapshot cluster.json", "Write a cluster in the text format of htools."),
            Example(
                "snapshot --form json -t racks.data",
                "Convert a text file to a JSON document.",
            ),
        ),
    ),
    "squeeze": Usage(
        "Plans which nodes can be emptied and powered down, or which standby nodes to power on.",
        PLAN_FAILED,
        (
            Example(
                "squeeze --master a1 -t racks.data",
                "Find the nodes that can be powered down.",
            ),
            Example(
                "squeeze --master a1 --print-commands -t racks.data",
                "Print the commands that empty them and power them down.",
            ),
        ),
    ),
}  # fmt: skip
"""Command -> its description."""


def exit_statuses(command: str) -> dict[str, str]:
    """Return the meaning of each exit status of `command`, in the order of the statuses."""
    usage = USAGE[command]
    meanings = {
        "0": DONE,
        "1": usage.wrong,
        "2": "the command line or the input is not valid; stderr says what is wrong",
        "3": usage.unfinished,
        "130, 143": "interrupted by SIGINT or SIGTERM; the results until then are printed",
    }
    return {status: meaning for status, meaning in meanings.items() if meaning}
