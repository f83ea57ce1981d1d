"""How a cluster stands at one moment, and the sections that compare two moments."""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.planners.check.findings import failures
from iallocator.planners.check.health import examine, unexamined
from iallocator.planners.check.overview import group_overviews, score_terms
from iallocator.planners.power_state import Switched
from iallocator.render.page.health import (
    failure_grid,
    finding_grid,
    group_grid,
    statistic_grid,
)
from iallocator.render.page.view import Section, Tile
from iallocator.render.states.listing import common_domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.model.state import State
    from iallocator.planners.check.findings import GroupHealth, NodeFailure


__all__ = ["Judging", "Standing", "health_sections", "short_names", "standing", "survival_tile"]


@dataclass(frozen=True, slots=True)
class Judging:
    """How a page judges a state: N+1, the share of free disk, what tags ask, until when."""

    n1: str
    min_disk: float = 0.0
    relations: Relations | None = None
    deadline: Deadline | None = None

    @property
    def late(self) -> bool:
        """Whether there is no time to judge."""
        return self.deadline is not None and self.deadline.over()


@dataclass(frozen=True, slots=True)
class Standing:
    """How a cluster stands at one moment."""

    health: Sequence[GroupHealth]
    failures: Sequence[NodeFailure]
    groups: Sequence[Json]
    terms: Sequence[Json]

    @property
    def survived(self) -> tuple[int, int]:
        """How many failures are survived, of how many that were looked at."""
        return sum(one.survived for one in self.failures), sum(one.judged for one in self.failures)

    @property
    def late(self) -> int:
        """How many failures were not analysed because time was up."""
        return sum(one.late for one in self.failures)

    @property
    def findings(self) -> int:
        """How many things are wrong."""
        return sum(len(group.findings) for group in self.health)


def standing(
    state: State,
    judging: Judging,
    health: Sequence[GroupHealth] | None = None,
    *,
    off: Collection[int] = (),
    on: Collection[int] = (),
) -> Standing:
    """How `state` stands once the nodes `off` are offline, and `on` online.

    `health`: what is wrong, if that is known already.
    """
    with Switched(state.cluster, off=off, on=on):
        if health is None and judging.late:
            health = unexamined(state)
        elif health is None:
            health = examine(
                state, judging.n1, judging.min_disk, judging.relations, judging.deadline
            )
        return Standing(
            health,
            failures(state, health, judging.n1),
            group_overviews(state),
            score_terms(state),
        )


def short_names(cluster: Cluster) -> dict[str, str]:
    """Every node and instance -> its name without what all of them end with."""
    domain = common_domain(cluster)
    names = [node.name for node in cluster.nodes] + [one.name for one in cluster.instances]
    return {name: name.removesuffix(domain) for name in names} if domain else {}


def survival_tile(before: Standing, after: Standing | None) -> Tile:
    """How many failures of nodes are survived."""
    then = after or before
    survived, judged = then.survived
    if not judged:
        value = "not analysed" if then.late else "not looked at"
        return Tile("Node failures survived", value)
    was = before.survived[0]
    notes = [f"before: {was} of {before.survived[1]}"] if after else []
    notes += [f"{then.late} not analysed"] if then.late else []
    tone = "bad" if survived < judged else "" if then.late else "good"
    return Tile("Node failures survived", f"{survived} of {judged}", ", ".join(notes), tone)


def health_sections(
    before: Standing,
    after: Standing | None,
    judging: Judging,
    short: Mapping[str, str],
    said: Sequence[Json] = (),
) -> list[Section]:
    """What is wrong, failures, statistics, groups; `said`: what a planner says of groups."""
    then = after or before
    survived, judged = then.survived
    examined = all(group.examined for group in (*before.health, *then.health))
    late = "" if examined else "Not analysed: time was up."
    one = "One node fails, all others are as they are then."
    if late or judging.n1 == "off":
        one = late or "Not looked at: --n1=off."
    findings = finding_grid(before.health, after.health if after else None)
    failing = failure_grid(before.failures, after.failures if after else None, short)
    score = statistic_grid(before.terms, after.terms if after else None)
    groups = group_grid(before.groups, after.groups if after else None, said)
    return [
        Section(
            "grids", "problems", "Problems", [findings], late, "" if late else str(before.findings)
        ),
        Section(
            "grids", "failures", "If a node fails", [failing], one, f"{survived}/{judged} survived"
        ),
        Section(
            "grids", "score", "Score", [score],
            "What the score of the whole cluster is the sum of: value times weight; lower is "
            "better.",
        ),
        Section("grids", "groups", "Groups", [groups], count=str(len(before.groups))),
    ]  # fmt: skip
