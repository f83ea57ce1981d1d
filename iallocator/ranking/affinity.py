"""Rank nodes by placement keys: a node is better the closer its values are to the instance's.

1. Constraints: the free memory of the node, with contention and without, exceeds the instance's
   memory and the overhead.
2. The keys of the instance are compiled, system and customer keys apart.
3. The keys of the nodes are compiled in the same way (`NodeKeys`).
4. System rounds: the affinity of the system keys must exceed a threshold that falls from round to
   round; the earlier the round, the better the node.
5. Customer round: within a round, the node with the higher affinity of the customer keys wins, then
   the node that violates the fewest soft constraints, then the name, or chance with ``--seed``.
6. The sticky keys of the chosen node are reported, as tags for the instance.

Both affinities follow from the node and the instance alone.  Nodes of several groups, and the nodes
that remain after N+1, therefore have the ranks that a new choice would give them.
"""

from __future__ import annotations

from itertools import islice

from iallocator.model.keys import LEVELS, in_force
from iallocator.model.state import derived
from iallocator.ranking.base import NodeRanking
from iallocator.tags.placement_keys import NodeTags, ResourceTags
from iallocator.tolerances import SCORE_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.keys import PlacementKey
    from iallocator.model.state import Kept
    from iallocator.ranking.base import RankQuery, WorkingSet

    Found = dict[str, dict[float, int]]
    """Name of a key -> value -> the number of keys with this name and value."""

    Wanted = dict[str, tuple[float, float]]
    """Name of a key -> (value, weight)."""

__all__ = ["NodeKeyUsage", "affinity", "order", "round_of", "thresholds"]


def affinity(
    wanted: Mapping[str, tuple[float, float]], values: Mapping[str, Mapping[float, int]]
) -> float:
    """Return the affinity of the `wanted` keys of an instance to the keys `values` on a node.

    `wanted`: name -> value and weight. `values`: name -> value -> the number of keys with it.  Each
    pair of keys with equal names adds its weight times max(0, 1 - |difference of the values|).
    """
    total = 0.0
    for name, (value, weight) in wanted.items():
        here = values.get(name)
        if here is not None:
            for other, count in here.items():
                near = 1.0 - abs(value - other)
                if near > 0:
                    total += weight * near * count
    return round(total, SCORE_DECIMALS)


def thresholds(initial: float, final: float, steps: int) -> Sequence[float]:
    """Return the threshold of each round, evenly spaced from `initial` to `final`.

    A single round has the threshold `final`.
    """
    if steps < 2:
        return (final,)
    step = (final - initial) / (steps - 1)
    return [round(initial + number * step, SCORE_DECIMALS) for number in range(steps)]


def round_of(score: float, steps: Sequence[float]) -> int | None:
    """Return the first round with a threshold below `score`; None if there is none."""
    for number, threshold in enumerate(steps):
        if score > threshold:
            return number
    return None


Tie = tuple[bytes, int]

PENALTY_CRITERION = "penalty of soft constraints"


def order(query: RankQuery, nodes: Sequence[int]) -> NodeRanking:
    """Rank `nodes` by round, customer affinity and name; reject those that reach no round.

    Cost: the keys of every node are computed once per request, and again when the node changes.
    Each call takes a few microseconds per node, or one if it repeats a call for the same instance.
    """
    kept = query.context.kept
    usage = kept.get("affinity")
    if usage is None:
        usage = kept["affinity"] = NodeKeyUsage(query.context)
    rules = kept.get("affinity rules")
    if rules is None or rules.instance is not query.instance:
        rules = kept["affinity rules"] = _Rules(usage, query)
    return _KeyOrder(rules, query, nodes)


