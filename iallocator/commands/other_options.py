"""Define the options of the commands that ask, show and operate.

The class with the options of a command has the name of the command. `iallocator.commands.usage` has
the texts of the manual pages, with the exit statuses.
"""

from __future__ import annotations

from iallocator.calls.layout import OUTCOMES
from iallocator.commands.shared_options import (
    ALL,
    BANDWIDTH,
    GROUP,
    HTML,
    OFFLINE,
    Execution,
    json_of,
)
from iallocator.errors import UsageError, cut
from iallocator.model.constraints import CONSTRAINT_KINDS, MUST, SHOULD
from iallocator.model.tags import REPAIR_TYPES
from iallocator.model.templates import TEMPLATES
from iallocator.names import guesses
from iallocator.options.table import (
    CLUSTER,
    EXECUTION,
    LIMITS,
    OUTPUT,
    SELECTION,
    CommandSettings,
    option,
)  # fmt: skip
from iallocator.options.values import (
    Choice,
    Several,
    Size,
    amount,
    file_name,
    name_list,
    whole_between,
)
from iallocator.requests.existing import EVAC_MODES, Request
from iallocator.written_files import check_writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Ask", "Config", "Constraints", "Explain", "History", "Question", "Repair", "Replay", "Report",
    "Show", "Snapshot", "words_of_question",
]  # fmt: skip

QUESTIONS = ("allocate", "evacuate", "relocate", "change-group")

of_instance = Size("m", "512M, 4G or 1T", highest=2**50)
"""Reader of a size in MiB. Its maximum keeps the sum of many disks exact as a float."""

MOST_REQUESTED_INSTANCES = 10_000
"""The most new instances in one question."""


class Question(CommandSettings):
    """The options of a question: what new instances require, or which instances must move."""

    name: str = option(
        "--name",
        "allocate: name of the new instance (default new)",
        str,
        "NAME",
        "",
        group=SELECTION,
    )
    memory: int | None = option(
        "--memory", "allocate: memory of the instance", of_instance, "SIZE", group=SELECTION
    )
    vcpus: int = option(
        "--vcpus",
        "allocate: number of virtual cpus (default 1)",
        whole_between(1, 4096),
        "N",
        1,
        group=SELECTION,
    )
    disk: Sequence[int] = option(
        "--disk",
        "allocate: size of a disk; may repeat",
        of_instance,
        "SIZE",
        repeats=True,
        group=SELECTION,
    )
    disk_template: str = option(
        "--disk-template --template",
        "allocate: disk template",
        Choice(*TEMPLATES),
        "NAME",
        "",
        group=SELECTION,
    )
    spindle_use: int = option(
        "--spindle-use", "allocate: number of spindles (default 1)", whole_between(0, 4096),
        "N", 1, group=SELECTION, rare=True,
    )  # fmt: skip
    instance_tags: Sequence[str] = option(
        "--instance-tags",
        "allocate: tags of the instance",
        name_list,
        "TAG,...",
        (),
        group=SELECTION,
    )
    network: Sequence[str] = option(
        "--network",
        "allocate: uuid of the network of a nic; may repeat",
        str,
        "UUID",
        repeats=True,
        group=SELECTION,
        rare=True,
    )
    group: str = GROUP
    count: int = option(
        "--count",
        "allocate: number of instances",
        whole_between(1, MOST_REQUESTED_INSTANCES),
        "N",
        1,
        group=SELECTION,
    )
    mode: str = option(
        "--mode", "evacuate: primary-only, secondary-only or all (default)", Choice(*EVAC_MODES),
        "MODE", "", group=SELECTION,
    )  # fmt: skip
    to: Sequence[str] = option(
        "--to",
        "change-group: use one of these groups (name or uuid)",
        name_list,
        "GROUP,...",
        (),
        group=SELECTION,
    )


def words_of_question(positional: Sequence[str]) -> tuple[str, list[str], Sequence[str]]:
    """Return the kind of the question, the names in it, and the remaining words, which are files.

    Raises
    ------
    UsageError
        If the question is not complete.
    """
    kind = positional[0] if positional else ""
    if kind not in QUESTIONS:
        got = f", got {cut(kind)!r}{guesses(kind, QUESTIONS)}" if kind else ""
        raise UsageError(f"ask one of {', '.join(QUESTIONS)}{got}")
    if kind == "allocate":
        return kind, [], positional[1:]
    if len(positional) < 2:
        what = "nodes" if kind == "evacuate" else "instances"
        raise UsageError(f"ask {kind} needs the names of {what}")
    return kind, name_list(positional[1]) if positional[1] else [], positional[2:]


