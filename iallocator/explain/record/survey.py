"""What every node of a group says to an instance, at the moment when it is asked.

One way to ask for each way that an instance comes to a node: see
`iallocator.placement.trace` for the kinds.
"""

from __future__ import annotations

from iallocator.explain.facts import NodeReport, Refusal
from iallocator.explain.record.limits import RolesTested, exclusions, first_of, node_reports
from iallocator.explain.record.nearest_miss import closest, lost_by_n1
from iallocator.limits.node import ABANDONED, FORCED_LIMITS, PRIMARY, SECONDARY
from iallocator.limits.refusal import migration_refusal
from iallocator.placement.motions import Motion
from iallocator.planners.check.policy import policy_breach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.explain.group_report import GroupReport
    from iallocator.model.instance import Instance
    from iallocator.n1.check import N1Check
    from iallocator.placement.context import Context
    from iallocator.placement.question import Question
    from iallocator.placement.trace import Deciding
    from iallocator.placement.verdict.what_if import WhatIf

    Nodes = tuple[int, ...]

__all__ = ["Survey"]

LEFT = "is to be evacuated"
RESTRICTED = "not in the list of nodes to which the request is restricted"

STAYS = {
    "moved": ("holds it now",),
    "pair": ("holds it now", "holds it now"),
    "mirror": ("is the primary, which stays", "holds the mirror now"),
    "exchange": ("is the primary now, and becomes the secondary",),
}
"""Kind -> why the nodes that an instance is on are no targets, primary first."""


