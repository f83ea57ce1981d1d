"""Generate command lines from the tables of options, in every combination."""

from __future__ import annotations

from functools import cache
from random import Random

from iallocator.commands import COMMANDS, options_of
from iallocator.errors import UsageError
from iallocator.options.table import COMMON, Option

__all__ = ["QUESTIONS", "options", "table", "value_of"]

NOT_HERE = frozenset(
    {
        "luxi", "rapi", "addresses", "cacert", "insecure", "credentials", "mond", "mond_xen",
        "exit_on_missing_mond_data", "ialloc_src", "text_data", "simulate", "help", "version",
        "config", "no_config", "execute", "exec", "resume", "journal", "output_dir", "update",
        "jobs", "replay", "max_input", "log", "capture", "mond_data", "dynu_file", "time_limit",
        "dry_run", "reason", "priority", "first_job_group", "done_by_hand", "capture_keep",
        "capture_days",
    }
)  # fmt: skip
"""Names of options that connect to servers, or that cases set by themselves."""

VALUES = {
    "NODE": ("n0", "n1", "n5", "gone", "#uname", "n"),
    "NODE,...": ("n0", "n0,n1", "n1,n1", "gone", "n0,"),
    "NAME": ("i0", "new", "new0", "i", "gone", "a"),
    "NAME,...": ("i0", "i0,i1", "gone", "i0,i0"),
    "GROUP": ("aa", "uuid-a", "bb", "gone"),
    "GROUP,...": ("aa", "uuid-b", "aa,bb", "gone"),
    "TAG,...": ("a", "rack:x", "iallocator:separate:must:web", "iallocator:"),
    "PREFIX,...": ("srv", "rack,srv", "iallocator"),
    "PREFIX": ("iallocator:", "x", "", "htools:"),
    "KEY,...": ("success", "result,info", "gone"),
    "FILE": ("-", "out.svg", "out", "gone/out", "doc", "."),
    "[=FILE]": ("-", "out.svg", "out"),
    "[=FIELDS]": ("", "+tags", "name,fmem", "gone", "+"),
    "SIZE": ("1g,1g,1", "100,64,1,1", "0,0,1", "0,0,0", "4G", "512", "1.5t", "1t,1t,999", "x"),
    "TEMPLATE": ("drbd", "plain", "rbd", "diskless", "ext", "file", "x"),
    "FOLDER": (".", "gone"),
    "TEXT": ("reason", "\x1b[0m", ""),
    "PRIORITY": ("low", "-20", "20", "19"),
    "SCORE": ("0", "5", "-3", "INFINITY", "-INFINITY"),
    "WORDS": ("allocate --memory 1G --disk 1G", "relocate i0", "evacuate n0", "x", "'", "--"),
    "MODE": ("strict", "no-worse", "no-new", "off", "all", "primary-only", "secondary-only"),
    "ANSWER": ("yes", "no"),
    "[=ANSWER]": ("yes", "no"),
    "UUID": ("net1", "gone"),
}  # fmt: skip
"""Placeholder of a value in the help -> values, valid and invalid ones."""

NUMBERS = (
    "0", "1", "2", "3", "7", "20", "100", "0.5", "-1", "1e-9", "1e-300", "1e300", "1e999", "nan",
    "inf", "00", "9007199254740992", "9007199254740993", "1_0", "+1", "0x1", "1e3", "٣", " 1", "",
)  # fmt: skip

WRONG = 0.02
"""Share of the options that get an invalid value."""

QUESTIONS = (
    ("allocate",), ("allocate", "--memory=1G", "--disk=1G"), ("evacuate", "n0"),
    ("relocate", "i0"),
    ("allocate", "--count=3", "--memory=512", "--template=drbd", "--disk=2g"),
    ("evacuate", "n0,n1"),
    ("change-group", "i0,i1"), ("change-group", "i0", "--to=bb"), ("relocate", "gone"), ("wish",),
)  # fmt: skip


@cache
def table(command: str) -> tuple[Option, ...]:
    """Return the options of `command` that a case can have; "" stands for requests."""
    known = options_of(command) if command else COMMON
    return tuple(option for option in known if option.target not in NOT_HERE)


def options(rng: Random, command: str, most: int = 3) -> list[str]:
    """Return up to `most` random options of `command`, rarely one of another command."""
    known = table(command)
    words = [
        _word(rng, option) for option in rng.sample(known, min(len(known), rng.randint(0, most)))
    ]
    if rng.random() < 0.03:
        words.append(_word(rng, rng.choice(table(rng.choice(list(COMMANDS))))))
    return words


def _word(rng: Random, option: Option) -> str:
    name = option.names[0]
    if option.read is None:
        return name if rng.random() < 0.95 else f"{name}={rng.choice(('', 'no', 'yes', 'x'))}"
    value = value_of(rng, option)
    if option.bare is not None and rng.random() < 0.5:
        return name
    short = [other for other in option.names if not other.startswith("--")]
    if short and rng.random() < 0.3:
        return short[0] + value
    return f"{name}={value}"


def value_of(rng: Random, option: Option) -> str:
    """Return a random value that the option accepts, or rarely another one."""
    known = VALUES.get(option.metavar, ())
    if rng.random() < WRONG:
        return rng.choice((*known, *NUMBERS))
    drawn = (*_choices(option), *known) or NUMBERS
    taken = [value for value in drawn if not _problem(option, value)]
    return rng.choice(taken or NUMBERS)


def _choices(option: Option) -> list[str]:
    """Return the words that the error message of the option lists."""
    _, listed, words = _problem(option, "\0").partition("one of ")
    return words.replace(" or ", ", ").split(", ") if listed else []


def _problem(option: Option, value: str) -> str:
    """Return why the option rejects the value; "" if it accepts the value."""
    assert option.read is not None
    try:
        option.read(value)
    except (ValueError, UsageError) as error:
        return str(error) or "no"
    return ""
