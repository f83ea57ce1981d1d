"""Read option defaults from the configuration file.

The file is TOML.  Keys are the long names of options without their dashes.  Values at the top apply
to requests, and to every command in which the option has an effect.  The table of a command,
``[balance]``, applies to that command, and overrides the top.  An invalid file is an error, for
requests of Ganeti too: an answer by other settings than those in the file would be wrong.
"""

from __future__ import annotations

import tomllib

from iallocator.errors import UsageError
from iallocator.files import read_file
from iallocator.names import guesses
from iallocator.options.parser import suggestion, unknown
from iallocator.options.table import COMMON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from iallocator.options.settings import Settings
    from iallocator.options.table import Option

    Found = dict[str, tuple[Any, str]]
    """Attribute of `Settings` -> its value, and the origin of the value."""

__all__ = ["Configuration", "configure"]

LARGEST_CONFIGURATION = 1024**2
"""The largest accepted size of a configuration file, in bytes."""

BY_HAND = {
    **dict.fromkeys(("help", "version", "validate"), "it requests no answer"),
    **dict.fromkeys(("config", "no_config"), "a file does not say which file is read"),
    **dict.fromkeys(("settings", "rules"), "the command line says what is shown"),
    **dict.fromkeys(
        ("execute", "resume", "done_by_hand"),
        "a change of the cluster is never a default",
    ),
}
"""Attribute of `Settings` that only the command line can set -> the reason."""

CLUSTERS = ("text_data", "simulate", "luxi", "rapi")
"""Attributes of `Settings` that name another source of the cluster than a request document."""

REACHING = ("cacert", "insecure", "credentials")
"""Attributes of `Settings` for the connection to a remote cluster."""

OF_COMMANDS = (*CLUSTERS, *REACHING, "ialloc_src", "volume_groups")
"""Attributes for tables of commands only: at the top they would replace a request's cluster."""

ASKING = ("", "explain")
"""Commands that read a request from a file even if the cluster comes from another source."""


class Configuration:
    """The configuration file at `path`; `commands` are the names of possible tables.

    Raises
    ------
    UsageError
        If the file cannot be read, is not TOML, or has a table with another name.
    """

    def __init__(self, path: str, commands: Collection[str]) -> None:
        self._path = path
        raw = read_file(path, LARGEST_CONFIGURATION)
        try:
            whole = tomllib.loads(raw.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}: invalid TOML: {error}") from None
        self._tables = {name: value for name, value in whole.items() if isinstance(value, dict)}
        self._top = {name: value for name, value in whole.items() if name not in self._tables}
        for name in sorted(self._tables.keys() - commands):
            raise UsageError(f"{path}: [{name}]: no such command{guesses(name, commands)}")

    def text(self, key: str) -> str:
        """Return the text of `key` at the top, even if other values are invalid; "" if none."""
        value = self._top.get(key)
        return value if isinstance(value, str) else ""

    @property
    def commands(self) -> Collection[str]:
        """Return the commands that have a table."""
        return self._tables.keys()

    def top(self) -> Found:
        """Return the values at the top of the file.

        Raises
        ------
        UsageError
            If a key is not a common option, or a value is invalid.
        """
        return self._read(self._top, "", COMMON, unknown)

    def of(
        self, command: str, table: Sequence[Option], rejection: Callable[[str], str] = unknown
    ) -> Found:
        """Return the values in the table of `command`; `table` has the options of the command.

        `rejection` returns why the command does not have an option, given the name of the option.

        Raises
        ------
        UsageError
            If a key is not an option of the command, or a value is invalid.
        """
        return self._read(self._tables.get(command, {}), command, table, rejection)

    def _read(
        self,
        given: Mapping[str, Any],
        command: str,
        table: Sequence[Option],
        rejection: Callable[[str], str],
    ) -> Found:
        options = {name[2:]: one for one in table for name in one.names if name.startswith("--")}
        origin = f"{self._path} [{command}]" if command else self._path
        values: Found = {}
        for key, value in given.items():
            if key == "master" and "master-node" in options:
                raise UsageError(
                    f"{origin}: master: write master-node for the master node, or rapi for the "
                    "address of RAPI"
                )
            option = options.get(key)
            if option is None:
                wrong = rejection(f"--{key}")
                raise UsageError(f"{origin}: {key}: {wrong}")
            if option.target in BY_HAND:
                why = BY_HAND[option.target]
                raise UsageError(f"{origin}: {key}: only on the command line: {why}")
            if not command and option.target in OF_COMMANDS:
                raise UsageError(
                    f"{origin}: {key}: only in the table of a command: requests are about the "
                    "cluster that asks"
                )
            try:
                meant = _value(option, value)
            except ValueError as error:
                shown = str(value).lower() if isinstance(value, bool) else repr(value)
                meant = suggestion(option, str(value))
                raise UsageError(f"{origin}: {key}: expected {error}, got {shown}{meant}") from None
            if option.target != "no_capacity_checks":
                values[option.target] = meant, origin
            elif meant:
                values["n1"] = "off", f"{origin}: no-capacity-checks"
        return values


