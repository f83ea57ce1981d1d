"""Which instances belong together, apart, after one another: what that means for a candidate."""

from __future__ import annotations

from iallocator.model.constraint import APART, ORDER, TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iallocator.constraints.locations import Locations
    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.constraint import Constraint
    from iallocator.model.instance import Instance

    Where = Mapping[str, tuple[int, ...]]
    """Instance name -> its nodes, primary first."""

__all__ = ["Relations"]


class Relations:
    """The constraints between instances of a cluster, and between instances and nodes.

    All questions are about primaries: that is where an instance runs.  Those that are
    nowhere yet bind nobody.  `keep_running` are never stopped to make room; `stuck` cannot
    be stopped, and must not be by force.  `locations` are the nodes that are out, or None.
    """

    __slots__ = (
        "_bound", "cluster", "constraints", "keep_running", "locations", "priorities", "stuck",
        "unusable",
    )  # fmt: skip

    def __init__(
        self,
        cluster: Cluster,
        constraints: Sequence[Constraint],
        priorities: Mapping[str, int],
        unusable: Sequence[str],
        keep_running: Collection[str] = (),
        stuck: Collection[str] = (),
        locations: Locations | None = None,
    ) -> None:
        self.locations = locations
        self.keep_running = keep_running
        self.stuck = stuck
        self.cluster = cluster
        self.constraints = constraints
        self.priorities = priorities
        self.unusable = unusable
        self._bound: dict[str, list[Constraint]] = {}
        for constraint in constraints:
            self._bound.setdefault(constraint.instance, []).append(constraint)

    def of(self, instance: str, kind: str = "") -> list[Constraint]:
        """The constraints that bind `instance`, of one kind or all."""
        found = self._bound.get(instance, [])
        return [c for c in found if c.kind == kind] if kind else found

    def broken(
        self, instance: str, node: int, where: Where, pending: Collection[str] = ()
    ) -> list[Constraint]:
        """The constraints that `instance` on `node` would break, as the others are.

        `pending` are instances whose place is not decided: they bind nobody yet.
        """
        out = [] if self.locations is None else self.locations.broken(instance, node)
        return out + [
            constraint
            for constraint in self._bound.get(instance, ())
            if constraint.other in where
            and constraint.other not in pending
            and _breaks(constraint, self.cluster.nodes[node], self._home(constraint, where))
        ]

    def refusals(
        self,
        instance: str,
        nodes: Iterable[int],
        where: Where,
        pending: Collection[str] = (),
    ) -> dict[int, Constraint]:
        """Those of `nodes` that break a must of `instance`, and the first that they break."""
        refused: dict[int, Constraint] = {}
        if instance in self._bound or self.locations is not None:
            for node in nodes:
                musts = (c for c in self.broken(instance, node, where, pending) if c.must)
                first = next(musts, None)
                if first is not None:
                    refused[node] = first
        return refused

    def may_pass(self, instance: Instance, node: int, where: Where) -> bool:
        """Whether `instance` may be on `node` on its way: its partners come after it."""
        broken = self.broken(instance.name, node, where)
        return all(c.kind == TOGETHER or not c.must for c in broken)

    def costs(
        self,
        instance: str,
        nodes: Iterable[int],
        where: Where,
        pending: Collection[str] = (),
    ) -> dict[int, float]:
        """What `instance` on each of `nodes` costs by the shoulds it breaks, where it costs."""
        if instance not in self._bound:
            return {}
        sums = {
            node: sum(c.weight for c in self.broken(instance, node, where, pending) if not c.must)
            for node in nodes
        }
        return {node: cost for node, cost in sums.items() if cost > 0}

    def unsupported(self, instance: str, coming: Collection[str] = ()) -> str:
        """Through which musts `instance` starts after something that cannot run; or "".

        That does not exist, does not run, is on a node that is offline, or starts itself
        after such a thing.  `coming` are instances that the request makes.
        """
        return self._unsupported(instance, coming, (instance,))

    def _unsupported(self, instance: str, coming: Collection[str], path: tuple[str, ...]) -> str:
        for bond in self.of(instance, ORDER):
            if bond.must and bond.other and bond.other not in path:
                why = self._hindrance(bond.other, coming, path)
                if why:
                    return f"{bond.text}, which {why}"
        return ""

    def _hindrance(self, name: str, coming: Collection[str], path: tuple[str, ...]) -> str:
        """Why an instance cannot be waited for, or ""."""
        if name not in coming:
            base = next((i for i in self.cluster.instances if i.name == name), None)
            if base is None:
                return "does not exist"
            if not base.running:
                return "does not run"
            home = self.cluster.nodes[base.nodes[0]]
            if home.offline:
                return f"is on {home.name}, which is offline"
        return self._unsupported(name, coming, (*path, name))

    def sites(self, node: int, domain: str) -> list[str]:
        """The failure domains of that prefix that a node is in; "": itself."""
        return _sites(self.cluster.nodes[node], domain)

    def disjoint(self, domain: str) -> bool:
        """Whether no node is in two failure domains of that prefix."""
        return all(len(_sites(node, domain)) == 1 for node in self.cluster.nodes)

    def _home(self, constraint: Constraint, where: Where) -> Node:
        return self.cluster.nodes[where[constraint.other][0]]

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        """`instances` by priority, higher first; those after another follow it; else as given.

        Those that must be on one node follow each other, unless something must start between.
        """
        ranked = sorted(instances, key=lambda i: -self.priorities.get(i.name, 0))
        by_name = {instance.name: instance for instance in instances}
        units = self.units()
        placed: dict[str, Instance] = {}
        entered: set[str] = set()
        waiting = [instance.name for instance in reversed(ranked)]
        while waiting:  # a chain may be as long as the list: no recursion
            name = waiting[-1]
            if name not in entered:
                entered.add(name)
                follows = [bond.other for bond in self.of(name, ORDER)]
            else:
                waiting.pop()
                if name in placed:
                    continue
                placed[name] = by_name[name]
                follows = list(units.get(name, ()))
            waiting += [n for n in reversed(follows) if n in by_name and n not in entered]
        return list(placed.values())

    def units(self) -> dict[str, tuple[str, ...]]:
        """Instance -> all that must be on its node, itself among them, where there are others."""
        tied = [c.instance for c in self.constraints if c.kind == TOGETHER and c.must]
        every = list(dict.fromkeys(tied))
        found = {name: tuple(self.group_of(name, every)) for name in every}
        return {name: unit for name, unit in found.items() if len(unit) > 1}

    def group_of(self, instance: str, among: Sequence[str]) -> list[str]:
        """Those of `among` that must be on one node with `instance`, itself among them.

        In the order of `among`; bonds of bonds count, bonds to failure domains do not.
        """
        colour = {instance}
        open_ends = [instance]
        while open_ends:
            for bond in self.of(open_ends.pop(), TOGETHER):
                if bond.must and not bond.domain and bond.other not in colour:
                    colour.add(bond.other)
                    open_ends.append(bond.other)
        return [name for name in among if name in colour]


def _breaks(constraint: Constraint, node: Node, home: Node) -> bool:
    if constraint.kind == TOGETHER:
        return not _same(node, home, constraint.domain)
    return constraint.kind == APART and _same(node, home, constraint.domain)


def _same(one: Node, other: Node, domain: str) -> bool:
    """Whether two nodes are one, or share a failure domain of that prefix."""
    return one is other or not set(_sites(one, domain)).isdisjoint(_sites(other, domain))


def _sites(node: Node, domain: str) -> list[str]:
    """The failure domains of `node`; one without any is its own, and so is every one for ""."""
    prefix = domain + ":"
    found = [tag for tag in node.tags if tag.startswith(prefix)] if domain else []
    return found or [f"node {node.name}"]