class _NodeResult:
    """The rating of one node: its round (0 is the first; None: rejected) and both affinities."""

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
    """Rates single nodes for one instance by the constraints and rounds of the strategy."""

    __slots__ = ("_context", "_known", "_limits", "instance", "subject", "usage")

    def __init__(self, usage: NodeKeyUsage, query: RankQuery) -> None:
        self.usage = usage
        self.instance = query.instance
        self.subject: Compiled = usage.subject(query.instance)
        self._context = query.context
        self._limits: dict[int, tuple[float, Sequence[float]]] = {}
        self._known: Kept[int, _NodeResult] = {}

    def result(self, index: int) -> _NodeResult:
        """Return the rating of node `index` for the instance in the present state."""
        node = self.usage.node(index)
        return derived(self._known, index, node, lambda: self._evaluated(index, node))

    def limits(self, index: int) -> tuple[float, Sequence[float]]:
        """Return the limit of free memory and the thresholds for the node `index`.

        The limit is in MiB: a node with no more free memory rejects the instance. The thresholds
        are those of the node's group.
        """
        group = self._context.cluster.nodes[index].group
        limits = self._limits.get(group.index)
        if limits is None:
            settings = self._context.settings_of(group)
            limits = self._limits[group.index] = (
                self.instance.memory + settings.affinity_overhead,
                thresholds(settings.initial_msav, settings.final_msav, settings.msav_steps),
            )
        return limits

    def _evaluated(self, index: int, node: NodeKeys) -> _NodeResult:
        subject = self.subject
        needed, steps = self.limits(index)
        if node.uncontended <= needed or node.contended <= needed:
            kind, free = "uncontended", node.uncontended
            if free > needed:
                kind, free = "contended", node.contended
            lack = f"{kind} {max(0, free):.10g} MiB free"
            why = f"needs more than {needed} MiB with the overhead, {lack}"
            return _NodeResult(node, None, 0, 0, why)
        system = affinity(subject.system, node.system)
        number = round_of(system, steps)
        if number is None:
            # `system affinity -45 is not above -10 (production -50, #LOAD 5)`, lowest first
            last = steps[-1]
            parts = [
                (affinity({name: wanted}, node.system), name)
                for name, wanted in subject.system.items()
            ]
            made_of = ", ".join(f"{name} {amount:.10g}" for amount, name in sorted(parts) if amount)
            reason = f"system affinity {system:.10g} is not above {last:.10g}"
            rejection = f"{reason} ({made_of})" if made_of else reason
            return _NodeResult(node, None, system, 0, rejection)
        return _NodeResult(node, number, system, affinity(subject.customer, node.customer), "")


