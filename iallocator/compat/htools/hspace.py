"""hspace: compute how many instances fit, of one size and in tiers."""

from __future__ import annotations

from iallocator.compat.htools.backend import adjust, load, save, scores, show_lists
from iallocator.compat.htools.errors import ProgramError
from iallocator.compat.htools.formats import decimal, domain, table
from iallocator.deadline import Deadline
from iallocator.errors import say
from iallocator.options.settings import Settings
from iallocator.planners.capacity.capacity import (
    CapacityOptions,
    FillingExtent,
    FillingRules,
    FillingScope,
    compute_capacity,
    failing_nodes,
)
from iallocator.planners.capacity.report import key_lines, share, tiers
from iallocator.planners.capacity.site import first_sizes, known_templates
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from iallocator.compat.htools.backend import Given
    from iallocator.model.cluster import Cluster
    from iallocator.planners.capacity.capacity import CapacityReport, Run
    from iallocator.planners.capacity.site import Size
    from iallocator.sources import Source

__all__ = ["run"]

HSPACE_FILLINGS = (("tiered", "Tiered"), ("standard", "Standard"))

RESULTS = {
    "tiered": ("Tiered allocation results:", "HTS_TRL_"),
    "standard": ("Normal (fixed-size) allocation results:", "HTS_FIN_"),
}
"""Kind of filling -> the beginnings of the first line with its results: in text, in keys."""


def run(given: Given) -> int:
    """Fill the cluster in two ways, and print the results; return the exit status.

    The exit status is 1 if no node is online.
    """
    own = Settings()
    source = load(given, own)
    adjust(given, source.cluster)
    options = _options(given, own, source)
    report = compute_capacity(source.cluster, options, lambda kind, filling: None)
    loud, state = given.loudness, report.before
    if not any(node.online for node in source.cluster.nodes):
        report.initial.score = 0.0
    end = domain(source.cluster)
    if end and loud > 1:
        say(f"Note: Stripping common suffix of '{end}' from names")
    show_lists(given, state, "Initial cluster status")
    if loud > 2:
        nodes = range(len(source.cluster.nodes))
        score, lines = scores(state, nodes)
        say(f"Initial coefficients: overall {decimal(score)}")
        say("\n".join(lines))
    if loud > 3:
        _show_restrictions(given, source.cluster, report, options.rules.min_disk)
    for kind, title in HSPACE_FILLINGS:
        done = getattr(report, kind)
        if done is None or report.nowhere:
            continue
        if loud > 1:
            say(f"{title} allocation map")
            for line in _map(report, done):
                say(line)
        show_lists(given, done.state, f"{title} allocation status")
        if given.save is not None:
            _save(given, source, report, kind)
    if given.machine_readable:
        print("\n".join(key_lines(report)))
    else:
        print("\n".join(_text(report)))
    if report.nowhere:
        pairs = any(run.size.nodes > 1 for run in report.runs)
        lack = "Not enough online nodes" if pairs else "No online nodes"
        raise ProgramError(f"Error: failure during allocation: {lack}")
    return 0


def _options(given: Given, own: Settings, source: Source) -> CapacityOptions:
    """Return the sizes of instances to count, and how to count them.

    `own`: the options of this program, which are those of every program of htools.
    """
    template = given.disk_template or known_templates(source.policy)[0]
    standard, largest = first_sizes(
        source.policy, template, given.spindle_use, Reading.of(own).load,
        given.standard_alloc, given.tiered_alloc,
    )  # fmt: skip
    limit = given.max_length
    shown = given.loudness > 1 or given.print_nodes is not None or given.save is not None
    return CapacityOptions(
        standard,
        largest,
        scope=FillingScope(
            accept_errors=bool(given.accept_existing_errors),
            independent=bool(given.independent_groups),
        ),
        rules=FillingRules(
            n1="off" if given.no_capacity_checks else "",
            max_cpu=given.max_cpu,
            min_disk=given.min_disk or 0.0,
            behaviour=own.behaviour,
            exact_ties=shown,
        ),
        extent=FillingExtent(
            limit=None if limit is None or limit < 0 else limit,
            seconds=own.planning_seconds,
            searches=own.searches,
            thoroughness=own.thoroughness,
        ),
        tag_prefix=own.tag_prefix,
    )


def _save(given: Given, source: Source, report: CapacityReport, kind: str) -> None:
    """Write the cluster, with the placed instances of a `kind` of filling, to a file.

    If the file cannot be written, print the output up to the results of this filling, as hspace
    does.
    """
    path = f"{given.save}.{kind}"
    try:
        save(path, source, getattr(report, kind).state)
    except ProgramError:
        for line in key_lines(report) if given.machine_readable else _text(report):
            if line.startswith(RESULTS[kind]):
                break
            print(line)
        raise
    say(f"The cluster state after {kind} allocation has been written to file '{path}'")


