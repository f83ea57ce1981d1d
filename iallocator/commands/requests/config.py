"""``iallocator config``: the settings that count for a document, and where each came from."""

from __future__ import annotations

import sys

from iallocator.commands import COMMANDS, options_of
from iallocator.commands.shared.common_options import rejection_of, table_of
from iallocator.commands.shared.plan_output import print_json
from iallocator.commands.shared.source import load_source
from iallocator.engine import effective_settings, request_in
from iallocator.errors import tell
from iallocator.files import WholeOutput
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.render.table import Column, Page, Table, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster

    Row = dict[str, Any]

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

OPTIONS = (Option("--json", "json", "write the settings as one JSON document"),)

NO_SETTINGS = {"help", "version", "validate", "n1_off", "config", "no_config"}
"""Options that ask for something else, or are another name."""

SHOWN = tuple(option for option in table_of("config") if option.target not in NO_SETTINGS)


class Settings(options.Settings):
    """The settings of every request, and the form of the list."""

    json: bool = False


def run(settings: Settings, positional: Sequence[str]) -> int:
    """Show the settings for the document in the file (- or none: stdin)."""
    source = load_source(settings, positional)
    request = request_in(source.document, source.cluster, settings)
    asked = request.asked if request else {}
    warnings: list[str] = []
    whole = effective_settings(source.cluster, asked, settings, warnings)
    tell(*warnings)
    rows = list(_rows(whole, settings))
    groups = list(_group_rows(source.cluster, whole, settings))
    commands = list(_command_rows(settings))
    with WholeOutput():
        if settings.json:
            document = {"settings": rows, "groups": groups, "commands": commands}
            print_json({**document, "warnings": warnings})
        else:
            _table(rows, groups, commands)
    return 0


def _command_rows(settings: options.Settings) -> Iterator[Row]:
    """What tables of the configuration file say of single commands."""
    path = options.configuration_path(settings)
    if not path:
        return
    from iallocator.configuration import Configuration

    file = Configuration(path, COMMANDS)
    for command in file.commands:
        table = options_of(command)
        names = {option.target: option.names[0] for option in table}
        for target, (value, origin) in file.of(
            command, table, rejection_of(command, table)
        ).items():
            yield {"command": command, "name": names[target][2:], "value": value, "from": origin}


def _rows(whole: options.Settings, given: options.Settings) -> Iterator[Row]:
    """Every option with its value and its origin."""
    for option in SHOWN:
        yield _row(option, whole, given)


def _group_rows(
    cluster: Cluster, whole: options.Settings, given: options.Settings
) -> Iterator[Row]:
    """Those that tags of a group change."""
    for index, own in whole.by_group.items():
        for option in SHOWN:
            row = _row(option, own, given)
            if row["from"].startswith("tag of group"):
                yield {"group": cluster.groups[index].name, **row}


def _row(option: Option, settings: options.Settings, given: options.Settings) -> Row:
    target = option.target
    origin = "built-in default"
    if target in settings.origins:
        origin = settings.origins[target]
    elif target in given.chosen:
        origin = "command line"
    elif target == "n1" and given.compat:
        origin = f"{given.origins.get('compat', 'command line')}: --compat {given.compat}"
    value = getattr(settings, target)
    if isinstance(value, tuple):
        value = list(value)
    return {"name": option.names[0].removeprefix("--"), "value": value, "from": origin}


def _table(rows: Sequence[Row], groups: Sequence[Row], commands: Sequence[Row]) -> None:

    table = Table(Column("setting"), Column("value"), Column("from"))
    for row in rows:
        table.add(row["name"], _shown(row["value"]), row["from"])
    for row in groups:
        name = f"{row['name']}, in group {row['group']}"
        table.add(name, _shown(row["value"]), row["from"])
    for row in commands:
        table.add(f"{row['command']} --{row['name']}", _shown(row["value"]), row["from"])
    page = Page(wants_colour(sys.stdout))
    page.table(table, indent=0)
    sys.stdout.write(page.text())


def _shown(value: Any) -> str:
    """The value as one would write it on the command line."""
    if value is True or value is False:
        return "yes" if value else "no"
    if value is None or (not value and value != 0):
        return "-"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
