"""The command lines of htools: the table of options, and a parser with the rules of GNU getopt.

Options and other words may be mixed; ``--`` ends the options. Short options can be bundled
(``-vvp``), and the value of an option can be attached (``-tFILE``, ``--text-data=FILE``). Long
options can be abbreviated as far as they are unambiguous. Values that are optional must be
attached.

The messages and the output of ``--help-completion`` are those of htools, because scripts and
completions of shells read them. The help texts are different.
"""

from __future__ import annotations

from iallocator.compat.htools.errors import OptionError, OptionValueError
from iallocator.model.templates import TEMPLATES, in_htools_order
from iallocator.sources.simulate import parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

__all__ = [
    "ARGUMENTS", "INTEGER", "NUMBER_FORM", "OPTIONS", "Usage", "help_of", "number", "parse", "size",
]  # fmt: skip

NO_VALUE, VALUE_REQUIRED, VALUE_OPTIONAL = range(3)
"""Values of `Usage.form`: an option has no value, must have one, or may have one."""


class Usage:
    """One option of the programs.

    Attributes
    ----------
    short, name:
        The letter of the short option ("" if there is none), and the long option without dashes.
    form:
        `NO_VALUE`, `VALUE_REQUIRED` or `VALUE_OPTIONAL`.
    value:
        The name of the value in the help.
    text:
        The help text.
    completion:
        The kind of completion of the value, as ``--help-completion`` reports it.
    read:
        Function that converts the text of the value; it raises `OptionValueError`.
    repeats:
        Whether the option may be repeated: its values are a list, the last one first.
    """

    __slots__ = ("completion", "form", "name", "read", "repeats", "short", "text", "value")

    def __init__(
        self,
        names: str,
        text: str,
        value: str = "",
        read: Callable[[str], Any] = str,
        completion: str = "none",
        repeats: bool = False,
    ) -> None:
        short, _, name = names.rpartition(" ")
        self.short = short.removeprefix("-")
        self.name = name.removeprefix("--")
        self.form = (
            VALUE_OPTIONAL if value.startswith("[") else VALUE_REQUIRED if value else NO_VALUE
        )
        self.value = value.strip("[]")
        self.text = text
        self.read = read
        self.completion = completion
        self.repeats = repeats

    @property
    def target(self) -> str:
        """Return the name of the option in the parsed values."""
        return self.name.replace("-", "_")

    def columns(self) -> tuple[str, str]:
        """Return the short and the long form for the help."""
        value = self.value
        forms = {
            NO_VALUE: ("", ""),
            VALUE_REQUIRED: (f" {value}", f"={value}"),
            VALUE_OPTIONAL: (f"[{value}]", f"[={value}]"),
        }
        short, long = forms[self.form]
        return f"-{self.short}{short}" if self.short else "", f"--{self.name}{long}"


BASES = r"0[xX][0-9a-fA-F]+|0[oO][0-7]+"
INTEGER = rf"\s*(-?\s*(?:{BASES}|[0-9]+))(.*)"
NUMBER_FORM = rf"\s*(-?\s*(?:{BASES}|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|NaN|Infinity))(.*)"
"""A pattern for a number, as htools read it, and for the characters after it."""


def number(what: str, form: str = NUMBER_FORM) -> Callable[[str], float]:
    """Return a function that reads a number; `what` names it in messages."""

    def read(text: str) -> float:
        if text.isascii() and text.isdecimal():
            return int(text) if form is INTEGER else float(text)
        import re

        match = re.match(form, text, re.DOTALL)
        after = match[2] if match else ""
        # The dot or the exponent of a decimal number is no end of an integer
        if match is None or (form is INTEGER and re.match(r"(\.[0-9]+|[eE][-+]?[0-9]+)", after)):
            raise OptionValueError(f"{what}: cannot parse string '{text}'")
        if re.match(r"[A-Za-z]", after):
            raise OptionValueError(f"{what}: leftover characters when parsing '{text}': '{after}'")
        if after:
            raise OptionValueError(f"{what}: leftover characters when parsing '{text}': '{after}'")
        value = match[1].replace(" ", "")
        if re.match("-?0[xXoO]", value):
            return int(value, 0)
        return int(value) if form is INTEGER else float(value.replace("Infinity", "inf"))

    return read


