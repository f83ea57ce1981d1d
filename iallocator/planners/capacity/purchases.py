"""Compare purchases of nodes: how many more standard instances fit per unit of cost.

For each purchase, a copy of the cluster with the new nodes is filled with standard instances, as
the present cluster is. The gain of a purchase is the difference of the numbers of instances. The
gain can be less than the capacity of the new nodes, because N+1 reserves capacity for the failure
of the largest node.
"""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.planners.capacity.report import end_of, instances_placed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.planners.capacity.capacity import CapacityReport, Run
    from iallocator.planners.capacity.demand import FullForecast

__all__ = ["Bought", "purchases_document"]


@dataclass(slots=True)
class Bought:
    """A purchase of nodes, and the capacity of the cluster with these nodes.

    Attributes
    ----------
    text:
        The purchase as the user wrote it.
    nodes:
        Name of a group -> the number of new nodes in it.
    cost:
        The cost of all nodes of the purchase.
    report:
        The capacity of the cluster with the new nodes.
    """

    text: str
    nodes: dict[str, int]
    cost: float
    report: CapacityReport

    def document(self, before: CapacityReport, full: FullForecast | None) -> Json:
        """Return, as plain data, the purchase with its gain over `before`, the present capacity.

        If a filling was not finished, the gain is unknown and therefore null. With the forecast
        `full`, the result has the additional days until the groups are full.
        """
        old, new = before.standard, self.report.standard
        counts, later = before.placed_by_group(), self.report.placed_by_group()
        known = _finished(old) and _finished(new)
        count = sum(later.values())
        gain = count - sum(counts.values()) if known else None
        qualities = [None if run is None else run.quality for run in (old, new)]
        lasting: Json = {}
        if full is not None:
            # When the first group of the purchase is full, and how many days later that is
            until, then = (full.lasts(one, self.nodes) for one in (before, self.report))
            days = None if until is None or then is None else then - until
            lasting = {
                "full": full.date(then),
                "days_gained": days,
                "days_per_cost": None if days is None else days / self.cost,
            }
        return {
            "purchase": self.text,
            "nodes_by_group": self.nodes,
            "cost": self.cost,
            "count": count,
            "gain": gain,
            "gain_per_cost": None if gain is None else gain / self.cost,
            "both_proved": known and all(one is not None and one.proved for one in qualities),
            "groups": [
                {
                    "group": group.name,
                    "count": counts[group.index],
                    "count_after": later[group.index],
                }
                for group in before.before.cluster.groups
                if group.name in self.nodes
            ],
            "reason": "" if new is None else end_of(self.report, new),
            "instances": [] if new is None else instances_placed(new, self.report.before.cluster),
            **lasting,
        }


def _finished(run: Run | None) -> bool:
    """Return whether a filling ended because no more instance fits."""
    return run is not None and not run.filling.ended


def purchases_document(
    before: CapacityReport, bought: Sequence[Bought], full: FullForecast | None
) -> list[Json]:
    """Return the purchases as plain data, with the largest gain per unit of cost first.

    With the forecast `full`, the purchase with the most additional days per unit of cost, until the
    cluster is full, is first. Of equal purchases, the less expensive one is first. Purchases
    without a known gain are last.
    """

    def rank(row: Json) -> tuple[bool, float, float, float]:
        days, gain = row.get("days_per_cost"), row["gain_per_cost"]
        return gain is None, -(days or 0.0), -(gain or 0.0), row["cost"]

    return sorted((one.document(before, full) for one in bought), key=rank)
