"""The answer as hspace's ``HTS_`` keys, in its order."""

from __future__ import annotations

from iallocator.limits.node import REASONS
from iallocator.planners.capacity.report import tiers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.planners.capacity.capacity import CapacityReport, Run
    from iallocator.planners.capacity.instance_size import Size
    from iallocator.planners.capacity.usage import Figures, Totals

__all__ = ["key_lines"]

BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")
"""Characters that a shell takes as they are."""


def key_lines(study: CapacityReport) -> Iterator[str]:
    """``HTS_KEY=VALUE``, to be read by a shell."""
    for key, value in _keys(study):
        yield f"HTS_{key}={_quoted(value)}"


def _quoted(text: str) -> str:
    """`text` as one word of a shell."""
    if not BARE.issuperset(text):
        return "'" + text.replace("'", "'\\''") + "'"
    return text


def _keys(study: CapacityReport) -> Iterator[tuple[str, str]]:
    totals = study.totals
    yield "CLUSTER_MEM", str(totals.memory)
    yield "CLUSTER_DSK", str(totals.disk)
    yield "CLUSTER_CPU", str(totals.cpus)
    yield "CLUSTER_VCPU", str(totals.vcpus)
    yield "CLUSTER_SPN", str(totals.spindles)
    yield "CLUSTER_NODES", str(totals.nodes)
    yield from _figures("INI", study.initial, totals)
    if study.nowhere:
        return
    if study.tiered is not None:
        yield from _tiered(study, study.tiered)
    if study.standard is not None:
        yield from _standard(study, study.standard)
    if study.standard is not None and not study.interrupted:
        yield "OK", "1"


def _tiered(study: CapacityReport, run: Run) -> Iterator[tuple[str, str]]:
    before, after, totals = study.initial, run.figures, study.totals
    yield from _size("TSPEC_INI", run.size)
    yield from _figures("TRL", after, totals)
    yield (
        "TSPEC",
        " ".join(",".join(map(str, _spec(size))) + f"={count}" for size, count in tiers(run)),
    )
    used_disk, left_disk = totals.disk - before.free_disk, totals.disk - after.free_disk
    used_spindles = totals.spindles - before.free_spindles
    yield "KM_USED_CPU", str(before.used_cpus)
    yield "KM_USED_NPU", _shown(before.used_cores)
    yield "KM_USED_MEM", str(before.used_memory)
    yield "KM_USED_DSK", str(used_disk)
    yield "KM_USED_SPN", str(used_spindles)
    yield "KM_POOL_CPU", str(after.used_cpus - before.used_cpus)
    yield "KM_POOL_NPU", _shown(after.used_cores - before.used_cores)
    yield "KM_POOL_MEM", str(after.used_memory - before.used_memory)
    yield "KM_POOL_DSK", str(left_disk - used_disk)
    yield "KM_POOL_SPN", str(before.free_spindles - after.free_spindles)
    yield "KM_UNAV_CPU", str(totals.vcpus - after.used_cpus)
    yield "KM_UNAV_NPU", _shown(totals.cpus - after.used_cores)
    yield "KM_UNAV_MEM", str(totals.memory - after.used_memory)
    yield "KM_UNAV_DSK", str(after.free_disk)
    yield "KM_UNAV_SPN", str(after.free_spindles)


def _standard(study: CapacityReport, run: Run) -> Iterator[tuple[str, str]]:
    yield from _size("SPEC", run.size)
    yield from _figures("FIN", run.figures, study.totals)
    filling = run.filling
    yield "ALLOC_USAGE", _share(study.initial.instances, run.figures.instances)
    yield "ALLOC_INSTANCES", str(len(filling.placed))
    yield "ALLOC_FAIL_REASON", filling.reason.upper()
    counts = [(reason, filling.failures.get(reason, 0)) for reason in REASONS]
    counts = [count for count in counts if count[1] or count[0] != "FailPolicy"]  # not hspace's
    if study.failing:
        counts = [count for count in counts if count[1]]
    for reason, count in sorted(counts, key=lambda pair: -pair[1]):
        yield f"ALLOC_{reason.upper()}_CNT", str(count)


def _spec(size: Size) -> tuple[int, ...]:
    return size.memory, size.disk, size.cpus, size.spindles


def _size(prefix: str, size: Size) -> Iterator[tuple[str, str]]:
    yield f"{prefix}_MEM", str(size.memory)
    yield f"{prefix}_DSK", str(size.disk)
    yield f"{prefix}_CPU", str(size.cpus)
    yield f"{prefix}_SPN", str(size.spindles)
    yield f"{prefix}_RQN", str(size.nodes)
    yield f"{prefix}_DISK_TEMPLATE", size.template


def _figures(prefix: str, figures: Figures, totals: Totals) -> Iterator[tuple[str, str]]:
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
        ("MEM_EFF", _share(figures.used_memory, totals.memory)),
        ("DSK_FREE", figures.free_disk),
        ("DSK_AVAIL", figures.available_disk),
        ("DSK_RESVD", figures.free_disk - figures.available_disk),
        ("DSK_INST", used_disk),
        ("DSK_EFF", _share(used_disk, totals.disk)),
        ("SPN_FREE", figures.free_spindles),
        ("SPN_INST", used_spindles),
        ("SPN_EFF", _share(used_spindles, totals.spindles)),
        ("CPU_INST", figures.used_cpus),
        ("CPU_EFF", _share(figures.used_cpus, totals.vcpus)),
        ("MNODE_MEM_AVAIL", figures.most_memory),
        ("MNODE_DSK_AVAIL", figures.most_disk),
    )
    for key, value in pairs:
        yield f"{prefix}_{key}", str(value)


def _share(part: float, whole: float) -> str:
    """A share to eight decimals."""
    if not whole:
        return "NaN" if not part else "Infinity" if part > 0 else "-Infinity"
    return _fixed(part / whole)


def _fixed(number: float) -> str:
    """Eight decimals, of two equally near ones the even, as Haskell rounds the shortest form."""
    from decimal import ROUND_HALF_EVEN, Decimal

    return f"{Decimal(repr(float(number))).quantize(Decimal('1e-8'), ROUND_HALF_EVEN):f}"


def _shown(number: float) -> str:
    """A number as Haskell shows it: short, with a decimal point or an exponent."""
    if not number or 0.1 <= abs(number) < 1e7:
        return repr(float(number))
    mantissa, exponent = f"{number!r}e0".split("e")[:2] if "e" in repr(number) else ("", "")
    if not mantissa:
        digits = repr(float(number)).replace(".", "").lstrip("-0").rstrip("0") or "0"
        from math import floor, log10

        exponent = str(floor(log10(abs(number))))
        mantissa = ("-" if number < 0 else "") + f"{digits[0]}.{digits[1:] or '0'}"
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent)}"