def max_cpu(text: str) -> float:
    """Parse the largest ratio of virtual cpus to cpus."""
    ratio = number("parsing max-cpu")(text)
    if ratio <= 0:
        raise OptionValueError("Invalid value of the max-cpu ratio, expected >0")
    return ratio


def spindle_use(text: str) -> int:
    """Parse a number of spindles."""
    count = int(number("parsing spindle-use", INTEGER)(text))
    if count < 0:
        raise OptionValueError("Invalid value of the spindle-use (expected >= 0)")
    return count


def yes_or_no(text: str) -> bool:
    """Parse ``yes`` or ``no``."""
    if text not in ("yes", "no"):
        raise OptionValueError(f"Invalid choice '{text}', pass one of 'yes' or 'no'")
    return text == "yes"


def priority(text: str) -> str:
    """Parse the priority of jobs."""
    if text not in ("low", "normal", "high"):
        raise OptionValueError(f"Unknown priority '{text}'")
    return text


def template(text: str) -> str:
    """Parse the name of a disk template."""
    if text not in TEMPLATES:
        raise OptionValueError(f'Invalid string value for type DiskTemplate: "{text}"')
    return text


def instance_size(kind: str) -> Callable[[str], tuple[int, int, int, int]]:
    """Return a function that reads disk, memory, cpus and spindles; `kind`: its name in errors."""

    def read(text: str) -> tuple[int, int, int, int]:
        parts = text.split(",")
        if len(parts) not in (3, 4):
            raise OptionValueError(f"Invalid {kind} specification: '{text}', expected disk,ram,cpu")
        disk = size(f"{kind} specs disk", parts[0])
        memory = size(f"{kind} specs memory", parts[1])
        cpus = int(number(f"{kind} specs cpus", INTEGER)(parts[2]))
        read_spindles = number(f"{kind} specs spindles", INTEGER)
        spindles = int(read_spindles(parts[3])) if parts[3:] else 1
        return disk, memory, cpus, spindles

    return read


def size(what: str, text: str) -> int:
    """Return an amount of memory or disk in MiB; `what` names it in messages."""
    parsed = parse_size(text)
    if parsed is not None:
        return parsed
    import re

    unit = re.fullmatch(r"[0-9]+\s*([A-Za-z]+)", text)
    if unit:
        raise OptionValueError(f"{what}: Unknown unit '{unit[1]}'")
    raise OptionValueError(f"{what}: Can't parse string '{text}'")


def socket(text: str) -> str:
    """Read the path of a socket; at an empty path, no program accepts connections."""
    return text or "/dev/null"


def words(text: str) -> list[str]:
    """Read words separated by commas; an empty text has none."""
    return text.split(",") if text else []


