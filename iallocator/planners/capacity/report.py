"""Write the capacity of a cluster as plain data, and as the lines that hspace prints."""

from __future__ import annotations

from iallocator.constraints.table import REASONS
from iallocator.errors import MOST_NAMES
from iallocator.units import shortest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster
    from iallocator.planners.capacity.capacity import CapacityReport, Run
    from iallocator.planners.capacity.site import Size
    from iallocator.planners.capacity.usage import Figures, Totals

__all__ = [
    "capacity_document",
    "end_of",
    "instances_placed",
    "key_lines",
    "share",
    "tiers",
]  # fmt: skip


def tiers(run: Run) -> list[tuple[Size, int]]:
    """Return (size, number of new instances placed) for each tier, in the order of placement."""
    counted: list[tuple[Size, int]] = []
    for allocation in run.filling.placed:
        size = allocation.size
        if counted and (counted[-1][0] is size or counted[-1][0].amounts() == size.amounts()):
            counted[-1] = (counted[-1][0], counted[-1][1] + 1)
        else:
            counted.append((size, 1))
    return counted


def end_of(report: CapacityReport, run: Run) -> str:
    """Return in one line why the filling `run` placed no more instances."""
    if report.failing:
        some = ", ".join(report.failing[:MOST_NAMES]) + ", ..." * (len(report.failing) > MOST_NAMES)
        return (
            f"the cluster is not N+1 compliant (failing nodes: {len(report.failing)}, {some}), "
            "so no instance is added; --accept-existing-errors adds some"
        )
    if report.nowhere:
        return "no online node takes such instances"
    if run.filling.ended:
        return run.filling.ended
    reason, failures = run.filling.reason, run.filling.failures
    counts = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return f"{reason} ({', '.join(f'{name}: {count}' for name, count in counts if count)})"


def capacity_document(report: CapacityReport) -> Json:
    """Return the capacity as plain data, as defined in ``schemas/capacity.schema.json``."""
    totals = report.totals
    document: Json = {
        "command": "capacity",
        "cluster": {
            "nodes": totals.nodes,
            "memory": totals.memory,
            "disk": totals.disk,
            "cpus": totals.cpus,
            "vcpus": totals.vcpus,
            "spindles": totals.spindles,
        },
        "before": _figures(report.initial, totals),
    }
    for kind, run in (("tiered", report.tiered), ("standard", report.standard)):
        if run is not None:
            filling, cluster = run.filling, report.before.cluster
            quality = {} if run.quality is None else run.quality.document()
            document[kind] = quality | {
                "start": _size(run.size),
                "scores": {"before": report.initial.score, "after": run.figures.score},
                "count": len(filling.placed),
                "sizes": [{**_size(size), "count": count} for size, count in tiers(run)],
                "after": _figures(run.figures, report.totals),
                "reason": None if filling.ended or report.nowhere else filling.reason,
                "failures": {name: count for name, count in filling.failures.items() if count},
                "end": end_of(report, run),
                "closest": run.closest,
                "instances": instances_placed(run, cluster),
            }
    if report.forecast is not None:
        document["forecast"] = report.forecast.document()
    return document


def instances_placed(run: Run, cluster: Cluster) -> list[Json]:
    """Return the name and the nodes of each instance that a filling placed, in order."""
    return [
        {"name": placed.instance.name, "nodes": cluster.node_names(placed.nodes)}
        for placed in run.filling.placed
    ]


def _size(size: Size) -> Json:
    return {
        "memory": size.memory,
        "disk": size.disk,
        "vcpus": size.cpus,
        "spindles": size.spindles,
        "disk_template": size.template,
    }


def _figures(figures: Figures, totals: Totals) -> Json:
    return {
        "score": figures.score,
        "instances": figures.instances,
        "memory": {
            "used": figures.used_memory,
            "free": figures.free_memory,
            "available": figures.available_memory,
        },
        "disk": {
            "used": totals.disk - figures.free_disk,
            "free": figures.free_disk,
            "available": figures.available_disk,
        },
        "cpu": {
            "used": figures.used_cpus - totals.own_cpus,
            "free": totals.vcpus - figures.used_cpus,
        },
    }


BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")
"""Characters that a shell does not interpret."""


def key_lines(report: CapacityReport) -> Iterator[str]:
    """Yield the capacity as lines ``HTS_KEY=VALUE``, which a shell can read."""
    for key, value in _keys(report):
        bare = BARE.issuperset(value)
        word = value if bare else "'" + value.replace("'", "'\\''") + "'"
        yield f"HTS_{key}={word}"


