"""Placement keys: a node is good if it has values close to those that the instance requests.

1. Constraints: both free memories of the node exceed the instance's memory and the overhead.
2. The keys of the instance are compiled, system and customer keys apart.
3. The keys of the nodes are compiled in the same way (`node_keys`).
4. System rounds: the affinity of the system keys must exceed a threshold that falls from round to
   round; the earlier the round, the better the node.
5. Customer round: within a round the node with the higher affinity of the customer keys wins, then
   the node that violates the fewest soft constraints, then the name, or chance with ``--seed``.
6. The sticky keys of the chosen node are reported, as tags for the instance.

Both affinities follow from the node and the instance alone.  Nodes of several groups, and the
nodes that remain after N+1, therefore have the ranks that a new choice would give them.
"""

from __future__ import annotations

from itertools import islice

from iallocator.ranking.affinity.node_keys import Ledger
from iallocator.ranking.base import NodeRanking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.ranking.affinity.node_keys import Compiled, NodeKeys
    from iallocator.ranking.base import RankQuery

__all__ = ["DECIMALS", "affinity", "order", "round_of", "thresholds"]

DECIMALS = 10
"""Affinities are rounded to this many decimals before they are compared."""


def affinity(
    wanted: Mapping[str, tuple[float, float]], found: Mapping[str, Mapping[float, int]]
) -> float:
    """How well what is `found` on a node suits what an instance has `wanted`.

    `wanted`: name -> value and weight; `found`: name -> value -> how often.  Each
    counts for its weight times max(0, 1 - |difference of the values|).
    """
    total = 0.0
    for name, (value, weight) in wanted.items():
        here = found.get(name)
        if here is not None:
            for other, count in here.items():
                near = 1.0 - abs(value - other)
                if near > 0:
                    total += weight * near * count
    return round(total, DECIMALS)


def thresholds(initial: float, final: float, steps: int) -> Sequence[float]:
    """The threshold of each round, evenly from `initial` to `final`; of a single one: `final`."""
    if steps < 2:
        return (final,)
    step = (final - initial) / (steps - 1)
    return [round(initial + number * step, DECIMALS) for number in range(steps)]


def round_of(score: float, steps: Sequence[float]) -> int | None:
    """The first round whose threshold `score` is above; None if there is none."""
    for number, threshold in enumerate(steps):
        if score > threshold:
            return number
    return None


Tie = tuple[bytes, int]

BROKEN = "cost of what it should not do"


def order(query: RankQuery, nodes: Sequence[int]) -> NodeRanking:
    """Rank `nodes` by round, customer affinity and name; reject those that reach no round.

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
    """How one node stands: its round (0 is the first; None: rejected) and both affinities."""

    __slots__ = ("customer", "node", "rejection", "round", "system")

    def __init__(
        self, node: NodeKeys, number: int | None, system: float, customer: float, rejection: str
    ) -> None:
        self.node = node
        self.round = number
        self.system = system
        self.customer = customer
        self.rejection = rejection


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
            # `system affinity -45 is not above -10 (production -50, #LOAD 5)`, the worst first
            last = steps[-1]
            parts = [
                (affinity({name: wanted}, node.system), name)
                for name, wanted in subject.system.items()
            ]
            made_of = ", ".join(f"{name} {amount:.10g}" for amount, name in sorted(parts) if amount)
            reason = f"system affinity {system:.10g} is not above {last:.10g}"
            rejection = f"{reason} ({made_of})" if made_of else reason
            return _Standing(node, None, system, 0, rejection)
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
        rejected = {i: found.rejection for i, found in standings.items() if found.round is None}
        super().__init__(passed, rejected)

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
        if standing.rejection:
            rows = [("refused", standing.rejection)]
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


def _compared(value: float, weight: float, found: dict[float, int]) -> str:
    """``weight 50 for 1; here 0.5, 1 (3 times)``."""
    here = [
        f"{other:.10g}" + (f" ({count} times)" if count > 1 else "")
        for other, count in sorted(found.items())
    ]
    return f"weight {weight:.10g} for {value:.10g}; here {', '.join(here) or 'not set'}"