OPTIONS = {
    one.name: one
    for one in (
        Usage("-p --print-nodes", "print the nodes before and after", "[FIELDS]"),
        Usage("--print-instances", "print the instances before and after"),
        Usage("-C --print-commands", "print the commands that execute the plan", "[FILE]"),
        Usage("-t --text-data", "read the cluster from this text file", "FILE", completion="file"),
        Usage("-E --evac-mode", "move only instances off nodes that are offline or drained"),
        Usage("--restricted-migration", "migrate only off drained nodes, never there and back"),
        Usage("-m --master", "read the cluster through RAPI", "ADDRESS", completion="host"),
        Usage(
            "-L --luxi", "read the cluster through LUXI, by default at the usual socket",
            "[SOCKET]", socket, completion="file",
        ),
        Usage(
            "-I --ialloc-src", "read the cluster from a request of Ganeti", "FILE",
            completion="file",
        ),
        Usage("-X --exec", "execute the plan through LUXI"),
        Usage("--first-job-group", "execute only the first set of jobs"),
        Usage("--reason", "the reason that Ganeti stores with the jobs", "REASON"),
        Usage(
            "-G --group", "the group of nodes, by name or uuid", "ID", completion="onegroup"
        ),
        Usage(
            "-l --max-length", "make at most so many moves or allocations", "N",
            number("max solution length", INTEGER), "integer",
        ),
        Usage("-v --verbose", "print more; may repeat", repeats=True),
        Usage("-q --quiet", "print less; may repeat", repeats=True),
        Usage(
            "-O --offline", "treat this node as offline; may repeat", "NODE",
            completion="onenode", repeats=True,
        ),
        Usage(
            "--static-kvm-node-memory", "MiB that a kvm node itself needs; 0: as reported", "N",
            number("static node memory", INTEGER), "integer",
        ),
        Usage(
            "-e --min-score", "stop at this distance above the lowest score", "EPSILON",
            number("min score"), "float",
        ),
        Usage(
            "--max-cpu", "at most so many virtual cpus per cpu", "RATIO", max_cpu, "float"
        ),
        Usage(
            "--min-disk", "the share of disk that stays free, 0 to 1", "RATIO",
            number("min free disk space"), "float",
        ),
        Usage(
            "-g --min-gain", "stop if a move gains less", "DELTA", number("min gain"), "float"
        ),
        Usage(
            "--min-gain-limit", "the smallest gain counts below this score", "SCORE",
            number("min gain limit"), "float",
        ),
        Usage("--no-disk-moves", "copy no disks"),
        Usage(
            "--select-instances", "move only these instances", "INSTS", words, "manyinstances"
        ),
        Usage("--no-instance-moves", "move no primaries"),
        Usage("--ignore-soft-errors", "do not enforce soft limits"),
        Usage(
            "-U --dynu-file", "read the load of instances from this file", "FILE",
            completion="file",
        ),
        Usage("--ignore-dynu", "ignore the load of instances"),
        Usage(
            "--mond", "read the load of nodes from their monitoring daemons", "[CHOICE]",
            yes_or_no, "choices=yes,no",
        ),
        Usage(
            "--mond-data", "read the answers of monitoring daemons from this file", "FILE",
            completion="file",
        ),
        Usage("--exit-on-missing-mond-data", "fail if a monitoring daemon does not answer"),
        Usage("--mond-xen", "also read what monitoring daemons report of Xen"),
        Usage(
            "--exclusion-tags", "tags of instances that must not share a node", "TAG,...", words,
            "string",
        ),
        Usage(
            "--exclude-instances", "do not move these instances", "INSTS", words, "manyinstances"
        ),
        Usage("-S --save", "save the cluster at the ends of the work in files", "FILE"),
        Usage(
            "--priority", "the priority of the jobs", "PRIO", priority, "choices=low,normal,high"
        ),
        Usage("-V --version", "print the version"),
        Usage("-h --help", "print this help"),
        Usage("--help-completion", "print the options for the completion of shells"),
        Usage(
            "--disk-template", "the disk template of the instances", "TEMPLATE", template,
            f"choices={','.join(in_htools_order())}",
        ),
        Usage(
            "--spindle-use", "the spindles that an instance uses", "SPINDLES", spindle_use,
            "float",
        ),
        Usage(
            "--simulate", "an empty cluster: policy,nodes,disk,memory,cpus[,spindles]; may repeat",
            "SPEC", completion="string", repeats=True,
        ),
        Usage("--independent-groups", "leave out only groups that are not N+1 compliant"),
        Usage("--accept-existing-errors", "use clusters that are not N+1 compliant"),
        Usage("--no-capacity-checks", "do not check global N+1"),
        Usage(
            "--machine-readable", "print keys and values for scripts", "[CHOICE]", yes_or_no,
            "choices=yes,no",
        ),
        Usage(
            "--standard-alloc", "the size of standard instances: disk,memory,cpus", "STDSPEC",
            instance_size("standard"), "string",
        ),
        Usage(
            "--tiered-alloc", "the first size of tiered instances: disk,memory,cpus", "TSPEC",
            instance_size("tiered"), "string",
        ),
        Usage(
            "--minimal-resources", "power on standby nodes if a node has less capacity, in "
            "standard instances", "FACTOR", number("minimal resources"), "float",
        ),
        Usage(
            "--target-resources", "the capacity that stays free on each node, in standard "
            "instances", "FACTOR", number("target resources"), "float",
        ),
        Usage("--no-headers", "print no titles"),
        Usage("--no-simulation", "do not try to balance"),
        Usage("--offline-maintenance", "assume that all instances are shut down"),
        Usage("--node-tags", "only nodes with one of these tags", "TAG,...", words, "string"),
        Usage("--print-moves", "print the moves of instances"),
        Usage("--full-evacuation", "also move secondaries off the nodes"),
        Usage("--skip-non-redundant", "leave out nodes with instances on one node only"),
        Usage("--ignore-non-redundant", "assume that all instances have a secondary"),
        Usage("-f --force", "continue in spite of warnings"),
        Usage("--one-step-only", "print only the first group"),
        Usage(
            "-d --output-dir", "the folder for the files", "PATH", completion="dir"
        ),
        Usage(
            "--job-delay", "wait so many seconds before the jobs begin", "SECONDS",
            number("job delay"), "float",
        ),
        Usage("--dry-run", "print what would be done, and do nothing"),
        Usage(
            "--restrict-allocation-to", "place instances on these nodes only", "NODE,...", words,
            "manynodes",
        ),
    )
}  # fmt: skip
"""Name -> option. `iallocator.compat.htools.programs` has the options of each program."""

