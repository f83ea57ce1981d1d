"""The programs of htools, by name: the options, output, exit statuses and files of the originals.

`program_of` finds the name under which the executable was started; `run` runs the program. The
results are those of this program with ``--compat hail``. Configuration files, environment variables
and tags of this program have no effect.
"""

from __future__ import annotations

from iallocator.errors import say
from iallocator.light import variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PROGRAM_PURPOSES", "program_of", "run"]

PROGRAM_PURPOSES = {
    "hail": "answer a request of Ganeti",
    "harep": "repair instances that are marked for it",
    "hbal": "balance a group of nodes",
    "hcheck": "report what is wrong with a cluster",
    "hinfo": "print a cluster",
    "hroller": "plan the reboots of nodes",
    "hscan": "save clusters in files",
    "hspace": "compute how many instances fit",
    "hsqueeze": "power nodes down and on",
}
"""Name of a program -> its purpose."""

GENERIC = "htools"
"""The name of the executable with which an environment variable must choose the program."""

VARIABLE = "HTOOLS"
"""The environment variable that chooses the program, whatever its name."""


def program_of(executable: str) -> str | None:
    """Return the program of htools that `executable` stands for; None if it stands for none.

    `executable`: the path under which this program was started; links are not followed.
    """
    name = executable.rpartition("/")[2]
    if name != GENERIC and name not in PROGRAM_PURPOSES:
        return None
    chosen = variable(VARIABLE)
    return name if chosen is None else chosen


def run(name: str, arguments: Sequence[str]) -> int:
    """Run the program `name` of htools with `arguments`; return its exit status."""
    if name in PROGRAM_PURPOSES:
        from iallocator.compat.htools.programs import start

        return start(name, arguments)
    say(f"Unrecognised personality '{name}'.")
    say("This program must be installed under one of the following names:")
    say("\n".join(f" {one:8} - {what}" for one, what in PROGRAM_PURPOSES.items()))
    say("\nError: Please either rename/symlink the program or set")
    say(f"the environment variable {VARIABLE} to the desired role.")
    return 1
