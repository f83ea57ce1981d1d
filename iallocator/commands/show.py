"""The commands that display a cluster, its settings and constraints, and captured calls.

Modules that only some of the commands need are imported in the functions.
"""

from __future__ import annotations

import time

from iallocator.commands import COMMANDS, commands_with, options_of, shown_name
from iallocator.commands.command import Result
from iallocator.constraints import relations_of
from iallocator.deadline import Deadline, limit_reached
from iallocator.engine import read
from iallocator.errors import IallocatorError, UsageError, many, tell
from iallocator.files import read_file
from iallocator.names import domains_of, whole_name
from iallocator.options.settings import REQUEST_SETTINGS, configuration_path
from iallocator.planners.eligible import group_named
from iallocator.render import TEXT
from iallocator.units import DAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.options.settings import Settings
    from iallocator.options.table import Option

__all__ = ["config", "constraints", "history", "report", "show"]

NO_SETTINGS = {"help", "version", "validate", "no_capacity_checks", "config", "no_config"}
"""Attributes of options that are not listed as settings: they choose another output or a file."""


def show(command: Command, deadline: Deadline) -> Result:
    """Show groups, networks, statistics, nodes, and instances."""
    from iallocator.commands.states import lists_of
    from iallocator.documents.overview import overview
    from iallocator.model.state import State

    settings, source = command.settings, command.source
    backwards = not settings.behaviour.orders_by_name
    only = group_named(source.cluster, settings.group) if settings.group else None
    document = overview(source, settings.print_nodes, backwards, only)
    lists = lists_of(State(source.cluster), settings, backwards, settings.group)
    return Shown(command, document, {"lists": lists})


def report(command: Command, deadline: Deadline) -> Result:
    """Show a cluster as a page for a browser, without the text of `show`."""
    return Shown(command)


class Shown(Result):
    """The present cluster as the result of a command: as text, or as an HTML page."""

    def __init__(
        self, command: Command, document: Json | None = None, facts: Json | None = None
    ) -> None:
        super().__init__(document, facts)
        self._command = command

    def facts(self, medium: str) -> Json:
        """Return the lists for the text, or the findings for the page within the time limit."""
        if medium == TEXT:
            return self._facts
        from iallocator.documents.cluster_facts import Examination, cluster_facts
        from iallocator.model.state import State

        source, settings = self._command.source, self._command.effective
        relations = relations_of(source.cluster, (), settings.tag_prefix, settings)
        how = Examination.of(settings, relations=relations)
        word = self._command.settings.group
        only = group_named(source.cluster, word) if word else None
        facts = {
            **cluster_facts(State(source.cluster), how, only=only),
            "master": source.master,
        }
        assert how.deadline is not None
        if how.deadline.over():
            tell(f"iallocator: {limit_reached(settings.planning_seconds)}")
        return facts


def config(command: Command, deadline: Deadline) -> Result:
    """List every setting with its value and its origin."""
    from iallocator.commands.common_options import table_of

    given, settings, cluster = command.settings, command.effective, command.source.cluster
    if given.group:
        index = group_named(cluster, given.group).index
        settings = settings.by_group.get(index, settings)
    options = [one for one in table_of("config") if one.target not in NO_SETTINGS]
    of_groups = [] if given.group else [
        {"group": cluster.groups[index].name, **row}
        for index, own in settings.by_group.items() for option in options
        if (row := _row(option, own, given))["from"].startswith("tag of group")
    ]  # fmt: skip
    return Result({
        "settings": [_row(option, settings, given) for option in options],
        "groups": of_groups,
        "commands": list(_command_rows(given)),
        "warnings": command.warnings,
    })  # fmt: skip


def _command_rows(settings: Settings) -> Iterator[Json]:
    """Yield the settings of single commands in tables of the configuration file."""
    from iallocator.commands.common_options import rejection_of

    path = configuration_path(settings)
    if not path:
        return
    from iallocator.configuration import Configuration

    file = Configuration(path, COMMANDS)
    for command in file.commands:
        table = options_of(command)
        names = {option.target: option.names[0] for option in table}
        for target, (value, origin) in file.of(
            command, table, rejection_of(command, table, shown_name(command), commands_with)
        ).items():
            yield {"command": command, "name": names[target][2:], "value": value, "from": origin}


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