class Explain(CommandSettings):
    """The options of ``iallocator explain``."""

    usage = "[OPTIONS] [FILE|FOLDER#CALL]"

    json: int = json_of("the explanation")
    all_rows: bool = ALL
    brief: bool = option("--brief", "print only the decision, or the nearest node", group=OUTPUT)
    instance: str | None = option(
        "--instance", "print only the decision about this instance", str, "NAME", group=SELECTION
    )
    node: str | None = option(
        "--node", "print only the reasons for this node", str, "NAME", group=SELECTION
    )
    graph: str | None = option(
        "--graph",
        "draw the steps of moves and their dependencies: FILE.svg as SVG, otherwise DOT",
        str,
        "FILE",
        group=OUTPUT,
    )
    html: str | None = option(
        "--html", "write a page for a browser; not a folder of pages", str, "FILE", group=OUTPUT
    )
    bandwidth: float = BANDWIDTH
    group: str = GROUP
    offline: Sequence[str] = OFFLINE

    def check(self, positional: Sequence[str]) -> None:
        """Reject ``--brief`` together with ``--node``."""
        if self.brief and self.node is not None:
            raise UsageError("--brief and --node exclude each other")


class Ask(Question, Explain):
    """The options of ``iallocator ask``."""

    usage = (
        "allocate|evacuate NODE,...|relocate INSTANCE|change-group INSTANCE,... "
        "[OPTIONS] [FILE|-t FILE|-L|-m ADDRESS]"
    )

    def check(self, positional: Sequence[str]) -> None:
        """Raise UsageError if the words of the command line are no valid request."""
        words_of_question(positional)
        super().check(positional)

    @staticmethod
    def files_of(positional: Sequence[str]) -> Sequence[str]:
        """Return those of the words that are names of files; the other words are the question."""
        return words_of_question(positional)[2]


class Config(CommandSettings):
    """The options of ``iallocator show --settings``."""

    json: int = json_of("the settings")
    group: str = GROUP
    all_rows: bool = ALL


class Constraints(CommandSettings):
    """The options of ``iallocator show --rules``."""

    json: int = json_of("the constraints")
    instance: str = option(
        "--instance", "only the constraints of this instance", str, "NAME", "", group=SELECTION
    )
    strength: str = option(
        "--strength", "only hard (must) or soft (should) constraints",
        Choice(MUST, SHOULD), "must|should",
        "", group=SELECTION,
    )  # fmt: skip
    all_rows: bool = option(
        "--all",
        "print all rows, also the constraints that every instance has: its size, different nodes "
        "for primary and secondary",
        group=SELECTION,
    )
    kind: str = option(
        "--kind",
        "only constraints of this kind",
        Choice(*CONSTRAINT_KINDS),
        "|".join(CONSTRAINT_KINDS),
        "",
        group=SELECTION,
    )
    group: str = GROUP
    offline: Sequence[str] = OFFLINE


class History(CommandSettings):
    """The options of ``iallocator history``."""

    usage = "[OPTIONS] FOLDER"

    json: int = json_of("the calls or moves")
    all_rows: bool = ALL
    type: str = option(
        "--type",
        "only requests of this type",
        Choice(*(one.kind for one in Request.__args__)),
        "TYPE",
        "",
        group=SELECTION,
    )
    outcome: str = option(
        "--outcome", "only calls with this outcome: " + ", ".join(OUTCOMES), Choice(*OUTCOMES),
        "OUTCOME", "", group=SELECTION,
    )  # fmt: skip
    text: str = option(
        "--text",
        "only calls with this text in the request or the answer, or moves with it in a name",
        str,
        "TEXT",
        "",
        group=SELECTION,
    )
    days: float | None = option(
        "--days", "only calls or moves that are at most this old", amount, "DAYS", group=SELECTION
    )
    last: int | None = option(
        "--last", "only the last N calls or moves", whole_between(1), "N", group=SELECTION
    )

    def check(self, positional: Sequence[str]) -> None:
        """Reject a command line that does not name exactly one folder."""
        if len(positional) != 1:
            raise UsageError("history needs one folder, of captured calls or of loads")


class RepairForms(CommandSettings):
    """The options for the forms in which repairs are shown."""

    json: int = json_of("the plan")
    all_rows: bool = ALL
    html: str | None = HTML
    bandwidth: float = BANDWIDTH


class Repair(RepairForms, Execution):
    """The options of ``iallocator repair``."""

    allow: str = option(
        "--allow",
        "allow repairs up to this type once, whatever the tags say: "
        "fix-storage, migrate, failover or reinstall", Choice(*REPAIR_TYPES), "TYPE", "",
        group=LIMITS,
    )  # fmt: skip
    job_delay: float = option(
        "--job-delay", "delay each repair by this time, while its tag is written",
        amount, "SECONDS",
        0.0, group=EXECUTION, rare=True,
    )  # fmt: skip

    group: str = GROUP
    offline: Sequence[str] = OFFLINE

    def check(self, positional: Sequence[str]) -> None:
        """Reject options that have no effect, and ``-X`` for nodes that are not marked offline."""
        super().check(positional)
        if self.offline and self.execute and not self.dry_run:
            raise UsageError(
                "--offline assumes that a node has failed; -X repairs only instances of "
                "nodes that are marked offline in Ganeti"
            )