class _KeyOrder(NodeRanking):
    """The order of nodes by placement keys."""

    __slots__ = ("_costs", "_query", "_results", "_rules", "_ties")

    def __init__(self, rules: _Rules, query: RankQuery, nodes: Sequence[int]) -> None:
        self._rules = rules
        self._query = query
        self._ties: dict[int, Tie] = {}
        self._costs = query.costs(nodes)
        results = {index: rules.result(index) for index in nodes}
        self._results = results
        passed = [index for index, outcome in results.items() if outcome.round is not None]
        passed.sort(key=self._rank)
        rejected = {i: outcome.rejection for i, outcome in results.items() if outcome.round is None}
        super().__init__(passed, rejected)

    def _rank(self, index: int) -> tuple[float, float, float, Tie]:
        """Return the sort key of a node.

        It has the threshold, not the number of the round: the rounds of groups can differ.
        """
        result, seed = self._results[index], self._seed(index)
        threshold = self._rules.limits(index)[1][result.round or 0]
        tie: Tie = b"", index  # by name, or by a hash of name and seed
        if seed is not None:
            if index not in self._ties:
                from hashlib import blake2b

                name = self._query.context.cluster.nodes[index].name
                text = f"{seed}\n{self._query.instance.name}\n{self._query.role}\n{name}"
                self._ties[index] = blake2b(text.encode(), digest_size=8).digest(), index
            tie = self._ties[index]
        return -threshold, -result.customer, self._costs.get(index, 0.0), tie

    def _seed(self, index: int) -> int | None:
        context = self._query.context
        return context.settings_of(context.cluster.nodes[index].group).seed

    def criteria(self, index: int) -> list[tuple[str, str]]:
        """Return (name, value) of each criterion by which node `index` is ranked.

        The first criteria decide: the round, the customer affinity, and the penalty if there is
        one. The others explain them.
        """
        result, (_, steps) = self._results[index], self._rules.limits(index)
        node, subject = result.node, self._rules.subject
        if result.rejection:
            rows = [("rejected", result.rejection)]
        else:
            number = result.round or 0
            above = f"{steps[number]:.10g}"
            rows = [
                ("system round", f"{number + 1} of {len(steps)}, above {above}"),
                ("customer affinity", f"{result.customer:.10g}"),
                *(
                    [(PENALTY_CRITERION, f"{self._costs.get(index, 0.0):.10g}")]
                    if self._costs
                    else []
                ),
                ("system affinity", f"{result.system:.10g}"),
            ]
        for kind, wanted, reached in (
            ("system", subject.system, node.system),
            ("customer", subject.customer, node.customer),
        ):
            for name in sorted(wanted):
                value, weight = wanted[name]
                here = [
                    f"{other:.10g}" + (f" ({count} times)" if count > 1 else "")
                    for other, count in sorted(reached.get(name, {}).items())
                ]
                text = f"weight {weight:.10g} for {value:.10g}; here {', '.join(here) or 'not set'}"
                rows.append((f"{kind} key {name}", text))
        rows.append(("uncontended free memory", f"{node.uncontended:.10g} MiB"))
        rows.append(("contended free memory", f"{node.contended:.10g} MiB"))
        return rows

    def decided(self, first: int, second: int) -> str:
        """Return the first criterion at which the two nodes differ.

        Only the criteria that decide are compared; the other rows of `criteria` explain them.
        """
        count = 3 if self._costs else 2
        pairs = zip(self.criteria(first), self.criteria(second))
        for (rule, mine), (_, other) in islice(pairs, count):
            if mine != other:
                return f"{rule}: {mine} against {other}"
        seed = self._seed(first)
        chance = "the first by name is taken" if seed is None else f"drawn with --seed {seed}"
        return f"equal in round and customer affinity; of equals {chance}"

    def extra(self, index: int) -> dict[str, Any]:
        """Return the sticky keys of the primary node if node `index` is chosen.

        That is the node itself, unless the node is chosen as the secondary.
        """
        home = self._query.beside[0] if self._query.beside else index
        return {"sticky_keys": list(self._rules.usage.sticky(home))}


# The keys of instances and nodes


class Compiled:
    """The effective keys of an instance: for each class and name, the key of the lowest level."""

    __slots__ = ("customer", "system")

    def __init__(self, system: Wanted, customer: Wanted) -> None:
        self.system = system
        self.customer = customer


class Compiler:
    """Compiles the keys of the instances of one cluster."""

    def __init__(self, context: WorkingSet) -> None:
        cluster, prefix = context.cluster, context.settings.tag_prefix
        tags = ResourceTags(prefix, LEVELS.index("cluster"), context.remarks)
        self._tags = ResourceTags(prefix, LEVELS.index("server"), context.remarks)
        self._above_tags = tags.of_cluster(cluster)
        self._above = tuple(cluster.placement_keys)

    def compiled(self, instance: Instance, with_request: bool) -> Compiled:
        """Return the keys of `instance`; if `with_request`, with the keys of the request."""
        keys = self._keys(instance, with_request)
        return Compiled(_chosen(keys, system=True), _chosen(keys, system=False))

    def customer(self, instance: Instance, with_request: bool) -> Wanted:
        """Return only the customer keys of `instance`; if `with_request`, with those of the
        request.
        """
        keys = self._keys(instance, with_request)
        return _chosen(keys, system=False) if keys else {}

    def _keys(self, instance: Instance, with_request: bool) -> list[PlacementKey]:
        """Return all keys of `instance`; if `with_request`, with the keys of the request.

        Of two keys with equal level and name, the effective key comes later.
        """
        keys = [*self._above_tags, *self._tags.of_instance(instance)]
        keys += self._above
        keys += instance.placement_keys
        if with_request:
            keys += instance.asked_keys
        return keys


def _chosen(keys: Iterable[PlacementKey], system: bool) -> Wanted:
    """Return name -> value and weight of the effective keys of one class."""
    return {name: (key.value, key.weight) for name, key in in_force(keys, system).items()}