def constraints(command: Command, deadline: Deadline) -> Result:
    """List the constraints on the placements in a document, and their origins.

    The constraints of one instance, or of one kind, are listed completely. Otherwise the list
    leaves out the constraints that every instance has.
    """
    from iallocator.constraints.listing import ListingFacts, list_constraints
    from iallocator.constraints.locations import by_pacemaker
    from iallocator.constraints.tag_findings import all_findings

    own, cluster = command.settings, command.source.cluster
    wanted = command.request.new if command.request else ()
    new = [one.instance for one in wanted]
    relations = relations_of(cluster, new, own.tag_prefix, command.effective)
    problems: list[str] = []
    if own.instance:
        known = [one.name for one in (*cluster.instances, *new)]
        own.instance = whole_name(own.instance, known, "--instance", "instance")
    everything = bool(own.all_rows or own.instance or own.kind)
    only = group_named(cluster, own.group) if own.group else None
    listed = ListingFacts(cluster, wanted, relations, command.effective, problems, everything, only)
    rows = [
        one
        for one in list_constraints(listed)
        if (not own.instance or one.binds(own.instance))
        and own.strength in ("", one.strength)
        and own.kind in ("", one.kind)
    ]
    named = [*cluster.instances, *new]
    whole = by_pacemaker(command.effective)
    findings = all_findings(cluster, named, own.tag_prefix, relations, REQUEST_SETTINGS, whole)

    # Tags that cannot be used, chains of hard constraints that cannot be satisfied, and problems
    # that are not among these findings
    unusable: list[str] = []
    if relations is not None:
        chains = relations.unsupported([one.name for one in new])
        unusable += [*relations.unusable, *(f"{name}: {chain}" for name, chain in chains.items())]
    reported = tuple(f"Warning: {one.owner}: tag {one.tag} " for one in findings)
    unusable += (p.removeprefix("Warning: ") for p in problems if not p.startswith(reported))

    names = [node.name for node in cluster.nodes]
    domains = domains_of(names, (instance.name for instance in named))
    document = {
        "constraints": [constraint.document() for constraint in rows],
        "unusable": unusable,
        "tag_findings": [one.document() for one in findings],
    }
    facts = {"domains": domains, "tag_findings": [(one.kind, str(one)) for one in findings]}
    return Result(document, facts)


def history(command: Command) -> Result:
    """List the captured calls of a folder, or the moves in a history of loads, oldest first."""
    from iallocator.commands.made_moves import has_loads, made_moves

    if has_loads(command.positional[0]):
        return made_moves(command)
    from iallocator.calls.history import read_history

    folder, settings = command.positional[0], command.settings
    calls = read_history(folder)
    if not calls:
        raise UsageError(f"{folder}: no captured calls; --capture FOLDER keeps them")
    if settings.verbose:
        tell(f"read {many(len(calls), 'call')}")
    for entry in calls:
        if entry.facts:
            continue
        try:  # the call was not noted when it ended: find out what was asked
            cluster, request = read(read_file(entry.request, settings.max_input), settings)
        except IallocatorError:  # then the request is unknown
            continue
        entry.facts = {"type": request.kind, "asked": request.summary(cluster)}
    since = 0.0 if settings.days is None else time.time() - settings.days * DAY
    wanted = [
        entry
        for entry in calls
        if settings.type in ("", entry.text("type"))
        and settings.outcome in ("", entry.outcome)
        and settings.text in f"{entry.text('asked')}\n{entry.answer_text}"
        and entry.time >= since
    ]
    wanted = wanted[-(settings.last or 0) :]
    if not wanted:
        tell(f"none of {len(calls)} captured calls matches")
    return Result({"calls": [entry.document() for entry in wanted]})