ARGUMENTS = {"hail": "file 1 1", "hscan": "host 0 none"}
"""Program -> how ``--help-completion`` describes its arguments; other programs have none."""


def parse(arguments: Sequence[str], names: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the options `names` in `arguments`, and the other words.

    Raises
    ------
    OptionError
        If options are unknown or ambiguous, or a value is missing or not expected.
    OptionValueError
        If a value is invalid.
    """
    table = [OPTIONS[name] for name in names]
    given: list[tuple[Usage, str | None]] = []
    others: list[str] = []
    errors: list[str] = []
    unknown: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            others += left
            break
        if word.startswith("--"):
            _long(word, table, left, given, errors, unknown)
        elif word.startswith("-") and len(word) > 1:
            _short(word, table, left, given, errors, unknown)
        else:
            others.append(word)
    if errors or unknown:
        raise OptionError("".join([*errors, *unknown]))
    values: dict[str, Any] = {}
    for one, text in given:
        missing = "yes" if one.read is yes_or_no else True
        value: Any = missing if text is None else text
        if value is not True:
            value = one.read(value)
        if one.repeats:
            value = [value, *values.get(one.target, [])]
        values[one.target] = value
    return values, others


def _long(
    word: str,
    table: Sequence[Usage],
    left: list[str],
    given: list[tuple[Usage, str | None]],
    errors: list[str],
    unknown: list[str],
) -> None:
    """Read the long option `word`; its value may be the first word in `left`."""
    name, equals, value = word[2:].partition("=")
    matches = [one for one in table if one.name.startswith(name)]
    matches = [one for one in matches if one.name == name] or matches
    if not matches:
        unknown.append(f"unrecognized option `--{name}{equals}{value}'\n")
    elif len(matches) > 1:
        lines = aligned([(*one.columns(), one.text) for one in matches])
        errors += [f"option `--{name}' is ambiguous; could be one of:\n", "\n".join([*lines, ""])]
    elif equals and matches[0].form == NO_VALUE:
        errors.append(f"option `--{name}' doesn't allow an argument\n")
    elif equals or matches[0].form != VALUE_REQUIRED:
        given.append((matches[0], value if equals else None))
    elif left:
        given.append((matches[0], left.pop(0)))
    else:
        errors.append(f"option `--{name}' requires an argument {matches[0].value}\n")


def _short(
    word: str,
    table: Sequence[Usage],
    left: list[str],
    given: list[tuple[Usage, str | None]],
    errors: list[str],
    unknown: list[str],
) -> None:
    """Read the first short option in `word`.

    The characters after it are its value, or return to `left` as a word that begins with a dash: so
    ``-E-x`` is ``-E --x``.
    """
    letter, more = word[1], word[2:]
    one = next((one for one in table if one.short == letter), None)
    if one is None or one.form == NO_VALUE:
        if one is None:
            unknown.append(f"unrecognized option `-{letter}'\n")
        else:
            given.append((one, None))
        if more:
            left.insert(0, f"-{more}")
    elif more or one.form == VALUE_OPTIONAL:
        given.append((one, more or None))
    elif left:
        given.append((one, left.pop(0)))
    else:
        errors.append(f"option `-{letter}' requires an argument {one.value}\n")


def aligned(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return lines with short options, long options and texts in aligned columns."""
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(2)]
    return [f"  {a:{widths[0]}}  {b:{widths[1]}}  {text}" for a, b, text in rows]


def help_of(title: str, program: str, names: Iterable[str]) -> str:
    """Return the usage of `program`, after a line with its `title`."""
    rows = [(*OPTIONS[name].columns(), OPTIONS[name].text) for name in names]
    return "\n".join([title, f"Usage: {program} [OPTION...]", *aligned(rows), ""])
