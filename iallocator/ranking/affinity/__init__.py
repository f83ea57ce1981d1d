"""Placement keys: a node is good if it has values close to those that the instance asks for.

1. Constraints: both free memories of the node exceed the instance's memory and the
   overhead.
2. The keys of the instance are compiled, system and customer apart (`compiling`).
3. So are those of the nodes (`ledger`).
4. System rounds: the affinity of the system keys must be above a threshold that falls
   from round to round; the earlier the round, the better the node.
5. Customer round: within a round the higher affinity of the customer keys wins, then
   who breaks the least of what the instance should do, then the name, or with ``--seed``
   chance.
6. The sticky keys of the chosen node are told, as tags for the instance.

Both affinities follow from the node and the instance alone, so that nodes of several
groups, or what is left of them after N+1, have the same rank as if each choice were
made anew.
"""

from __future__ import annotations

from itertools import islice

from iallocator.ranking.affinity.node_keys import Ledger
from iallocator.ranking.affinity.thresholds import affinity, round_of, thresholds
from iallocator.ranking.base import NodeRanking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.ranking.affinity.key_merge import Compiled
    from iallocator.ranking.affinity.node_keys import NodeKeys
    from iallocator.ranking.base import RankQuery

__all__ = ["order"]

Tie = tuple[bytes, int]

BROKEN = "cost of what it should not do"


def order(query: RankQuery, nodes: Sequence[int]) -> NodeRanking:
    """Rank `nodes` by round, customer affinity and name; refuse those that reach no round.

    Cost: the keys of every node once per request, those of nodes that changed again;
    then a few microseconds per node, one for those asked for the same instance again.
    """
    kept = query.context.kept
    ledger = kept.get("affinity")
    if ledger is None:
        ledger = kept["affinity"] = Ledger(query.context)
    rules = kept.get("affinity rules")
    if rules is None or rules.instance is not query.instance:
        rules = kept["affinity rules"] = _Rules(ledger, query)
    return _KeyOrder(rules, query, nodes)


class _Standing:
    """How one node stands: its round (0 is the first; None: refused) and both affinities."""

    __slots__ = ("customer", "node", "refusal", "round", "system")

    def __init__(
        self, node: NodeKeys, number: int | None, system: float, customer: float, refusal: str
    ) -> None:
        self.node = node
        self.round = number
        self.system = system
        self.customer = customer
        self.refusal = refusal


class _Rules:
    """What the rules say of single nodes, for one instance."""

    __slots__ = ("_context", "_known", "_limits", "instance", "ledger", "subject")

    def __init__(self, ledger: Ledger, query: RankQuery) -> None:
        self.ledger = ledger
        self.instance = query.instance
        self.subject: Compiled = ledger.subject(query.instance)
        self._context = query.context
        self._limits: dict[int, tuple[float, Sequence[float]]] = {}
        self._known: dict[int, _Standing] = {}

    def standing(self, index: int) -> _Standing:
        """How a node stands as the state is now."""
        node = self.ledger.node(index)
        known = self._known.get(index)
        if known is None or known.node is not node:
            known = self._known[index] = self._judged(index, node)
        return known

    def limits(self, index: int) -> tuple[float, Sequence[float]]:
        """The memory that has to be exceeded, MiB, and the thresholds, as the node's group says."""
        group = self._context.cluster.nodes[index].group
        found = self._limits.get(group.index)
        if found is None:
            settings = self._context.settings_of(group)
            found = self._limits[group.index] = (
                self.instance.memory + settings.affinity_overhead,
                thresholds(settings.initial_msav, settings.final_msav, settings.msav_steps),
            )
        return found

    def _judged(self, index: int, node: NodeKeys) -> _Standing:
        subject = self.subject
        needed, steps = self.limits(index)
        if node.uncontended <= needed or node.contended <= needed:
            return _Standing(node, None, 0, 0, _lacks_memory(node, needed))
        system = affinity(subject.system, node.system)
        number = round_of(system, steps)
        if number is None:
            refusal = _too_low(system, steps[-1], subject, node)
            return _Standing(node, None, system, 0, refusal)
        return _Standing(node, number, system, affinity(subject.customer, node.customer), "")