class NodeKeys:
    """The memory and the keys of one node with its current instances.

    Attributes
    ----------
    uncontended:
        Total memory times contention ratio, less the memory of running instances, MiB.
    contended:
        The free memory that the node reports, less the memory of instances placed since, MiB.
    system, customer:
        The compiled keys of the node.
    """

    __slots__ = ("contended", "customer", "system", "uncontended")

    def __init__(
        self,
        uncontended: float,
        contended: float,
        system: Found,
        customer: Found,
    ) -> None:
        self.uncontended = uncontended
        self.contended = contended
        self.system = system
        self.customer = customer


class _Standard:
    """The constant properties of a node: its own keys, its ratios, and its memory."""

    __slots__ = ("cpus", "memory", "reported", "reserved", "sticky", "system")

    def __init__(self, context: WorkingSet, node: Node, allocated: float) -> None:
        prefix = context.settings.tag_prefix
        tags = NodeTags(prefix, node, context.remarks)
        self.memory = node.total_memory * (tags.ram_contention or 1.0)
        self.cpus = node.total_cpus * (tags.cpu_contention or node.vcpu_ratio)
        self.reported = node.reported_memory + allocated
        self.sticky = tags.sticky
        self.reserved: Found = {}
        self.system: Found = {"#LOAD": {min(1.0, node.load): 1}}
        for name, value in tags.keys:
            if not name.startswith("#"):
                _count(self.reserved if name.startswith("_") else self.system, name, value)


class NodeKeyUsage:
    """The keys of the instances of one request, and of nodes with their running instances."""

    def __init__(self, context: WorkingSet) -> None:
        self._state = context.state
        self._compiler = Compiler(context)
        self._customer: dict[tuple[str, bool], Sequence[tuple[str, float]]] = {}
        cluster = context.cluster
        allocated = [0] * len(cluster.nodes)
        for instance in cluster.instances:
            if instance.uses_memory and instance.nodes:
                allocated[instance.nodes[0]] += instance.memory
        self._standard = [
            _Standard(context, node, allocated[index]) for index, node in enumerate(cluster.nodes)
        ]
        self._nodes: Kept[int, NodeKeys] = {}

    def subject(self, instance: Instance) -> Compiled:
        """Return the compiled keys of an instance that must be placed."""
        return self._compiler.compiled(instance, with_request=True)

    def sticky(self, index: int) -> Sequence[str]:
        """Return the sticky keys of a node, as tags for an instance."""
        return self._standard[index].sticky

    def node(self, index: int) -> NodeKeys:
        """Return the keys of a node in the current state."""
        present = tuple(self._state.primaries[index])

        def compute() -> NodeKeys:
            standard = self._standard[index]
            memory = vcpus = 0
            customer: Found = {name: dict(values) for name, values in standard.reserved.items()}
            for instance in self._state.primaries[index].values():
                if instance.uses_memory:
                    memory += instance.memory
                    vcpus += instance.vcpus
                    moved = instance.nodes[:1] != (index,)
                    keys = self._customer.get((instance.name, moved))
                    if keys is None:
                        compiled = self._compiler.customer(instance, with_request=moved)
                        keys = [(name, value) for name, (value, _) in compiled.items()]
                        self._customer[instance.name, moved] = keys
                    for name, value in keys:
                        _count(customer, name, value)
            system = dict(standard.system)
            system["#RAM"] = {_share(memory, standard.memory): 1}
            system["#CPU"] = {_share(vcpus, standard.cpus): 1}
            return NodeKeys(standard.memory - memory, standard.reported - memory, system, customer)

        return derived(self._nodes, index, present, compute)


def _count(counts: Found, name: str, value: float) -> None:
    values = counts.get(name)
    if values is None:
        counts[name] = {value: 1}
    else:
        values[value] = values.get(value, 0) + 1


def _share(allocated: float, capacity: float) -> float:
    """Return the allocated share of `capacity`, from 0 to 1; 1 if there is no capacity."""
    return min(1.0, allocated / capacity) if capacity > 0 else 1.0