class Survey:
    """The nodes of a group that are asked to take an instance, which is off the state."""

    def __init__(self, context: Context, evaluator: Deciding, question: Question) -> None:
        self._context = context
        self._group = evaluator.group
        self._kind = kind = question.kind
        self._instance = instance = question.instance
        self._mirror: WhatIf | None = None
        self._source: int | None = None
        self._breach = ""
        present, primaries, motion = question.present, question.primaries, question.motion
        refusals, mirrors, answer = question.refusals, question.mirrors, question.answer
        worded = self._worded(present, refusals)
        on_primary = PRIMARY
        if kind == "mirror" and context.settings.ways.tests_primary_again:
            motion = Motion("mirror", FORCED_LIMITS, motion.secondary)
        elif kind == "mirror":
            on_primary = ()
        prospect = evaluator.what_if(instance, motion, on_primary=on_primary)
        pairs = kind in ("mirror", "pair") or (kind == "new" and instance.required_nodes == 2)
        self._barred: Collection[int] = tuple(worded)
        if kind == "pair":
            self._source = present[0]
            self._mirror = evaluator.what_if(instance, self._off(evaluator, present[1]))
            worded |= self._on_the_way(evaluator, present, refusals, worded)
        elif kind == "exchange" and answer is not None:
            worded = {present[1]: worded.get(present[1]) or Refusal(answer.reason, answer.text)}
            own = first_of(prospect.primary_failures(present[1]))
            self._barred = () if own and own.reason == answer.reason else tuple(worded)
        if not all(index in self._barred for index in primaries):
            self._breach = ""
        seconds = [index for index in question.secondaries if index not in mirrors]
        self._seats = RolesTested(
            prospect, list(primaries), seconds if pairs else None, worded,
            self._out_as_mirrors(mirrors, primaries),
        )  # fmt: skip

    def reports(self, left: Collection[int], earlier: GroupReport | None) -> list[NodeReport]:
        """A report on every node of the group.

        `left`: nodes that instances are taken off.  `earlier` is what was said the last
        time, which stands for nodes that are not asked again.
        """
        seats = self._seats
        asked = {*seats.primaries, *(seats.secondaries or ()), *seats.out_as_mirrors}
        if self._kind == "mirror" and not self._context.settings.ways.tests_primary_again:
            asked -= set(self._seats.primaries)
        before = {node.name: node for node in earlier.nodes} if earlier else {}
        excluded = {
            index: [] if index in asked else self._excluded(index, left)
            for index in self._group.nodes
        }
        found = node_reports(self._context, self._group, self._seats, excluded)
        return [
            before[node.name] if node.excluded == [RESTRICTED] and node.name in before else node
            for node in found
        ]

    def closest(
        self,
        check: N1Check | None = None,
        refused: tuple[float, Nodes] | None = None,
        judged: Instance | None = None,
    ) -> str:
        """What came closest; `refused` is the best placement that N+1 alone refused."""
        if refused is not None and check is not None:
            return lost_by_n1(self._context, check, judged or self._instance, refused[1])
        if self._breach:
            return self._breach
        return closest(self._context, self._seats, self._barred, self._mirror, self._source)

    def _out_as_mirrors(
        self, mirrors: Mapping[int, str], primaries: Sequence[int]
    ) -> dict[int, Refusal]:
        """Why nodes may not be the secondary of any of the `primaries`."""
        if not mirrors:
            return {}
        told = self._context.bonds.refusal_texts(self._instance, mirrors)
        return {
            index: Refusal(reason, told[index], placements=len(primaries) - (index in primaries))
            for index, reason in mirrors.items()
        }

    def _off(self, evaluator: Deciding, source: int) -> Motion:
        return evaluator.motions.off(self._context.cluster.nodes[source])

    def _excluded(self, index: int, left: Collection[int]) -> list[str]:
        """Why a node of the group is not asked."""
        found = exclusions(self._context.cluster.nodes[index], None)
        if index in left and self._kind != "exchange":
            return [*found, LEFT]
        present = self._instance.nodes
        if self._kind != "new" and index in present:
            words = STAYS[self._kind]
            position = present.index(index)
            return [*found, words[min(position, len(words) - 1)]]
        if self._kind == "exchange":
            return [*found, "does not hold its mirror"]
        return found or [RESTRICTED]

    def _worded(self, present: Nodes, refusals: Mapping[int, str]) -> dict[int, Refusal]:
        """The refusals that no resource would help against, with what they say."""
        cluster, found = self._context.cluster, {}
        bonds = self._context.bonds
        bound = bonds.refused(self._instance, refusals) if refusals else {}
        told = bonds.refusal_texts(self._instance, bound) if bound else {}
        for index, reason in refusals.items():
            node = cluster.nodes[index]
            breach = migration = None
            if self._kind == "new":
                breach = policy_breach(self._group.policy, self._instance, node.exclusive_storage)
            elif present:
                migration = migration_refusal(cluster, present[0], index)
            if breach:
                found[index] = Refusal(reason, breach)
                self._breach = breach
            elif migration is not None:
                found[index] = Refusal(reason, migration.text)
            elif index in told:
                found[index] = Refusal(reason, told[index])
        return found

    def _on_the_way(
        self,
        evaluator: Deciding,
        present: Nodes,
        refusals: Mapping[int, str],
        barred: Collection[int],
    ) -> dict[int, Refusal]:
        """What the steps before a new primary is one meet: it must take the mirror first."""
        assert self._mirror is not None
        old = present[0]
        source = self._context.cluster.nodes[old]
        motion = self._off(evaluator, old)
        checks = SECONDARY if source.online else ABANDONED
        behind = evaluator.what_if(self._instance, motion, on_secondary=checks)
        found, stuck = {}, []
        for index in refusals:
            if index in barred:
                continue
            first = first_of(self._mirror.secondary_failures(index, old))
            if first is not None:
                found[index] = Refusal(first.reason, first.text, step=f"as mirror of {source.name}")
                continue
            kept = first_of(behind.secondary_failures(old, index))
            if kept is not None:
                text = f"{source.name} as the secondary then: {kept.text}"
                found[index] = Refusal(
                    kept.reason, text, step=f"in the failover from {source.name}"
                )
                stuck.append(index)
        self._barred = (*self._barred, *stuck)
        return found