MEMBERS = (
    "success", "info", "result", "solutions", "command", "scores", "moves", "job_sets", "action",
    "nodes", "tags",
)  # fmt: skip
"""Members of responses and plans that can be compared; ``error`` is always compared."""


class Replay(CommandSettings):
    """The options of ``iallocator replay``."""

    usage = "[OPTIONS] PATH..."

    update: bool = option("--update", "store the answers, and report the changes", group=OUTPUT)
    keys: list[str] | None = option(
        "--keys",
        "compare only these members of the responses",
        Several(*MEMBERS),
        "KEY,...",
        group=SELECTION,
    )
    jobs: int = option(
        "--jobs -j", "use N processes (default 1)", whole_between(1, 1024), "N", 1, group=EXECUTION
    )
    junit: str = option(
        "--junit", "write the outcomes to FILE as JUnit XML", str, "FILE", "", group=OUTPUT
    )

    def check(self, positional: Sequence[str]) -> None:
        """Reject a command line without cases, and ``--keys`` with ``--update``."""
        if not positional:
            raise UsageError("replay needs requests or commands: files, or folders that hold them")
        if self.update and self.keys:
            raise UsageError("--update stores whole responses, --keys is for comparing only")
        check_writable(self.junit)


class Report(CommandSettings):
    """The options of ``iallocator report``, which writes only the page of ``show --html``."""

    html: str = option(
        "--html",
        "write the page to this file (default: stdout), or linked pages into FOLDER/",
        str,
        "FILE",
        "-",
        group=OUTPUT,
    )
    group: str = GROUP
    offline: Sequence[str] = OFFLINE


OF_PAGE = {
    "n1": "--n1", "no_capacity_checks": "--no-capacity-checks", "time_limit": "--time-limit",
    "tag_prefix": "--tag-prefix",
}  # fmt: skip
"""Attributes of the settings that change only the page of a cluster -> their options."""


class Show(CommandSettings):
    """The options of ``iallocator show``."""

    settings: bool = option(
        "--settings",
        "show the effective settings instead; show --settings --help has its options",
        group=OUTPUT,
    )
    rules: bool = option(
        "--rules",
        "list the constraints instead; show --rules --help has its options",
        group=OUTPUT,
    )
    json: int = json_of("everything")
    html: str | None = option(
        "--html", "write a page for a browser, too", str, "FILE", group=OUTPUT
    )
    group: str = GROUP
    all_rows: bool = ALL
    offline: Sequence[str] = OFFLINE

    def check(self, positional: Sequence[str]) -> None:
        """Reject options that change only the page if no page is written."""
        if self.html is None and (idle := sorted(self.chosen & OF_PAGE.keys())):
            raise UsageError(f"{OF_PAGE[idle[0]]} needs --html FILE: it changes only the page")


class Snapshot(CommandSettings):
    """The options of ``iallocator snapshot``."""

    usage = "[OPTIONS] [FILE|-t FILE|-L|-m ADDRESS...]"

    addresses: Sequence[str] = option(
        "--rapi --master -m",
        "read the running cluster at HOST[:PORT], or stored answers: file://FOLDER; may repeat",
        file_name,
        "ADDRESS", repeats=True, group=CLUSTER,
    )  # fmt: skip
    output_dir: str = option(
        "--output-dir -d",
        "write NAME.data or NAME.json into this folder, and print a line about each cluster",
        file_name, "FOLDER", "", group=OUTPUT,
    )  # fmt: skip
    form: str = option(
        "--form", "text: the format of htools (default); json: a captured document",
        Choice("text", "json"), "FORM", "text", group=OUTPUT,
    )  # fmt: skip
    request: str = option(
        "--request", "write a request with this question: 'allocate --memory 4G ...', as for ask",
        str, "WORDS", "", group=SELECTION,
    )  # fmt: skip
    no_headers: bool = option(
        "--no-headers", "print no titles above the lines about clusters", group=OUTPUT, rare=True
    )
    offline: Sequence[str] = OFFLINE

    def check(self, positional: Sequence[str]) -> None:
        """Check that a request is written as JSON, and that several clusters are written to a
        folder.

        Raises UsageError, and sets the form to JSON if none is chosen.
        """
        if self.request:
            if "form" in self.chosen and self.form != "json":
                raise UsageError(
                    "a text file cannot contain a request: --request needs --form json"
                )
            self.form = "json"
        if not self.output_dir and len(self.addresses) > 1:
            raise UsageError("several clusters need --output-dir FOLDER")