class _KeyOrder(NodeRanking):
    """The order of nodes by placement keys."""

    __slots__ = ("_costs", "_query", "_rules", "_standings", "_ties")

    def __init__(self, rules: _Rules, query: RankQuery, nodes: Sequence[int]) -> None:
        self._rules = rules
        self._query = query
        self._ties: dict[int, Tie] = {}
        self._costs = query.costs(nodes)
        standings = {index: rules.standing(index) for index in nodes}
        self._standings = standings
        passed = [index for index, found in standings.items() if found.round is not None]
        passed.sort(key=self._rank)
        refused = {i: found.refusal for i, found in standings.items() if found.round is None}
        super().__init__(passed, refused)

    def _rank(self, index: int) -> tuple[float, float, float, Tie]:
        """The threshold, not the number of its round: groups may have rounds of their own."""
        standing = self._standings[index]
        threshold = self._rules.limits(index)[1][standing.round or 0]
        return -threshold, -standing.customer, self._costs.get(index, 0.0), self._tie(index)

    def _tie(self, index: int) -> Tie:
        """What decides between equals: the name, after what the seed makes of it."""
        seed = self._seed(index)
        if seed is None:
            return b"", index
        if index not in self._ties:
            from hashlib import blake2b

            name = self._query.context.cluster.nodes[index].name
            text = f"{seed}\n{self._query.instance.name}\n{self._query.role}\n{name}"
            self._ties[index] = blake2b(text.encode(), digest_size=8).digest(), index
        return self._ties[index]

    def _seed(self, index: int) -> int | None:
        context = self._query.context
        return context.settings_of(context.cluster.nodes[index].group).seed

    def criteria(self, index: int) -> list[tuple[str, str]]:
        """The round and the customer affinity, which decide; then what they are made of."""
        standing, (_, steps) = self._standings[index], self._rules.limits(index)
        node, subject = standing.node, self._rules.subject
        if standing.refusal:
            rows = [("refused", standing.refusal)]
        else:
            number = standing.round or 0
            above = f"{steps[number]:.10g}"
            rows = [
                ("system round", f"{number + 1} of {len(steps)}, above {above}"),
                ("customer affinity", f"{standing.customer:.10g}"),
                *([(BROKEN, f"{self._costs.get(index, 0.0):.10g}")] if self._costs else []),
                ("system affinity", f"{standing.system:.10g}"),
            ]
        for kind, wanted, found in (
            ("system", subject.system, node.system),
            ("customer", subject.customer, node.customer),
        ):
            for name in sorted(wanted):
                value, weight = wanted[name]
                rows.append((f"{kind} key {name}", _compared(value, weight, found.get(name, {}))))
        rows.append(("uncontended free memory", f"{node.uncontended:.10g} MiB"))
        rows.append(("contended free memory", f"{node.contended:.10g} MiB"))
        return rows

    def decided(self, first: int, second: int) -> str:
        """The first of the three rules at which nodes differ; the others explain these."""
        count = 3 if self._costs else 2
        pairs = zip(self.criteria(first), self.criteria(second))
        for (rule, mine), (_, other) in islice(pairs, count):
            if mine != other:
                return f"{rule}: {mine} against {other}"
        seed = self._seed(first)
        chance = "the first by name is taken" if seed is None else f"drawn with --seed {seed}"
        return f"equal in round and customer affinity; of equals {chance}"

    def extra(self, index: int) -> dict[str, Any]:
        """The sticky keys of the node that the instance will run on."""
        home = self._query.beside[0] if self._query.beside else index
        return {"sticky_keys": list(self._rules.ledger.sticky(home))}


def _lacks_memory(node: NodeKeys, needed: float) -> str:
    kind, free = "uncontended", node.uncontended
    if free > needed:
        kind, free = "contended", node.contended
    return f"needs more than {needed} MiB with the overhead, {kind} {max(0, free):.10g} MiB free"


def _too_low(system: float, last: float, subject: Compiled, node: NodeKeys) -> str:
    """``system affinity -45 is not above -10 (production -50, #LOAD 5)``, the worst first."""
    parts = [
        (affinity({name: wanted}, node.system), name) for name, wanted in subject.system.items()
    ]
    made_of = ", ".join(f"{name} {amount:.10g}" for amount, name in sorted(parts) if amount)
    reason = f"system affinity {system:.10g} is not above {last:.10g}"
    return f"{reason} ({made_of})" if made_of else reason


def _compared(value: float, weight: float, found: dict[float, int]) -> str:
    """``weight 50 for 1; here 0.5, 1 (3 times)``."""
    here = [
        f"{other:.10g}" + (f" ({count} times)" if count > 1 else "")
        for other, count in sorted(found.items())
    ]
    return f"weight {weight:.10g} for {value:.10g}; here {', '.join(here) or 'not set'}"
