"""hroller: plan which nodes can be rebooted together.

Three heuristics assign a colour to each node. Each of them is first-fit in its own order of nodes:
the node with most coloured neighbours first (Dcolor), with most colours among its neighbours
(Dsatur), or with most neighbours (LF). Nodes of one colour are divided into groups, so that all
instances of a group fit on other nodes.
"""

from __future__ import annotations

from iallocator.compat.htools.backend import adjust, initial_state, load, saved_text, write
from iallocator.compat.htools.errors import ProgramError
from iallocator.compat.htools.first_fit import without_secondaries, without_singles
from iallocator.errors import say
from iallocator.model.state import State
from iallocator.options.settings import Settings
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
    from iallocator.compat.htools.first_fit import Part
    from iallocator.model.cluster import Cluster

    Graph = Sequence[Sequence[int]]

__all__ = ["run"]

HEURISTICS = ("Dcolor", "Dsatur", "LF")
"""The names of the heuristics; of several equal results, the last one is used."""


def run(given: Given) -> int:
    """Print the groups of nodes; return the exit status: 1 if not all nodes can be rebooted."""
    own = Settings()
    source = load(given, own, in_order=True)
    cluster = source.cluster
    if len(source.masters) > 1:
        listed = ",".join(f'"{name}"' for name in source.masters)
        raise ProgramError(f"Error: Found more than one master node: [{listed}]")
    if not source.masters:
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
    )
    nodes = [node.index for node in nodes_to_reboot(cluster, wanted)]
    if not nodes or given.node_tags == []:
        raise ProgramError("Error: Cannot create node graph")
    wanted = wanted.replace(single=single)  # for the nodes that are not left out
    for node in cluster.nodes:
        node.migration = frozenset()  # hroller permits moves that migration tags forbid
    classes, lines = _classes(given, cluster, nodes)
    if given.loudness > 2:
        print(lines.pop(0))
    state = initial_state(given, source)
    drained = _parts(state, classes, wanted)
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
        for move in sorted(moves if given.print_moves else (), key=lambda one: one.instance.order):
            print(f"  {move.instance.name} {' '.join(cluster.node_names(move.after))}")
    return 0


def _parts(state: State, classes: Iterable[Sequence[int]], options: RebootOptions) -> list[Part]:
    """Divide each class of nodes into parts, so that all leaving instances fit on other nodes.

    First, the nodes are divided by their instances without a secondary. With full evacuation, each
    part is then divided by the secondaries on it. Meanwhile, the instances without a secondary have
    left the whole part, so their moves are listed with each of its smaller parts; the other
    instances have failed over.

    Raises
    ------
    ProgramError
        If the instances of a single node do not fit on other nodes.
    """
    if options.single == IGNORED:
        parts: list[Part] = [([*nodes], []) for nodes in classes if nodes]
    else:
        parts = [part for nodes in classes for part in without_singles(state, nodes)]
    if options.evacuate:
        return without_secondaries(state, parts)
    return parts


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
