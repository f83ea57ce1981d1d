"""Read the utilisation of instances from files and monitoring daemons, with htools' messages."""

from __future__ import annotations

from iallocator.compat.htools.errors import NamedError, OptionValueError, ProgramError
from iallocator.compat.htools.members import Members, Problem, items, list_of, parsed, string
from iallocator.compat.htools.options import number
from iallocator.compat.htools.text_errors import complain_of_file
from iallocator.errors import IallocatorError, say
from iallocator.sources.live.measured import MissingError, add_measured
from iallocator.wire.codec import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster, Load
    from iallocator.options.settings import Settings

__all__ = ["measure", "read_loads"]

INCOMPLETE = "Didn't receive an answer by all MonDs"
UNREADABLE = "Error: can't parse utilisation data: "


def _text(path: str) -> str:
    """Return the text in the file at `path`.

    Raises
    ------
    NamedError
        If the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            return file.read()
    except OSError:
        raise NamedError(complain_of_file(path)) from None


def read_loads(path: str) -> list[tuple[str, Load]]:
    """Return the name of an instance and its utilisation for each line of the file at `path`.

    Raises
    ------
    ProgramError
        If the file cannot be read, or a line is invalid.
    """
    loads: list[tuple[str, Load]] = []
    lines = _text(path).split("\n")
    if not lines[-1]:
        lines.pop()
    for line in lines:
        words = line.split(" ")
        if len(words) != 5:
            raise ProgramError(f"{UNREADABLE}Cannot parse line {line}")
        try:
            cpu, memory, disk, net = map(number(words[0]), words[1:])
        except OptionValueError as error:
            raise ProgramError(f"{UNREADABLE}{error}") from None
        loads.append((words[0], (cpu, memory, disk, net)))
    return loads


def measure(cluster: Cluster, settings: Settings) -> None:
    """Set the utilisation that monitoring daemons measure, unless an option forbids it.

    Raises
    ------
    ProgramError
        If the file with the daemons' answers is invalid, or a measurement is missing that an option
        requires.
    """
    if settings.mond_data:
        try:
            _check_answers(_text(settings.mond_data))
        except Problem as problem:
            raise ProgramError(f"Error: can't parse MonD data: {problem}") from None
    if settings.ignore_dynu:
        return
    required = settings.exit_on_missing_mond_data
    settings.exit_on_missing_mond_data = True
    try:
        add_measured(cluster, settings)
    except MissingError as missing:
        kind = "xen-cpu-avg-load" if settings.mond_xen else "cpu-avg-load"
        for name in reversed(missing.nodes):  # the source is read backwards
            say(f"Failed to contact node's {name} MonD for DC {kind}")
        if missing.instances:
            say(f"No CPU information available for {dumps(missing.instances[::-1])}")
        else:
            say(f"{INCOMPLETE}, {kind}'s data will be ignored.")
        if required:
            raise ProgramError("Error: Not all required data available") from None
    except IallocatorError as error:
        raise ProgramError(f"Error: {error}") from None


def _check_answers(text: str) -> None:
    """Check that `text` is a list with the report of a monitoring daemon for each node."""
    what = "Parsing MonD's answer"
    whole = parsed(text, what)
    try:
        answers = list_of(items)(whole)
    except Problem as problem:
        raise Problem(f"{what}: {problem}") from None
    for raw in answers:
        answer = Members(raw, "Parsing node's name")
        answer.need("node", string)
        Members(raw, "Parsing node's reports").need("reports", list_of(items))
