"""How htools write numbers, names, tables and policies."""

from __future__ import annotations

from math import isfinite, isnan

from iallocator.model.templates import TEMPLATES
from iallocator.names import common_domain
from iallocator.tolerances import WRITTEN_DECIMALS
from iallocator.units import MOST_FIXED, shortest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.policy import Policy, Spec

__all__ = ["decimal", "domain", "policy_text", "table"]


def domain(cluster: Cluster) -> str:
    """Return the common end of the names of all nodes and instances, from a dot on; "" for none."""
    every = [*(one.name for one in cluster.nodes), *(one.name for one in cluster.instances)]
    return common_domain(every)


def table(rows: Sequence[Sequence[str]], left: Sequence[bool]) -> list[str]:
    """Return `rows` as aligned lines; `left`: whether each column is aligned to the left."""
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(len(left))]
    return [
        " ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left)
        )
        for row in rows
    ]


def decimal(value: float) -> str:
    """Return `value` with eight decimals; infinity, NaN and large numbers as htools write them."""
    if isnan(value):
        return "NaN"
    if not isfinite(value):
        return f"{'-' if value < 0 else ''}Infinity"
    # Large numbers have zeros after the digits that distinguish them from other numbers
    if abs(value) >= MOST_FIXED:
        from iallocator.documents.lists import decimal as decimal_of

        return decimal_of(value, WRITTEN_DECIMALS)
    # Not -0.0, to which the reserve may be rounded, see `Node.passes_at_equality`
    return f"{round(value, WRITTEN_DECIMALS) + 0.0:.8f}"


def policy_text(policy: Policy) -> str:
    """Return the details of a policy as htools print them with ``-v``."""

    def spec(one: Spec) -> str:
        return (
            f"ISpec {{iSpecMemorySize = {one.memory}, iSpecCpuCount = {one.cpus}, "
            f"iSpecDiskSize = {one.disk}, iSpecDiskCount = {one.disks}, "
            f"iSpecNicCount = {one.nics}, iSpecSpindleUse = {one.spindles}}}"
        )

    intervals = ",".join(
        f"MinMaxISpecs {{minMaxISpecsMinSpec = {spec(one.low)}, "
        f"minMaxISpecsMaxSpec = {spec(one.high)}}}"
        for one in policy.intervals
    )
    templates = ",".join(
        TEMPLATES[one].in_htools[1] if one in TEMPLATES else one for one in policy.templates
    )
    return (
        f"IPolicy {{iPolicyMinMaxISpecs = [{intervals}], iPolicyStdSpec = {spec(policy.standard)}, "
        f"iPolicyDiskTemplates = [{templates}], iPolicyVcpuRatio = {shortest(policy.vcpu_ratio)}, "
        f"iPolicySpindleRatio = {shortest(policy.spindle_ratio)}}}"
    )
