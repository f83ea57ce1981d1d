"""Convert command lines to settings, and settings to command lines.

A library is not used for two reasons: Ganeti passes flags as ``--flag=`` (with an empty value), and
the program must start in milliseconds.
"""

from __future__ import annotations

from iallocator.errors import UsageError, cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any

    from iallocator.options.settings import Settings
    from iallocator.options.table import Option

__all__ = [
    "last_value", "options_in", "parse", "positional_words", "suggestion", "unknown", "words_of",
]  # fmt: skip


def unknown(name: str, table: Sequence[Option] | None = None, command: str = "") -> str:
    """Return the message about an option that `table` does not have, with similar options."""
    from iallocator.names import guesses

    known = [*_by_name([name], table)]
    longer = [other for other in known if name.startswith("--") and other.startswith(name)]
    if longer:
        return f"option {name} may be any of {', '.join(longer)}"
    meant = guesses(name, known)
    page = " ".join(filter(None, ("iallocator help", command, "--all")))
    return f"unknown option {cut(name)}{meant}; {page} lists them"


def parse(
    arguments: Sequence[str],
    settings: Settings,
    table: Sequence[Option] | None = None,
    rejection: Callable[[str], str] = unknown,
    elsewhere: Callable[[str], object] | None = None,
) -> list[str]:
    """Set the attributes of `settings` from `arguments`; return the words that are no options.

    `table`: the known options; by default those of requests. `rejection` returns why an option that
    is not in `table` is invalid. `elsewhere` returns whether a name is the full name of an option
    of another command; such a name is no abbreviation.

    Options may stand anywhere, as ``--name=value`` or ``--name value``; a flag may carry an empty
    value, ``yes``, or ``no`` to overrule the configuration file. ``-nVALUE`` and ``-n=VALUE`` have
    one meaning; a long name may be abbreviated as long as it is unambiguous. Words after ``--`` are
    no options, and ``-`` is not an option.

    Raises
    ------
    UsageError
        For an option that is not in `table`, a missing or an unusable value, and options that
        contradict each other: two files where one is read, ``--no-config`` with ``--config``.
    """
    positional: list[str] = []
    chosen: set[str] = set()
    written: dict[str, str] = {}
    for option, name, value in _words(arguments, table, elsewhere):
        if not name:
            positional.append(value or "")
        elif option is None:
            raise UsageError(rejection(name))
        elif option.read is None:
            if value not in (None, "", "yes", "no"):
                raise UsageError(
                    f"{name} is a flag: yes (as without a value) or no, got {cut(value)!r}"
                )
            if option.target == "verbose":
                settings.verbose = 0 if value == "no" else settings.verbose + 1
            else:
                setattr(settings, option.target, value != "no")
        elif value is None:
            raise UsageError(f"{name} needs a value: {option.metavar}")
        else:
            text = value or option.bare or ""
            try:
                option_value = option.read(text)
            except ValueError as error:
                meant = suggestion(option, text)
                raise UsageError(f"{name}: expected {error}, got {cut(text)!r}{meant}") from None
            if option.target in chosen:
                _reject_second_file(settings, option, name, option_value)
            if option.repeats:
                option_value = [*getattr(settings, option.target), option_value]
            setattr(settings, option.target, option_value)
        if option is not None:
            chosen.add(option.target)
            written[option.target] = name
    settings.written = written
    if settings.no_config and "config" in chosen:
        raise UsageError("--config and --no-config exclude each other")
    if getattr(settings, "no_capacity_checks", False):
        if "n1" in chosen and settings.n1 != "off":
            raise UsageError(f"--no-capacity-checks and --n1 {settings.n1} exclude each other")
        settings.n1 = "off"
        chosen.add("n1")
    settings.chosen = frozenset(chosen)
    if not settings.chosen & {"n1", "no_capacity_checks"}:
        settings.n1 = settings.behaviour.n1_mode
    return positional


