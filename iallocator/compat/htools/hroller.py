"""hroller: plan which nodes can be rebooted together.

Three heuristics assign a colour to each node. Each of them is first-fit in its own order of nodes:
the node with most coloured neighbours first (Dcolor), with most colours among its neighbours
(Dsatur), or with most neighbours (LF). Nodes of one colour are divided into groups, so that all
instances of a group fit on other nodes.
"""

from __future__ import annotations

from iallocator.compat.htools.backend import adjust, initial_state, load, saved_text, write
from iallocator.compat.htools.errors import NO_CAPACITY, ProgramError
from iallocator.constraints.checks import amount_in
from iallocator.errors import say
from iallocator.limits.node import FORCED_LIMITS, FORCED_RESOURCES, PRIMARY, checks_for
from iallocator.model.moves import Move
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.placement.limit_policy import ALL_FORCED
from iallocator.placement.move_limits import MoveLimits
from iallocator.planners.reboot.options import (
    IGNORED,
    MOVED,
    SKIPPED,
    RebootOptions,
    nodes_to_reboot,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.compat.htools.backend import Given
    from iallocator.compat.htools.draining import Part
    from iallocator.constraints.checks import Check
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance

    Graph = Sequence[Sequence[int]]

__all__ = ["run"]

HEURISTICS = ("Dcolor", "Dsatur", "LF")
"""The names of the heuristics; of several equal results, the last one is used."""

NODES_AT_ONCE = 16
"""The number of possible targets of an instance that are checked at once."""


def run(given: Given) -> int:
    """Print the groups of nodes; return the exit status: 1 if not all nodes can be rebooted."""
    own = Settings()
    source = load(given, own, in_order=True)
    cluster = source.cluster
    if not source.master:
        missing = "No master node found (maybe not supported by backend)."
        if not given.force:
            raise ProgramError(f"Error: {missing}")
        say(f"Warning: {missing}")
    text = ""
    if given.save is not None:  # without the effect of -O
        text = saved_text(source, State(cluster), backwards=False)
    adjust(given, cluster)
    if given.save is not None:
        path = f"{given.save}.original"
        write(path, text)
        say(f"The cluster state before hroller run has been written to file '{path}'")
    names = {word for group in cluster.groups for word in (group.name, group.uuid)}
    if given.group is not None and given.group not in names:
        raise ProgramError("Error: Cannot find target group.")
    single = IGNORED if given.ignore_non_redundant else MOVED
    wanted = RebootOptions(
        down=bool(given.offline_maintenance),
        evacuate=bool(given.full_evacuation),
        single=SKIPPED if given.skip_non_redundant else single,
        node_tags=given.node_tags or (),
        group=given.group or "",
        master=source.master,
        trusting=True,
    )
    nodes = [node.index for node in nodes_to_reboot(cluster, wanted)]
    if not nodes or given.node_tags == []:
        raise ProgramError("Error: Cannot create node graph")
    wanted = wanted.replace(single=single)  # for the nodes that are not left out
    own.n1 = "off"
    for node in cluster.nodes:
        node.migration = frozenset()  # hroller permits moves that migration tags forbid
    classes, lines = _classes(given, cluster, nodes)
    if given.loudness > 2:
        print(lines.pop(0))
    state = initial_state(given, source)
    drained = _parts(state, classes, own, wanted, bool(given.print_moves))
    for line in lines:
        print(line)
    master = next((node.index for node in cluster.nodes if node.name == source.master), -1)
    groups = [
        (sorted((k for k in part if k in nodes), key=lambda k: (k == master, k)), moves)
        for part, moves in drained
    ]
    groups.sort(key=lambda one: (master in one[0], -len(one[0])))
    if not given.no_headers:
        print("'First Reboot Group'" if given.one_step_only else "'Node Reboot Groups'")
    for group, moves in groups[:1] if given.one_step_only else groups:
        names_here = cluster.node_names(group)
        print("\n".join(names_here) if given.one_step_only else ",".join(names_here))
        for move in sorted(moves, key=lambda one: one.instance.order):
            print(f"  {move.instance.name} {' '.join(cluster.node_names(move.after))}")
    return 0


def _parts(
    state: State,
    classes: Iterable[Sequence[int]],
    settings: Settings,
    options: RebootOptions,
    with_moves: bool,
) -> list[Part]:
    """Divide each class of nodes into parts, so that all leaving instances fit on other nodes.

    First, the nodes are divided by their instances without a secondary. With full evacuation, each
    part is then divided by the secondaries on it. Meanwhile, the instances without a secondary have
    left the whole part, so their moves are listed with each of its smaller parts; the other
    instances have failed over. The moves are [] unless `with_moves`.

    Raises
    ------
    ProgramError
        If the instances of a single node do not fit on other nodes.
    """
    cluster = state.cluster
    if options.single == IGNORED:
        parts: list[Part] = [([*nodes], []) for nodes in classes if nodes]
    elif any(one.exclusion and not one.needs_secondary for one in cluster.instances):
        from iallocator.compat.htools.draining import drained

        parts = drained(cluster, classes, settings, options)
    else:
        parts = [part for nodes in classes for part in _first_fit(state, nodes)]
    if options.evacuate:
        from iallocator.compat.htools.draining import evacuated

        return evacuated(cluster, parts, settings, options, with_moves)
    return parts if with_moves else [(part, []) for part, _ in parts]


def _first_fit(state: State, nodes: Sequence[int]) -> list[Part]:
    """Divide `nodes` into parts that can be drained; each node is in the first possible part.

    For instances without exclusion tags, this is faster than `draining.drained`, and closer to
    hroller: a part keeps the moves off its nodes while further nodes are tried. Instances leave a
    node in the reverse order of their arrival, before its own instances.

    Raises
    ------
    ProgramError
        If a node cannot be drained alone.
    """
    cluster = state.cluster
    limits = MoveLimits(state, Capacities(cluster.nodes), ALL_FORCED)
    own: list[list[Instance]] = [[] for _ in cluster.nodes]
    for one in reversed(cluster.instances):
        if not (one.needs_secondary or one.forthcoming):
            own[one.nodes[0]].append(one)
    by_amounts = not any(
        one.pools is not None
        or one.desired
        or one.requires
        or any(check.lacks.resource is None for check in _checks_of(one) if check.applies(group))
        for group, some in zip((node.group for node in cluster.nodes), own)
        for one in some
    )
    online = [
        [index for index in sorted(group.nodes) if cluster.nodes[index].online]
        for group in cluster.groups
    ]
    parts: list[Part] = []
    rest = list(nodes)
    while rest:
        part: list[int] = []
        where: dict[str, int] = {}  # the last target of each instance
        sums = _Sums(state, online) if by_amounts else None
        with state.trial():
            arrived: dict[int, list[Instance]] = {}
            for index in rest:
                leaving = arrived.get(index, [])[::-1] + own[index]
                group = cluster.nodes[index].group.index
                if sums is not None:
                    targets = sums.targets(leaving, index, group)
                else:
                    others = [k for k in online[group] if k != index and k not in part]
                    targets = _first_targets(state, limits, leaving, index, others)
                if len(targets) < len(leaving):
                    continue
                for one, target in zip(leaving, targets):
                    if sums is None:
                        state.remove(one, state.where[one.name])
                        state.place(one, (target,))
                    where[one.name] = target
                    arrived.setdefault(target, []).append(one)
                part.append(index)
        if not part:
            raise ProgramError(NO_CAPACITY.format("non-redundant instances"))
        moves = [Move(one, one.nodes, (where[one.name],)) for index in part for one in own[index]]
        parts.append((part, moves))
        drained = set(part)
        rest = [index for index in rest if index not in drained]
    return parts


def _checks_of(instance: Instance) -> Sequence[Check]:
    """Return the checks of a node to which `instance` moves."""
    return checks_for(PRIMARY, instance, FORCED_LIMITS)


class _Kind:
    """Instances of one group with equal amounts.

    Attributes
    ----------
    taken:
        What an instance takes of each of `FORCED_RESOURCES`.
    limited:
        The positions of the resources that limit such instances.
    full, first:
        The nodes that reject such instances, and the position of the first other node. Nodes only
        receive instances, so they continue to reject them.
    """

    __slots__ = ("first", "full", "limited", "taken")

    def __init__(self, instance: Instance) -> None:
        self.taken = [one.taken(instance.as_primary) for one in FORCED_RESOURCES]
        limiting = {check.lacks.resource for check in _checks_of(instance)}
        self.limited = [k for k, one in enumerate(FORCED_RESOURCES) if one in limiting]
        self.full: set[int] = set()
        self.first = 0


class _Sums:
    """The amounts that instances add to nodes, if all limits of the instances are about sums.

    The state stays as it is.
    """

    def __init__(self, state: State, online: Sequence[Sequence[int]]) -> None:
        self._state = state
        self._online = online
        self._drained: set[int] = set()
        # Node -> what it can give of each resource, beside the instances that have moved there
        self._spare: dict[int, list[float]] = {}
        # Kinds of instances: by group and shape, and by the name of an instance
        self._kinds: dict[object, _Kind] = {}
        self._kind_of: dict[str, _Kind] = {}

    def targets(self, leaving: Sequence[Instance], source: int, group: int) -> list[int]:
        """Return for each instance that leaves `source` the first node of `group` that accepts it.

        The list ends before an instance that no node accepts. Otherwise, the instances are added to
        these nodes, and `source` is drained: it receives none from now on.
        """
        online = self._online[group]
        targets: list[int] = []
        # As the attributes of these names, with the instances that leave now
        spare: dict[int, list[float]] = {}
        full: list[tuple[_Kind, int]] = []
        first: dict[_Kind, int] = {}
        for one in leaving:
            kind = self._kind(one, group)
            while True:
                place = self._place(kind, first, source, online)
                if place == len(online):
                    return targets
                node = online[place]
                left = spare.get(node) or self._left(node)
                if all(left[k] >= kind.taken[k] for k in kind.limited):
                    break
                first[kind] = place + 1
                if node in spare:
                    full.append((kind, node))
                else:
                    kind.full.add(node)
            spare[node] = [amount - taken for amount, taken in zip(left, kind.taken)]
            targets.append(node)
        for kind, node in full:
            kind.full.add(node)
        self._spare.update(spare)
        self._drained.add(source)
        return targets

    def _left(self, node: int) -> list[float]:
        """Return how much of each of `FORCED_RESOURCES` the node can give."""
        left = self._spare.get(node)
        if left is None:
            row, found = self._state.row(node), self._state.cluster.nodes[node]
            left = self._spare[node] = [
                one.spare(amount_in(row, one.columns), found) for one in FORCED_RESOURCES
            ]
        return left

    def _kind(self, instance: Instance, group: int) -> _Kind:
        """Return the kind of `instance` in `group`."""
        kind = self._kind_of.get(instance.name)
        if kind is None:
            key = group, instance.shape
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = _Kind(instance)
            self._kind_of[instance.name] = kind
        return kind

    def _place(
        self, kind: _Kind, first: dict[_Kind, int], source: int, online: Sequence[int]
    ) -> int:
        """Return the position of the first node that may accept an instance of `kind`.

        `first`: positions before which instances that leave `source` now have been rejected.
        """
        full, drained = kind.full, self._drained
        place = kind.first
        while place < len(online) and (online[place] in drained or online[place] in full):
            place += 1
        kind.first = place
        place = max(place, first.get(kind, 0))
        while place < len(online) and (
            online[place] == source or online[place] in drained or online[place] in full
        ):
            place += 1
        first[kind] = place
        return place


def _first_targets(
    state: State,
    limits: MoveLimits,
    leaving: Sequence[Instance],
    source: int,
    others: Sequence[int],
) -> list[int]:
    """Return for each instance that leaves `source` the first of `others` that accepts it.

    The list ends before an instance that no node accepts.
    """
    targets: list[int] = []
    first: dict[object, int] = {}  # shape -> the position in `others` of the first open node
    with state.trial():
        for one in leaving:
            state.remove(one, (source,))
            # The nodes receive instances only, so they reject all instances of a shape from then on
            plain = one.pools is None and not (one.desired or one.requires)
            position = first.get(one.shape, 0) if plain else 0
            rejected = True
            while rejected and position < len(others):
                some = others[position : position + NODES_AT_ONCE]
                rejections = limits.primary_rejections(one, (source,), some)
                accepting = (k for k, index in enumerate(some) if index not in rejections)
                step = next(accepting, len(some))
                rejected = step == len(some)
                position += step
            if rejected:
                break
            if plain:
                first[one.shape] = position
            state.place(one, (others[position],))
            targets.append(others[position])
    return targets


def _classes(
    given: Given, cluster: Cluster, nodes: Sequence[int]
) -> tuple[list[list[int]], list[str]]:
    """Return nodes grouped by colour, and with ``-v`` lines about the heuristics.

    As in hroller, the result has all nodes from the first to the last of `nodes`. So nodes that are
    not rebooted are drained, too.
    """
    lines: list[str] = []
    first = nodes[0]
    graph = _graph(cluster, nodes, not given.offline_maintenance)
    results = [(_coloured(graph, name), name) for name in HEURISTICS]
    results.sort(key=lambda result: max(result[0]))  # stable
    if given.loudness > 2:
        listed = ",".join(
            f"({number},[{','.join(str(other + first) for other in others)}])"
            for number, others in enumerate(graph, start=first)
        )
        lines.append(f"Node Graph: array ({first},{nodes[-1]}) [{listed}]")
    if given.loudness > 1:
        # The number of nodes per colour of each heuristic, beside the heuristic before it
        words: list[str] = []
        before = 0
        for colours, name in results:
            sizes = [colours.count(number) for number in range(max(colours) + 1)]
            if words:
                words.append("TIE" if len(sizes) == before else "LOOSE")
            before = len(sizes)
            listed = ",".join(map(str, sizes))
            words.append(f"{name}: {before} ({listed})")
        lines.append(" ".join(words))
    fewest = max(results[0][0])
    best = [colours for colours, _ in results if max(colours) == fewest][-1]
    classes: list[list[int]] = [[] for _ in range(fewest + 1)]
    for index, colour in enumerate(best, start=first):
        classes[colour].append(index)
    return classes, lines


def _graph(cluster: Cluster, nodes: Sequence[int], online: bool) -> Graph:
    """Return the neighbours of each node from the first to the last of `nodes`, in their order.

    A node must not be rebooted together with a neighbour. The result also has the nodes of other
    groups in this range; they have no neighbours.

    The primary and the secondary of an instance are neighbours; they are listed once per instance.
    With `online`, the primaries of instances with a common secondary are neighbours, too, and each
    of them is a neighbour of itself. The order of neighbours is reversed, as in hroller.
    """
    place = {index: index - nodes[0] for index in nodes}
    neighbours: list[list[int]] = [[] for _ in range(nodes[0], nodes[-1] + 1)]
    failing: dict[int, list[int]] = {}
    for instance in cluster.instances:
        if len(instance.nodes) < 2:
            continue
        primary, secondary = (place.get(index, -1) for index in instance.nodes)
        if primary >= 0:
            failing.setdefault(instance.nodes[1], []).insert(0, primary)
            if secondary >= 0:
                neighbours[primary].append(secondary)
                neighbours[secondary].append(primary)
    for secondary in sorted(failing) if online else ():
        for primary in failing[secondary]:
            for other in failing[secondary]:
                if other not in neighbours[primary]:
                    neighbours[primary].append(other)
    return [others[::-1] for others in neighbours]


def _coloured(graph: Graph, name: str) -> list[int]:
    """Return the colour of each node, a number from 0 on, by the heuristic `name`."""
    colours = [-1] * len(graph)

    def rank(vertex: int) -> tuple[int, int, int]:
        around = [colours[other] for other in graph[vertex] if colours[other] >= 0]
        urgency = {"Dcolor": len(around), "Dsatur": len(set(around)), "LF": 0}[name]
        return urgency, len(graph[vertex]), vertex

    left = {vertex for vertex, around in enumerate(graph) if around}
    for vertex in set(range(len(graph))) - left:
        colours[vertex] = 0
    while left:
        vertex = max(left, key=rank)
        left.remove(vertex)
        used = {colours[other] for other in graph[vertex]}
        colours[vertex] = next(c for c in range(len(graph)) if c not in used)
    return colours
