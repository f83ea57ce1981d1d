"""Start the programs of htools: the table of their options, help, version and errors."""

from __future__ import annotations

import sys

from iallocator import __version__
from iallocator.compat.htools.backend import Given
from iallocator.compat.htools.errors import (
    NamedError,
    OptionError,
    OptionValueError,
    ProgramError,
)
from iallocator.compat.htools.options import ARGUMENTS, OPTIONS, help_of, parse
from iallocator.errors import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PROGRAMS", "start"]

GENERAL = "version help help-completion"

PROGRAMS = {
    "hail": "print-nodes save text-data simulate verbose ignore-dynu ignore-soft-errors "
    "no-capacity-checks restrict-allocation-to mond mond-xen static-kvm-node-memory",
    "harep": "luxi job-delay reason dry-run",
    "hbal": "print-nodes print-instances print-commands text-data evac-mode restricted-migration "
    "master luxi ialloc-src exec first-job-group reason group max-length verbose quiet offline "
    "static-kvm-node-memory min-score max-cpu min-disk min-gain min-gain-limit no-disk-moves "
    "select-instances no-instance-moves ignore-soft-errors dynu-file ignore-dynu mond mond-data "
    "exit-on-missing-mond-data mond-xen exclusion-tags exclude-instances save priority",
    "hcheck": "text-data no-disk-moves dynu-file ignore-dynu evac-mode exclude-instances "
    "exclusion-tags ialloc-src no-instance-moves luxi machine-readable max-cpu max-length "
    "min-disk min-gain min-gain-limit min-score ignore-soft-errors no-simulation offline quiet "
    "master select-instances no-capacity-checks verbose",
    "hinfo": "print-nodes print-instances text-data master luxi ialloc-src verbose quiet offline "
    "ignore-dynu mond mond-data static-kvm-node-memory",
    "hroller": "luxi master text-data ialloc-src offline offline-maintenance verbose quiet "
    "no-headers node-tags save group print-moves full-evacuation skip-non-redundant "
    "ignore-non-redundant force one-step-only static-kvm-node-memory",
    "hscan": "print-nodes output-dir luxi verbose no-headers static-kvm-node-memory",
    "hspace": "print-nodes text-data disk-template spindle-use simulate master luxi ialloc-src "
    "verbose quiet independent-groups accept-existing-errors offline no-capacity-checks "
    "machine-readable max-cpu max-length min-disk standard-alloc tiered-alloc save "
    "static-kvm-node-memory",
    "hsqueeze": "luxi text-data exec minimal-resources target-resources save print-commands "
    "verbose no-headers static-kvm-node-memory",
}
"""Program -> its options, in the order of the help."""


def start(name: str, arguments: Sequence[str]) -> int:
    """Run the program `name` with `arguments`; return the exit status."""
    names = f"{PROGRAMS[name]} {GENERAL}".split()
    title = f"{name} (ganeti) version {__version__}"
    try:
        values, words = parse(arguments, names)
    except OptionError as error:
        say(f"Command line error: {error}\n{help_of(title, name, names)}".rstrip("\n"))
        return 2
    except OptionValueError as error:
        say(f"Error while parsing command line arguments:\n{error}")
        return 1
    given = Given(**values)
    if given.help:
        print(help_of(title, name, names), end="")
        return 0
    if given.version:
        print(f"{title}\niallocator {__version__}\nrunning on {sys.platform}")
        return 0
    if given.help_completion:
        for option in (OPTIONS[one] for one in names):
            short = f"-{option.short}," if option.short else ""
            print(f"{short}--{option.name} {option.completion}")
        if name in ARGUMENTS:
            print(ARGUMENTS[name])
        return 0
    if words and name not in ARGUMENTS:
        program = "this" if name == "harep" else "This"
        say(f"Error: {program} program doesn't take any arguments.")
        return 1
    # importlib would load further modules of Python
    module = __import__(f"iallocator.compat.htools.{name}", fromlist=("run",))
    given.words = words
    try:
        status: int = module.run(given)
    except NamedError as failure:
        say(f"{name}: {failure}")
        return 1
    except ProgramError as failure:
        say(str(failure))
        return 1
    return status
