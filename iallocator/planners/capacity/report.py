"""The answer in parts that can be told: how many of which size, why it ended, as plain data."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster
    from iallocator.planners.capacity.capacity import CapacityReport, Run
    from iallocator.planners.capacity.instance_size import Size
    from iallocator.planners.capacity.usage import Figures, Totals


__all__ = ["end_of", "study_document", "tiers"]


def tiers(run: Run) -> list[tuple[Size, int]]:
    """How many instances of each size were placed, in the order of placing."""
    found: list[tuple[Size, int]] = []
    for allocation in run.filling.placed:
        size = allocation.size
        if found and (found[-1][0] is size or found[-1][0].amounts() == size.amounts()):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((size, 1))
    return found


def end_of(study: CapacityReport, run: Run) -> str:
    """Why no more was placed, in one line."""
    if study.failing:
        return f"nothing is tried, for the cluster is not N+1: {', '.join(study.failing)}"
    if study.nowhere:
        return "no online node takes such instances"
    if run.filling.ended:
        return run.filling.ended
    reason, failures = run.filling.reason, run.filling.failures
    counts = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return f"{reason} ({', '.join(f'{name}: {count}' for name, count in counts if count)})"


def study_document(study: CapacityReport) -> Json:
    """The answer as plain data; see ``schemas/capacity.schema.json``."""
    totals = study.totals
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
        "before": _figures(study.initial, totals),
    }
    for kind, run in (("tiered", study.tiered), ("standard", study.standard)):
        if run is not None:
            document[kind] = _run(study, run)
    if study.forecast is not None:
        document["forecast"] = study.forecast.document()
    return document


def _run(study: CapacityReport, run: Run) -> Json:
    filling, cluster = run.filling, study.before.cluster
    return {
        "start": _size(run.size),
        "scores": {"before": study.initial.score, "after": run.figures.score},
        "count": len(filling.placed),
        "sizes": [{**_size(size), "count": count} for size, count in tiers(run)],
        "after": _figures(run.figures, study.totals),
        "reason": None if filling.ended or study.nowhere else filling.reason,
        "failures": {name: count for name, count in filling.failures.items() if count},
        "end": end_of(study, run),
        "closest": run.closest,
        "instances": _instances(run, cluster),
    }


def _instances(run: Run, cluster: Cluster) -> list[Json]:
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
