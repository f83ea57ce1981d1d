"""The command ``constraints``."""

from __future__ import annotations

import sys

from iallocator.commands.command import Command, Result
from iallocator.constraints.affinity_factory import relations_of
from iallocator.constraints.listing import Listing
from iallocator.constraints.tag_findings import all_findings
from iallocator.model.constraints import Constraint
from iallocator.names import domains_of, whole_name
from iallocator.options.settings import REQUEST_SETTINGS
from iallocator.render.table import Column, Page, Table, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.commands.other_options import Constraints as Settings
    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.constraints import SharedConstraint, TagFinding
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings as Common
    from iallocator.sources import Source

__all__ = ["Constraints"]

SHOWN = 3
"""How many members of a set the table names."""


class Constraints(Command):
    """Lists what restricts the placements of a document, and where it comes from."""

    reads_request = True
    settings: Settings

    def plan(self, source: Source, settings: Common, deadline: Deadline) -> Result:
        """List the constraints.

        Those of one instance, or of one kind, are listed completely.  Otherwise the list leaves
        out what every instance has.
        """
        own, cluster = self.settings, source.cluster
        wanted = self.request.new if self.request else ()
        new = [one.instance for one in wanted]
        relations = relations_of(cluster, new, own.tag_prefix)
        problems: list[str] = []
        if own.instance:
            known = [one.name for one in (*cluster.instances, *new)]
            own.instance = whole_name(own.instance, known, "--instance", "instance")
        everything = bool(own.all or own.instance or own.kind)
        listing = Listing(cluster, wanted, relations, settings, problems, everything)
        found = [
            one
            for one in listing.constraints()
            if (not own.instance or one.binds(own.instance))
            and own.strength in ("", one.strength)
            and own.kind in ("", one.kind)
        ]
        named = [*cluster.instances, *new]
        doubts = all_findings(cluster, named, own.tag_prefix, relations, REQUEST_SETTINGS)
        unusable = _unusable(relations, new, problems, doubts)
        names = [node.name for node in cluster.nodes]
        domains = domains_of(names, (instance.name for instance in named))
        return ConstraintList(found, unusable, doubts, domains)


class ConstraintList(Result):
    """Constraints, and tags that cannot be used or are doubtful."""

    def __init__(
        self,
        found: Sequence[Constraint | SharedConstraint],
        unusable: Sequence[str],
        doubts: Sequence[TagFinding],
        domains: Sequence[str],
    ) -> None:
        super().__init__({
            "constraints": [constraint.document() for constraint in found],
            "unusable": list(unusable),
            "tag_findings": [one.document() for one in doubts],
        })  # fmt: skip
        self._found = found
        self._unusable = unusable
        self._doubts = doubts
        self._domains = domains

    def text(self) -> str:
        """Return the constraints as a table."""
        table = Table(
            Column("instance"), Column("kind"), Column("strength"), Column("weight", number=True),
            Column("what"), Column("from"),
        )  # fmt: skip
        for c in self._found:
            weight = "" if c.must else f"{c.weight:g}"
            bound = c.instance if isinstance(c, Constraint) else _some(c.members)
            table.add(bound, c.kind, c.strength, weight, c.what, c.origin)
        page = Page(wants_colour(sys.stdout), domains=self._domains)
        page.table(table, indent=0)
        for tag in self._unusable:
            page.say(f"not usable: {tag}", "bad", indent=0)
        for one in self._doubts:
            page.say(f"{one.kind}: {one}", "bad", indent=0)
        page.say_left_out()
        return page.text()


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


def _some(names: Sequence[str]) -> str:
    """Names for a cell: of many the first, and how many there are."""
    few = ", ".join(names[:SHOWN])
    return few if len(names) <= SHOWN else f"{few} and {len(names) - SHOWN} more"
