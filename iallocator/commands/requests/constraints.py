"""``iallocator constraints``: what binds the placements of a document, and where it comes from."""

from __future__ import annotations

import sys

from iallocator.commands.shared.plan_output import print_json
from iallocator.commands.shared.source import load_source
from iallocator.constraints.affinity_factory import relations_of
from iallocator.constraints.listing import constraints_of
from iallocator.constraints.tag_findings import all_findings
from iallocator.engine import effective_settings, request_in
from iallocator.errors import tell
from iallocator.files import WholeOutput
from iallocator.model.constraints import KINDS, MUST, SHOULD, Constraint
from iallocator.names import domains_of, whole_name
from iallocator.options import settings as options
from iallocator.options.table import Option
from iallocator.options.values import choice
from iallocator.render.table import Column, Page, Table, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.constraints import SharedConstraint, TagFinding
    from iallocator.model.instance import Instance

    Listed = Sequence[Constraint | SharedConstraint]

__all__ = ["OPTIONS", "USAGE", "Settings", "run"]

USAGE = "[OPTIONS] [FILE]"

SHOWN = 3
"""How many members of a set the table names."""

OPTIONS = (
    Option("--json", "json", "write the constraints as one JSON document"),
    Option("--instance", "instance", "only those of this instance", str, "NAME"),
    Option(
        "--strength",
        "strength",
        "only those that must, or should, hold",
        choice(MUST, SHOULD),
        "must|should",
    ),
    Option("--all", "all", "also what every instance has anyway: its size, two roles if mirrored"),
    Option("--kind", "kind", "only those of this kind", choice(*KINDS), "|".join(KINDS)),
)


class Settings(options.Settings):
    """The settings of every request, and what to list."""

    json: bool = False
    all: bool = False
    instance: str = ""
    strength: str = ""
    kind: str = ""


def run(settings: Settings, positional: Sequence[str]) -> int:
    """List the constraints of the document in the file (- or none: stdin).

    Of one instance, or of one kind, all that there is; else not what all have anyway.
    """
    source = load_source(settings, positional)
    request = request_in(source.document, source.cluster, settings)
    remarks: list[str] = []
    whole = effective_settings(source.cluster, request.asked if request else {}, settings, remarks)
    tell(*remarks)
    wanted = request.new if request else ()
    new = [one.instance for one in wanted]
    relations = relations_of(source.cluster, new, settings.tag_prefix)
    problems: list[str] = []
    if settings.instance:
        known = [one.name for one in (*source.cluster.instances, *new)]
        settings.instance = whole_name(settings.instance, known, "--instance", "instance")
    everything = bool(settings.all or settings.instance or settings.kind)
    every = list(constraints_of(source.cluster, wanted, relations, whole, problems, everything))
    found = [one for one in every if _asked(one, settings)]
    named = [*source.cluster.instances, *new]
    doubts = all_findings(source.cluster, named, settings.tag_prefix, relations)
    unusable = _unusable(relations, new, problems, doubts)
    with WholeOutput():
        if settings.json:
            _write_json(found, unusable, doubts)
        else:
            nodes = [node.name for node in source.cluster.nodes]
            domains = domains_of(nodes, (instance.name for instance in named))
            _write_table(found, unusable, doubts, domains)
    return 0


def _asked(one: Constraint | SharedConstraint, settings: Settings) -> bool:
    """Whether options ask for this constraint."""
    return (
        (not settings.instance or one.binds(settings.instance))
        and settings.strength in ("", one.strength)
        and settings.kind in ("", one.kind)
    )


def _unusable(
    relations: Relations | None,
    new: Sequence[Instance],
    problems: Iterable[str],
    doubts: Sequence[TagFinding],
) -> list[str]:
    """Tags that cannot be used, chains of musts that cannot be kept; what is not told anyway."""
    told = tuple(f"Warning: {one.owner}: tag {one.tag} " for one in doubts)
    found: list[str] = []
    if relations is not None:
        chains = relations.unsupported([one.name for one in new])
        found += [*relations.unusable, *(f"{name}: {chain}" for name, chain in chains.items())]
    new_ones = (p.removeprefix("Warning: ") for p in problems if not p.startswith(told))
    return [*found, *new_ones]


def _write_json(found: Listed, unusable: Sequence[str], doubts: Sequence[TagFinding]) -> None:
    document = {
        "constraints": [constraint.document() for constraint in found],
        "unusable": list(unusable),
        "tag_findings": [one.document() for one in doubts],
    }
    print_json(document)


def _write_table(
    found: Listed, unusable: Sequence[str], doubts: Sequence[TagFinding], domains: Sequence[str]
) -> None:
    table = Table(
        Column("instance"), Column("kind"), Column("strength"), Column("weight", number=True),
        Column("what"), Column("from"),
    )  # fmt: skip
    for c in found:
        weight = "" if c.must else f"{c.weight:g}"
        bound = c.instance if isinstance(c, Constraint) else _some(c.members)
        table.add(bound, c.kind, c.strength, weight, c.what, c.origin)
    page = Page(wants_colour(sys.stdout), domains=domains)
    page.table(table, indent=0)
    for tag in unusable:
        page.say(f"not usable: {tag}", "bad", indent=0)
    for one in doubts:
        page.say(f"{one.kind}: {one}", "bad", indent=0)
    page.say_left_out()
    sys.stdout.write(page.text())


def _some(names: Sequence[str]) -> str:
    """Names for a cell: of many the first, and how many there are."""
    few = ", ".join(names[:SHOWN])
    return few if len(names) <= SHOWN else f"{few} and {len(names) - SHOWN} more"
