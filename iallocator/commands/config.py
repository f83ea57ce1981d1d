"""The command ``config``."""

from __future__ import annotations

import sys

from iallocator.commands import COMMANDS, options_of
from iallocator.commands.command import Command, Result
from iallocator.commands.common_options import rejection_of, table_of
from iallocator.options.settings import configuration_path
from iallocator.render.table import Column, Page, Table, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.options.table import Option
    from iallocator.sources import Source

__all__ = ["Config"]

NO_SETTINGS = {"help", "version", "validate", "n1_off", "config", "no_config"}
"""Options that ask for something else, or are another name."""

SHOWN = tuple(option for option in table_of("config") if option.target not in NO_SETTINGS)


class Config(Command):
    """Lists every setting with its value and its origin."""

    measured = False
    reads_request = True

    def plan(self, source: Source, settings: Settings, deadline: Deadline) -> Result:
        """List the settings."""
        given = self.settings
        return SettingsList({
            "settings": [_row(option, settings, given) for option in SHOWN],
            "groups": list(_group_rows(source.cluster, settings, given)),
            "commands": list(_command_rows(given)),
            "warnings": self.warnings,
        })  # fmt: skip


class SettingsList(Result):
    """Every setting with its value and its origin."""

    def text(self) -> str:
        """Return the settings as a table."""
        document = self._document
        table = Table(Column("setting"), Column("value"), Column("from"))
        for row in document["settings"]:
            table.add(row["name"], _shown(row["value"]), row["from"])
        for row in document["groups"]:
            name = f"{row['name']}, in group {row['group']}"
            table.add(name, _shown(row["value"]), row["from"])
        for row in document["commands"]:
            table.add(f"{row['command']} --{row['name']}", _shown(row["value"]), row["from"])
        page = Page(wants_colour(sys.stdout))
        page.table(table, indent=0)
        return page.text()


def _command_rows(settings: Settings) -> Iterator[Json]:
    """What tables of the configuration file say of single commands."""
    path = configuration_path(settings)
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


def _group_rows(cluster: Cluster, whole: Settings, given: Settings) -> Iterator[Json]:
    """Those that tags of a group change."""
    for index, own in whole.by_group.items():
        for option in SHOWN:
            row = _row(option, own, given)
            if row["from"].startswith("tag of group"):
                yield {"group": cluster.groups[index].name, **row}


def _row(option: Option, settings: Settings, given: Settings) -> Json:
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


def _shown(value: Any) -> str:
    """The value as one would write it on the command line."""
    if value is True or value is False:
        return "yes" if value else "no"
    if value is None or (not value and value != 0):
        return "-"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
