"""``--validate``: whether what a command would read can be read, and nothing else."""

from __future__ import annotations

import sys

from iallocator.commands.command import print_json
from iallocator.engine import reading_for
from iallocator.errors import IallocatorError, UsageError, one_line, say
from iallocator.files import WholeOutput, read_file
from iallocator.sources import document_path, named, substitute
from iallocator.wire.validation import NEEDED, problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.options.settings import Settings
    from iallocator.options.table import Option

__all__ = ["validate"]

INPUTS = frozenset({
    "validate", "json", "ialloc_src", "text_data", "simulate", "luxi", "rapi", "cacert", "insecure",
    "credentials", "compat", "max_input", "config", "no_config", "verbose", "quiet",
})  # fmt: skip
"""The attributes of the settings that act with ``--validate``: what is read, and how."""


def validate(
    settings: Settings, positional: Sequence[str], request: str, table: Sequence[Option]
) -> int:
    """Print what is wrong with the input; return the exit status: 0, or 2 if something is.

    As text, valid inputs are on stdout and problems on stderr; with ``--json`` one document on
    stdout has both.  A document is read unless the cluster comes from elsewhere and no request
    is needed.

    Raises
    ------
    UsageError
        For an option of `table` on the command line that does not act here.
    """
    for option in table:
        if option.target in settings.chosen - INPUTS:
            raise UsageError(f"--validate only checks the input: no {option.names[0]}")
    files = [*positional, *([settings.ialloc_src] if settings.ialloc_src else [])]
    found: dict[str, Sequence[str]] = {}
    elsewhere = settings.names_another_cluster
    if files or request == NEEDED or not elsewhere:
        path = document_path(settings, positional)
        found[path] = problems(read_file(path, settings.max_input), request)
    if elsewhere:
        wrong: list[str] = []
        try:
            substitute(settings, reading_for(settings))
        except IallocatorError as error:  # the reader stops at the first problem
            wrong.append(str(error))
        found[settings.text_data or " ".join(named(settings))] = wrong
    with WholeOutput():
        if getattr(settings, "json", False):
            inputs = [{"name": name, "problems": [*some]} for name, some in found.items()]
            print_json({"valid": not any(found.values()), "inputs": inputs})
        else:
            for name, problems_of in found.items():
                for problem in problems_of:
                    say(f"iallocator: {one_line(problem)}")
                if not problems_of:
                    sys.stdout.buffer.write(f"{one_line(name)}: valid\n".encode())
    return 2 if any(found.values()) else 0
