"""What a person can ask for besides an answer: one module per command, and the table of them.

A command module has ``OPTIONS`` (its own options, a tuple of
`iallocator.options.Option`), ``USAGE`` (what follows the command's name on the
usage line), ``Settings`` (a subclass of `iallocator.options.Settings` with the
defaults of those options) and ``run(settings, positional) -> int``, which prints and
returns the exit status.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "find_command"]

COMMANDS = {
    "balance": "which instances to move so that all nodes carry their share",
    "explain": "why the answer to a request is what it is",
    "replay": "run stored requests again and compare with the stored answers",
}
"""Name -> what it is for; the module has the same name."""


def find_command(arguments: Sequence[str]) -> str:
    """The command among `arguments`, or "".

    Options may stand before it; the value of an option that takes one is no command.
    """
    from iallocator.options import COMMON

    with_value = {name for option in COMMON if option.takes_next for name in option.names}
    previous = ""
    for word in arguments:
        if word in COMMANDS and previous not in with_value:
            return word
        previous = word
    return ""