def words_of(settings: Settings, targets: Collection[str], table: Sequence[Option]) -> list[str]:
    """Return the options of `table` that set `targets`, as words with values of `settings`."""
    words: list[str] = []
    for option in table:
        if option.target not in targets:
            continue
        name, value = option.names[0], getattr(settings, option.target)
        if option.read is None:
            words += [name] * int(value) if value else [f"{name}=no"]
        elif option.repeats:
            words += [f"{name}={each}" for each in value]
        else:
            text = ",".join(value) if isinstance(value, list) else str(value)
            words.append(f"{name}={text}")
    return words


def positional_words(arguments: Sequence[str], table: Sequence[Option] | None = None) -> list[str]:
    """Return the words that are neither options nor their values; errors are ignored."""
    return [value or "" for _, name, value in _words(arguments, table) if not name]


def options_in(
    arguments: Sequence[str], table: Sequence[Option]
) -> list[tuple[Option, str | None]]:
    """Return the options of `table` in `arguments`, with their values; others are left out."""
    return [(option, value) for option, _, value in _words(arguments, table) if option is not None]


def last_value(arguments: Sequence[str], target: str) -> str | None:
    """Return the value of the last option for `target`, or None; other errors are ignored."""
    values = [
        value or ""
        for option, _, value in _words(arguments, None)
        if option is not None and option.target == target
    ]
    return values[-1] if values else None


def _words(
    arguments: Sequence[str],
    table: Sequence[Option] | None,
    elsewhere: Callable[[str], object] | None = None,
) -> Iterator[tuple[Option | None, str, str | None]]:
    """Yield option, name and value of each argument; the name is "" if it is not an option.

    The option is None if it is not in `table`. The value is None if a required value is missing.
    `elsewhere` returns whether a name is the full name of an option of another command; such a name
    is no abbreviation.
    """
    by_name = _by_name(arguments, table)
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from ((None, "", later) for later in rest)
            return
        if word == "-" or not word.startswith("-"):
            yield None, "", word
            continue
        name, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:  # -vv, -j4
            name, equals, value = word[:2], "=", word[2:].removeprefix("=")
            if name in by_name and by_name[name].read is None and word[2] != "=":
                rest.insert(0, "-" + word[2:])
                equals = value = ""
        if name not in by_name and name.startswith("--"):
            longer = [other for other in by_name if other.startswith(name)]
            one = len({id(by_name[other]) for other in longer}) == 1
            if one and not (elsewhere and elsewhere(name)):
                name = longer[0]
        option = by_name.get(name)
        if option is not None and option.takes_next and not equals:
            yield option, name, rest.pop(0) if rest else None
        else:
            yield option, name, value


def _by_name(arguments: Sequence[str], table: Sequence[Option] | None) -> dict[str, Option]:
    """Return name -> option of `table`; None stands for the options of requests.

    The options of requests are only loaded if one of `arguments` may be an option.
    """
    if table is None:
        if not any(word.startswith("-") for word in arguments):
            return {}
        from iallocator.options.table import COMMON

        table = COMMON
    return {name: option for option in table for name in option.names}


def _reject_second_file(settings: Settings, option: Option, name: str, value: Any) -> None:
    """Reject another value of an option that names a file to read, or a file for the result.

    For other options, the last value counts. This includes options for logs, journals and folders,
    which a script may set for all its calls.

    Raises
    ------
    UsageError
        If the first value is different.
    """
    from iallocator.options.table import CLUSTER, OUTPUT
    from iallocator.options.values import file_name

    first = getattr(settings, option.target)
    is_input = option.group == CLUSTER or option.target == "config"
    is_file = (is_input and option.read is file_name) or (
        option.group == OUTPUT and option.metavar in ("FILE", "[=FILE]")
    )
    if is_file and not option.repeats and first != value:
        hint = ""
        if option.target == "rapi" and hasattr(settings, "master_node"):
            hint = "; --master is the address of RAPI, the master node is --master-node"
        raise UsageError(f"{name}: expected one value, got {cut(first)} and {cut(value)}{hint}")


def suggestion(option: Option, value: str) -> str:
    """Return ``(did you mean X?)`` for a wrong value of an option that accepts only some words."""
    from iallocator.names import guesses

    words = getattr(option.read, "words", ())
    unknown = next((word for word in value.split(",") if word not in words), value)
    return guesses(unknown, words)
