"""What is tested of which node when a group is asked to take an instance, with the words.

One way to ask for each way that an instance comes to a node: see
`iallocator.placement.trace` for the kinds.
"""

from __future__ import annotations

from iallocator.limits.breach import policy_breach
from iallocator.limits.node import ABANDONED, FORCED_LIMITS, PRIMARY, SECONDARY, RoleLimits
from iallocator.limits.rejection import Rejection, migration_rejection
from iallocator.placement.limit_policy import LimitPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.limits.node import Check
    from iallocator.placement.context import Context
    from iallocator.placement.trace import NodeQuery, TracedEvaluator
    from iallocator.placement.what_if import WhatIf


__all__ = ["RolesTested", "first_of", "roles_of"]


class RolesTested:
    """What is tested where.

    Attributes
    ----------
    primaries:
        The nodes that are tested as the primary, or as the only node.
    secondaries:
        Those that are tested as the secondary; None for instances on one node.
    rejections:
        What else speaks against a primary, before its own limits.
    out_as_mirrors:
        What speaks against nodes as secondaries that are not tested as such, therefore.
    barred:
        Those of the primaries that no resource would help.
    breach:
        What the group's policy says, where that bars all of them; else "".
    mirror, source:
        Where a new primary must become the secondary of the node `source` before: what
        limits that step.
    """

    __slots__ = (
        "barred", "breach", "mirror", "out_as_mirrors", "primaries", "prospect", "rejections",
        "secondaries", "source",
    )  # fmt: skip

    def __init__(
        self,
        prospect: WhatIf,
        primaries: Sequence[int],
        secondaries: Sequence[int] | None,
        rejections: Mapping[int, Rejection],
        out_as_mirrors: Mapping[int, Rejection] | None = None,
    ) -> None:
        self.prospect = prospect
        self.primaries = primaries
        self.secondaries = secondaries
        self.rejections = rejections
        self.out_as_mirrors = out_as_mirrors or {}
        self.barred: Collection[int] = ()
        self.breach = ""
        self.mirror: WhatIf | None = None
        self.source: int | None = None

    def first(self, index: int) -> Rejection | None:
        """The first thing that speaks against node `index` as the primary."""
        return self.rejections.get(index) or first_of(self.prospect.primary_failures(index))


def first_of(failures: Sequence[tuple[Check, str]]) -> Rejection | None:
    """The limit that is broken first, if any is."""
    return Rejection(failures[0][0].reason, failures[0][1]) if failures else None


def roles_of(context: Context, evaluator: TracedEvaluator, query: NodeQuery) -> RolesTested:
    """What `query` tests of whom; its instance is off the state."""
    return _Reader(context, evaluator, query).roles()


class _Reader:
    """Makes roles of one query."""

    def __init__(self, context: Context, evaluator: TracedEvaluator, query: NodeQuery) -> None:
        self._context = context
        self._evaluator = evaluator
        self._query = query
        self._instance = query.instance

    def roles(self) -> RolesTested:
        """What is tested of whom."""
        asked, limit_policy, on_primary = self._query, self._query.limit_policy, PRIMARY
        if asked.kind == "mirror" and self._context.settings.behaviour.tests_primary_again:
            limit_policy = LimitPolicy("mirror", FORCED_LIMITS, limit_policy.secondary)
        elif asked.kind == "mirror":
            on_primary = RoleLimits()
        prospect = self._evaluator.what_if(self._instance, limit_policy, on_primary=on_primary)
        worded, breach = self._worded()
        barred = set(worded)
        mirror = source = None
        if asked.kind == "pair":
            source = asked.present[0]
            mirror = self._evaluator.what_if(self._instance, self._off(asked.present[1]))
            on_the_way, stuck = self._on_the_way(mirror, worded)
            worded |= on_the_way
            barred.update(stuck)
        elif asked.kind == "exchange" and asked.answer is not None:
            index = asked.present[1]
            worded = {index: worded.get(index) or asked.answer}
            own = first_of(prospect.primary_failures(index))
            barred = set() if own and own.reason == asked.answer.reason else {index}
        found = RolesTested(
            prospect, list(asked.primaries), self._seconds(), worded, self._out_as_mirrors()
        )
        found.barred, found.mirror, found.source = barred, mirror, source
        found.breach = breach if all(index in barred for index in asked.primaries) else ""
        return found

    def _seconds(self) -> list[int] | None:
        """Who is asked as the secondary; None for instances on one node."""
        asked = self._query
        new_pair = asked.kind == "new" and self._instance.required_nodes == 2
        if asked.kind not in ("mirror", "pair") and not new_pair:
            return None
        return [index for index in asked.secondaries if index not in asked.mirrors]

    def _out_as_mirrors(self) -> dict[int, Rejection]:
        """Why nodes may not be the secondary of any primary."""
        mirrors = self._query.mirrors
        told = self._context.bonds.rejection_texts(self._instance, mirrors) if mirrors else {}
        return {index: Rejection(why, told[index]) for index, why in mirrors.items()}

    def _off(self, source: int) -> LimitPolicy:
        return self._evaluator.limit_policies.off(self._context.cluster.nodes[source])

    def _worded(self) -> tuple[dict[int, Rejection], str]:
        """The rejections that no resource would help against; what the policy says, or ""."""
        asked, bonds, cluster = self._query, self._context.bonds, self._context.cluster
        bound = bonds.rejected(self._instance, asked.rejections) if asked.rejections else {}
        told = bonds.rejection_texts(self._instance, bound) if bound else {}
        found, last = {}, ""
        for index, reason in asked.rejections.items():
            breach = self._breach(index) if asked.kind == "new" else ""
            migration = None
            if asked.kind != "new" and asked.present:
                migration = migration_rejection(cluster, asked.present[0], index)
            last = breach or last
            text = breach or (migration.text if migration else told.get(index))
            if text is not None:
                found[index] = Rejection(reason, text)
        return found, last

    def _breach(self, index: int) -> str:
        """What the policy of the group says to a new instance on a node."""
        exclusive = self._context.cluster.nodes[index].exclusive_storage
        return policy_breach(self._evaluator.group.policy, self._instance, exclusive)

    def _on_the_way(
        self, mirror: WhatIf, barred: Collection[int]
    ) -> tuple[dict[int, Rejection], list[int]]:
        """What the steps before a new primary is one meet: it must take the mirror first.

        And those of them that no resource of their own would help.
        """
        asked = self._query
        old = asked.present[0]
        source = self._context.cluster.nodes[old]
        checks = SECONDARY if source.online else ABANDONED
        behind = self._evaluator.what_if(self._instance, self._off(old), on_secondary=checks)
        found, stuck = {}, []
        for index in asked.rejections:
            if index in barred:
                continue
            first = first_of(mirror.secondary_failures(index, old))
            if first is not None:
                step = f"as mirror of {source.name}"
                found[index] = Rejection(first.reason, first.text, step=step)
                continue
            kept = first_of(behind.secondary_failures(old, index))
            if kept is not None:
                text = f"{source.name} as the secondary then: {kept.text}"
                step = f"in the failover from {source.name}"
                found[index] = Rejection(kept.reason, text, step=step)
                stuck.append(index)
        return found, stuck