def configure(
    settings: Settings,
    path: str,
    commands: Collection[str],
    positional: Sequence[str],
    command: str = "",
    table: Sequence[Option] = COMMON,
    rejection: Callable[[str], str] = unknown,
) -> None:
    """Complete `settings`, which the command line has set, from the file at `path`.

    `command`: the command, or "" for a request. `commands`: the names of possible tables in the
    file. `positional`: the arguments that are no options. `table`: the options of the command.
    `rejection` returns why the command does not have an option, given its name.

    `replay` uses its own table only, because stored cases contain the options of their requests.

    Raises
    ------
    UsageError
        If the file cannot be read, is not TOML, or has an unknown table, key or value.
    """
    file = Configuration(path, commands)
    acting = {option.target for option in table} if command != "replay" else set()
    options_set = {target: what for target, what in file.top().items() if target in acting}
    own = file.of(command, table, rejection) if command else {}
    settings.of_table = frozenset(own)
    options_set |= own

    # Leave out what the command line overrides
    overridden = set(settings.chosen)
    if overridden & {"no_capacity_checks", "compat"}:  # --compat hail includes the N+1 of hail
        overridden.add("n1")
    if positional or "ialloc_src" in overridden:
        overridden |= {"ialloc_src", *(CLUSTERS if command not in ASKING else ())}
    if overridden.intersection(CLUSTERS):
        overridden |= {*CLUSTERS, *(("ialloc_src",) if command not in ASKING else ())}
    left = {target: what for target, what in options_set.items() if target not in overridden}
    address = left["rapi"][0] if "rapi" in left else settings.rapi
    if not address or address.startswith("file:"):  # there is no connection
        left = {target: what for target, what in left.items() if target not in REACHING}
    apply(settings, left)


def apply(settings: Settings, values: Found) -> None:
    """Set the attributes of `settings` to `values`, and record where each value comes from."""
    for target, (value, _) in values.items():
        setattr(settings, target, value)
    settings.origins = {target: origin for target, (_, origin) in values.items()}
    if "n1" not in values and not settings.chosen & {"n1", "no_capacity_checks"}:
        settings.n1 = settings.behaviour.n1_mode


def _value(option: Option, given: Any) -> Any:
    """Convert `given`, a value of the configuration file, to a value of `option`."""
    if option.read is None:
        if option.target == "verbose" and type(given) is int and given >= 0:
            return given
        if not isinstance(given, bool):
            raise ValueError("true or false")
        return int(given) if option.target == "verbose" else given
    if option.repeats:
        return [_one(option, each) for each in (given if isinstance(given, list) else [given])]
    if isinstance(given, list):
        if not all(isinstance(each, str) and "," not in each for each in given):
            raise ValueError("names without commas in a list")
        return _one(option, ",".join(given))
    if given is True and option.bare is not None:
        return option.read(option.bare)
    if given is False and option.bare == "":
        return None
    return _one(option, given)


def _one(option: Option, given: Any) -> Any:
    """Convert one value as the command line does; reject a number where a name is expected."""
    assert option.read is not None
    if isinstance(given, bool):
        return option.read("yes" if given else "no")
    if not isinstance(given, (str, int, float)):
        raise ValueError("a string, a number, true, false or a list")
    value = option.read(str(given))
    number = isinstance(value, (int, float))
    if not isinstance(given, str) and not number:
        raise ValueError("a string")
    if isinstance(given, str) and number and given[-1:].isdigit():
        raise ValueError("a number, without quotes")
    return value