def _keys(report: CapacityReport) -> Iterator[tuple[str, str]]:
    totals = report.totals
    yield "CLUSTER_MEM", str(totals.memory)
    yield "CLUSTER_DSK", str(totals.disk)
    yield "CLUSTER_CPU", str(totals.cpus)
    yield "CLUSTER_VCPU", str(totals.vcpus)
    yield "CLUSTER_SPN", str(totals.spindles)
    yield "CLUSTER_NODES", str(totals.nodes)
    yield from _figure_keys("INI", report.initial, totals)
    if report.nowhere:
        return
    if report.tiered is not None:
        run = report.tiered
        before, after, totals = report.initial, run.figures, report.totals
        yield from _size_keys("TSPEC_INI", run.size)
        yield from _figure_keys("TRL", after, totals)
        specs = (
            f"{size.memory},{size.disk},{size.cpus},{size.spindles}={count}"
            for size, count in tiers(run)
        )
        yield "TSPEC", " ".join(specs)
        used_disk, left_disk = totals.disk - before.free_disk, totals.disk - after.free_disk
        used_spindles = totals.spindles - before.free_spindles
        yield "KM_USED_CPU", str(before.used_cpus)
        yield "KM_USED_NPU", shortest(before.used_cores)
        yield "KM_USED_MEM", str(before.used_memory)
        yield "KM_USED_DSK", str(used_disk)
        yield "KM_USED_SPN", str(used_spindles)
        yield "KM_POOL_CPU", str(after.used_cpus - before.used_cpus)
        yield "KM_POOL_NPU", shortest(after.used_cores - before.used_cores)
        yield "KM_POOL_MEM", str(after.used_memory - before.used_memory)
        yield "KM_POOL_DSK", str(left_disk - used_disk)
        yield "KM_POOL_SPN", str(before.free_spindles - after.free_spindles)
        yield "KM_UNAV_CPU", str(totals.vcpus - after.used_cpus)
        yield "KM_UNAV_NPU", shortest(totals.cpus - after.used_cores)
        yield "KM_UNAV_MEM", str(totals.memory - after.used_memory)
        yield "KM_UNAV_DSK", str(after.free_disk)
        yield "KM_UNAV_SPN", str(after.free_spindles)
    if report.standard is not None:
        run = report.standard
        yield from _size_keys("SPEC", run.size)
        yield from _figure_keys("FIN", run.figures, report.totals)
        filling = run.filling
        yield "ALLOC_USAGE", share(report.initial.instances, run.figures.instances)
        yield "ALLOC_INSTANCES", str(len(filling.placed))
        yield "ALLOC_FAIL_REASON", filling.reason.upper()
        counts = [(reason, filling.failures.get(reason, 0)) for reason in REASONS]
        counts = [count for count in counts if count[1] or count[0] not in _NOT_OF_HSPACE]
        if report.failing:
            counts = [count for count in counts if count[1]]
        for reason, count in sorted(counts, key=lambda pair: -pair[1]):
            yield f"ALLOC_{reason.upper()}_CNT", str(count)
    if report.standard is not None and not report.interrupted:
        yield "OK", "1"


_NOT_OF_HSPACE = ("FailPolicy", "FailNodes")
"""Reasons that hspace does not have; they are written only if they occur."""


def _size_keys(prefix: str, size: Size) -> Iterator[tuple[str, str]]:
    yield f"{prefix}_MEM", str(size.memory)
    yield f"{prefix}_DSK", str(size.disk)
    yield f"{prefix}_CPU", str(size.cpus)
    yield f"{prefix}_SPN", str(size.spindles)
    yield f"{prefix}_RQN", str(size.nodes)
    yield f"{prefix}_DISK_TEMPLATE", size.template


def _figure_keys(prefix: str, figures: Figures, totals: Totals) -> Iterator[tuple[str, str]]:
    used_disk = totals.disk - figures.free_disk
    used_spindles = totals.spindles - figures.free_spindles
    pairs = (
        ("SCORE", _fixed(figures.score)),
        ("INST_CNT", figures.instances),
        ("MEM_FREE", figures.free_memory),
        ("MEM_AVAIL", figures.available_memory),
        ("MEM_RESVD", figures.free_memory - figures.available_memory),
        ("MEM_INST", figures.used_memory),
        ("MEM_OVERHEAD", totals.overhead),
        ("MEM_EFF", share(figures.used_memory, totals.memory)),
        ("DSK_FREE", figures.free_disk),
        ("DSK_AVAIL", figures.available_disk),
        ("DSK_RESVD", figures.free_disk - figures.available_disk),
        ("DSK_INST", used_disk),
        ("DSK_EFF", share(used_disk, totals.disk)),
        ("SPN_FREE", figures.free_spindles),
        ("SPN_INST", used_spindles),
        ("SPN_EFF", share(used_spindles, totals.spindles)),
        ("CPU_INST", figures.used_cpus),
        ("CPU_EFF", share(figures.used_cpus, totals.vcpus)),
        ("MNODE_MEM_AVAIL", figures.most_memory),
        ("MNODE_DSK_AVAIL", figures.most_disk),
    )
    for key, value in pairs:
        yield f"{prefix}_{key}", str(value)


def share(part: float, whole: float, places: int = 8) -> str:
    """Return `part / whole` as text with `places` decimals; NaN or Infinity if `whole` is 0."""
    if not whole:
        return "NaN" if not part else "Infinity" if part > 0 else "-Infinity"
    return _fixed(part / whole, places)


def _fixed(number: float, places: int = 8) -> str:
    """Return `number` with `places` decimals, rounded half to even from its shortest form.

    Haskell rounds in this way.
    """
    text = repr(float(number))
    if "e" not in text and len(text.partition(".")[2]) != places + 1:  # no tie between two results
        return f"{number:.{places}f}"
    from decimal import ROUND_HALF_EVEN, Decimal

    return f"{Decimal(text).quantize(Decimal(f'1e-{places}'), ROUND_HALF_EVEN):f}"