def _show_restrictions(
    given: Given, cluster: Cluster, report: CapacityReport, min_disk: float
) -> None:
    """Report the nodes and groups that violate N+1, and the nodes that may be used.

    With ``--accept-existing-errors``, a group with a bad node is used. With
    ``--independent-groups``, no bad group is used.
    """
    from iallocator.planners.check.health import examine
    from iallocator.wire.codec import dumps

    failing = [cluster.nodes[index] for index in reversed(failing_nodes(report.before))]
    health = examine(report.before, "strict", min_disk, None, Deadline(None), {})
    bad_groups = [one.group for one in health if one.counts["global_n1"]]
    if failing:
        say(f"Bad nodes: {dumps([node.name for node in failing])}")
    if bad_groups:
        say(f"Bad groups: {dumps([group.name for group in bad_groups])}")
    closed: set[int] = set()
    if not given.accept_existing_errors:
        closed.update(node.group.index for node in failing)
    if given.independent_groups:
        closed.update(group.index for group in bad_groups)
    say(f"Allocatable nodes: {_allocatable(cluster, report, bool(given.simulate), closed)}")


def _allocatable(
    cluster: Cluster, report: CapacityReport, first: int, closed: Collection[int]
) -> str:
    """Return the usable nodes, as positions in the source, in the form of a Haskell value.

    `first`: the position of the first node. `closed`: the indices of groups that are not used. For
    instances on two nodes, the result lists each primary with its secondaries.
    """
    last = len(cluster.nodes) - 1
    place = {
        node.index: last - node.index + first
        for node in reversed(cluster.nodes)
        if node.online
        and node.group.alloc_policy != "unallocable"
        and node.group.index not in closed
    }
    run = report.standard or report.tiered
    if run is None or run.size.nodes == 1:
        return f"Left [{','.join(map(str, place.values()))}]"
    pairs = []
    for index, position in place.items():
        members = cluster.nodes[index].group.nodes
        others = sorted(place[k] for k in members if k in place and k != index)
        if others:
            pairs.append(f"({position},[{','.join(map(str, others))}])")
    return f"Right [{','.join(pairs)}]"


def _map(report: CapacityReport, done: Run) -> Iterator[str]:
    """Yield a line for each new instance: its name, nodes, memory, disk and cpus."""
    nodes = report.before.cluster.nodes
    rows = []
    for placed in done.filling.placed:
        size = placed.size
        names = [nodes[index].name for index in placed.nodes]
        rows.append((
            placed.instance.name, names[0], names[1] if len(names) > 1 else "",
            str(size.memory), str(size.disk), str(size.cpus),
            str(size.spindles) if _exclusive(report) else "",
        ))  # fmt: skip
    for line in table(rows, (True, True, True, False, False, False, False)):
        yield f" {line}"


def _text(report: CapacityReport) -> Iterator[str]:
    """Yield the lines of the output as text."""
    totals, before = report.totals, report.initial
    yield f"The cluster has {totals.nodes} nodes and the following resources:"
    spindles = f", SPN {totals.spindles}" if _exclusive(report) else ""
    yield (
        f"  MEM {totals.memory}, DSK {totals.disk}, CPU {totals.cpus}, VCPU {totals.vcpus}"
        f"{spindles}."
    )
    yield f"There are {before.instances or 'no'} initial instances on the cluster."
    if report.nowhere:
        return
    if report.tiered is not None:
        yield "Tiered (initial size) instance spec is:"
        template = report.tiered.size.template
        yield f"  {_size(report, report.tiered.size)}, using disk template '{template}'."
        yield "Tiered allocation results:"
        placed = tiers(report.tiered)
        for size, count in placed:
            yield f"  - {count:3} instances of spec {_size(report, size)}"
        if not placed:
            yield "  - no instances allocated"
        yield from _end(report, report.tiered)
    if report.standard is not None:
        yield "Standard (fixed-size) instance spec is:"
        template = report.standard.size.template
        yield f"  {_size(report, report.standard.size)}, using disk template '{template}'."
        yield "Normal (fixed-size) allocation results:"
        yield f"  - {len(report.standard.filling.placed):3} instances allocated"
        yield from _end(report, report.standard)


def _exclusive(report: CapacityReport) -> bool:
    """Return whether a node has exclusive storage, so that spindles are printed, too."""
    return any(node.exclusive_storage for node in report.before.cluster.nodes)


def _size(report: CapacityReport, size: Size) -> str:
    spindles = f", SPN {size.spindles}" if _exclusive(report) else ""
    return f"MEM {size.memory}, DSK {size.disk}, CPU {size.cpus}{spindles}"


def _end(report: CapacityReport, done: Run) -> Iterator[str]:
    """Yield the lines about the end of a filling: the reason, and the used share of the cluster."""
    totals, figures = report.totals, done.figures
    yield f"  - most likely failure reason: {done.filling.reason}"
    yield f"  - initial cluster score: {decimal(report.initial.score)}"
    yield f"  -   final cluster score: {decimal(figures.score)}"
    rows = [
        ("memory", figures.used_memory, totals.memory),
        ("disk", totals.disk - figures.free_disk, totals.disk),
        ("vcpu", figures.used_cpus, totals.vcpus),
    ]
    if _exclusive(report):
        rows.append(("spindles", totals.spindles - figures.free_spindles, totals.spindles))
    width = max(len(title) for title, _, _ in rows)
    for title, used, whole in rows:
        percent = share(100 * (used / whole), 1, 2) if whole else share(used, whole, 2)
        yield f"  - {title:>{width}} usage efficiency: {percent:>5}%"
