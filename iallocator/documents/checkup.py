"""Make the document about the health of a cluster, now and after balancing."""

from __future__ import annotations

from itertools import islice
from math import comb

from iallocator.errors import STATUS_INCOMPLETE, printable
from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import NodeView, capacities
from iallocator.planners.check.health import (
    FINDING_KINDS,
    INCONSISTENT_DATA,
    NODE_KINDS,
    NOT_ANALYSED,
)
from iallocator.scoring.metrics import NO_CENTRES, RESERVED_TOTAL, STATISTICS, values
from iallocator.scoring.scalar import terms_of
from iallocator.tolerances import WRITTEN_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Group
    from iallocator.model.constraints import TagFinding
    from iallocator.model.state import State
    from iallocator.planners.check.health import Finding, GroupHealth
    from iallocator.planners.check.joint_failures import Failure, FailuresFound

__all__ = ["Checkup", "counts_of", "score_assessment"]

MOST_SETS_LISTED = 500
"""The largest number of sets of nodes with failures that are not tolerated in a text or on a page.
"""

EVEN_DEVIATION = 12**-0.5
"""The standard deviation of the used amount of evenly used nodes, as a share of an instance.

The used amount of such nodes is distributed uniformly from half an average instance below the mean
to half an average instance above it.
"""

HIGH_SCORE_FACTOR = 2
"""The ratio above which a score is high.

It is the ratio of the avoidable part of the score to that part for evenly used nodes."""

NAGIOS_STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
"""The words for the exit statuses of a Nagios plugin."""

CRITICAL = ("offline_primary",)
"""Kinds of findings that mean that instances are down; all other kinds are warnings."""

HCHECK_KEYS = {
    "N1_FAIL": "n1",
    "CONFLICT_TAGS": "conflicts",
    "OFFLINE_PRI": "offline_primary",
    "OFFLINE_SEC": "",
    "GN1_FAIL": "global_n1",
}
"""Key of hcheck -> kind of findings that it counts; "" for the number of nodes not online."""


class Checkup:
    """The findings in every group, before and after balancing.

    Attributes
    ----------
    before, after:
        The health of each group, in equal order; equal lists if nothing was balanced.
    moves:
        The number of moves of the balancing.
    capacity_checks:
        Whether global N+1 was checked.
    failures:
        The effect of several failures at once; None if it was not requested.
    tried:
        Whether balancing was tried.
    early:
        Why balancing ended before it was complete; "" if it was complete.
    tag_findings:
        Findings about tags; the cluster can be healthy in spite of them.
    data:
        Index of a group -> findings about inconsistent data of its nodes. No move changes them.
    """

    __slots__ = (
        "after", "before", "capacity_checks", "data", "early", "failures", "moves", "tag_findings",
        "tried",
    )  # fmt: skip

    def __init__(
        self,
        before: Sequence[GroupHealth],
        after: Sequence[GroupHealth],
        moves: int,
        capacity_checks: bool,
        tag_findings: Sequence[TagFinding] = (),
    ) -> None:
        self.tag_findings = tag_findings
        self.tried = True
        self.early = ""
        self.before = before
        self.after = after
        self.moves = moves
        self.capacity_checks = capacity_checks
        self.failures: FailuresFound | None = None
        self.data: Mapping[int, list[Finding]] = {}

    @property
    def healthy(self) -> bool | None:
        """Return True without findings, False with findings, None if the analysis is incomplete."""
        if self.data or any(group.findings for group in self.before):
            return False
        return None if self.not_analysed else True

    @property
    def not_analysed(self) -> list[str]:
        """Return the nodes with a failure that was not analysed, because time was up."""
        return [name for group in self.before for name in group.not_analysed]

    @property
    def complete(self) -> bool:
        """Return whether the analysis is complete, also that of joint failures, if requested."""
        return not self.not_analysed and (self.failures is None or self.failures.complete)

    @property
    def fewer_findings(self) -> dict[str, int]:
        """Return kind -> by how much balancing lowers the number of findings; negative for more."""
        before, after = counts_of(self.before), counts_of(self.after)
        return {kind: before[kind] - after[kind] for kind in FINDING_KINDS}

    @property
    def helps(self) -> bool:
        """Return whether balancing lowers the number of findings, or else the sum of the scores."""
        if not self.moves:
            return False
        fewer = sum(self.fewer_findings.values())
        scores = [sum(group.score for group in groups) for groups in (self.before, self.after)]
        return fewer > 0 or (fewer == 0 and scores[1] < scores[0])

    def document(self) -> Json:
        """Return the members of the JSON document of ``check``, without those of the plan."""
        failures = {"failures": self.failures.document()} if self.failures else {}
        return {**self.findings(), **failures}

    def findings(self) -> Json:
        """Return the members of the document without those about joint failures."""
        return {
            "healthy": self.healthy,
            "not_analysed": self.not_analysed,
            "problems": self._counts(self.before),
            "problems_after": self._counts(self.after),
            "rebalancing": {
                "tried": self.tried,
                "helps": self.helps,
                "moves": self.moves,
                **({"reason": self.early} if self.early else {}),
            },
            "groups": [
                {
                    "group": before.group.name,
                    "reason": _summary(before, self._counts([before])),
                    "uuid": before.group.uuid,
                    "problems": self._counts([before]),
                    "problems_after": self._counts([after]),
                    "score": before.score,
                    "score_after": after.score,
                    "offline_nodes": before.offline_nodes,
                    "not_analysed": before.not_analysed,
                    "findings": (found := self._findings(before)),
                    "findings_after": found if after is before else self._findings(after),
                }
                for before, after in zip(self.before, self.after)
            ],
            **(
                {"tag_findings": [one.document() for one in self.tag_findings]}
                if self.tag_findings
                else {}
            ),
        }

    def _counts(self, health: Sequence[GroupHealth]) -> dict[str, int]:
        """Return kind of finding -> number of nodes or instances with it, in groups of `health`."""
        data = sum(len(self.data.get(one.group.index, ())) for one in health)
        return {**counts_of(health), INCONSISTENT_DATA: data}

    def _findings(self, health: GroupHealth) -> list[Json]:
        """Return the findings in a group as plain data; those about inconsistent data come last."""
        findings = (*health.findings, *self.data.get(health.group.index, ()))
        return [one.document() for one in findings]

    def facts(self) -> Json:
        """Return the facts in texts and pages that the document leaves out, as plain data."""
        return {
            "kinds": FINDING_KINDS,
            "not_analysed": NOT_ANALYSED,
            "of_nodes": NODE_KINDS,
            "tag_findings": [(one.kind, str(one)) for one in self.tag_findings],
            "failures": None if self.failures is None else _failure_facts(self.failures),
        }

    def hcheck_lines(self, groups: Sequence[Group] | None = None) -> Iterator[str]:
        """Yield the ``KEY=value`` lines of hcheck.

        `groups`: the groups in the order of their numbers; by default those that were checked. A
        value with other characters than letters, digits and dots has a shell's quotes.
        """
        numbered = [one.group for one in self.before] if groups is None else groups
        numbers = {group.index: number for number, group in enumerate(numbered)}
        for number, group in enumerate(numbered):
            uuid = printable(group.uuid)
            if not all(letter.isalnum() or letter == "." for letter in uuid):
                uuid = "'" + uuid.replace("'", "'\\''") + "'"
            yield f"HCHECK_GROUP_UUID_{number}={uuid}"
        for moment, checked in (("INIT", self.before), ("FINAL", self.after)):
            sums = dict.fromkeys(HCHECK_KEYS, 0)
            for health in checked:
                number = numbers[health.group.index]
                for key, value in self.hcheck_counts(health):
                    sums[key] += value
                    yield f"HCHECK_{moment}_GROUP_{number}_{key}={value}"
                score = 0.0 if health.offline_nodes == len(health.group.nodes) else health.score
                score = round(score, WRITTEN_DECIMALS) + 0.0  # not -0.0
                yield f"HCHECK_{moment}_GROUP_{number}_SCORE={score:.8f}"
            if not checked:  # hcheck prints the last value with the first key
                yield f"HCHECK_{moment}_CLUSTER_N1_FAIL={int(self.hcheck_needs)}"
                continue
            for key, value in sums.items():
                if key != "GN1_FAIL" or self.capacity_checks:
                    yield f"HCHECK_{moment}_CLUSTER_{key}={value}"
            yield f"HCHECK_{moment}_CLUSTER_NEED_REBALANCE={int(self.hcheck_needs)}"
        yield "HCHECK_OK=1"

    @property
    def nagios_status(self) -> int:
        """Return the exit status of a Nagios plugin.

        It is 2 if instances are down, 1 for other findings, 3 if the analysis is incomplete, else
        0.
        """
        counts = counts_of(self.before)
        if any(counts[kind] for kind in CRITICAL):
            return 2
        return 1 if self.healthy is False else 0 if self.complete else STATUS_INCOMPLETE

    def nagios_line(self) -> str:
        """Return the line of a Nagios plugin: state, problems, and performance data."""
        counts = self._counts(self.before)
        late = len(self.not_analysed)
        words = [f"{FINDING_KINDS[kind]}: {count}" for kind, count in counts.items() if count]
        if late:
            words.append(f"{NOT_ANALYSED}: {late}")
        elif not self.complete:
            words.append("not all failures of several nodes at once were analysed")
        data = [
            f"{kind}={count};0;{'0' if kind in CRITICAL else ''};0"
            for kind, count in counts.items()
        ]
        score = sum(group.score for group in self.before)
        data += [f"not_analysed={late};;;0", f"score={score:.4f};;;0"]
        text = ", ".join(words) or "nothing is wrong"
        return f"GANETI {NAGIOS_STATES[self.nagios_status]} - {text} | {' '.join(data)}"

    @property
    def hcheck_needs(self) -> bool:
        """Return whether hcheck reports a problem in the present state."""
        return any(value for group in self.before for _, value in self.hcheck_counts(group))

    def hcheck_counts(self, health: GroupHealth) -> Iterator[tuple[str, int]]:
        counts = health.counts
        for key, kind in HCHECK_KEYS.items():
            if key != "GN1_FAIL" or self.capacity_checks:
                yield key, counts[kind] if kind else health.offline_nodes


def score_assessment(state: State, group: Group) -> Json:
    """Return an assessment of the score of `group` for its nodes and instances, as plain data.

    The members of the result are: ``score_terms``, the statistics that contribute to the score;
    ``score_reference``, the score if nodes were used evenly; ``score_level``: low, moderate or
    high. The sum of reserved memory is part of both scores, because no move avoids it. The other
    sums are 0 for evenly used nodes.
    """
    nodes = state.cluster.nodes
    score_terms = terms_of(state, group.nodes)

    primaries = sum(len(state.primaries[index]) for index in group.nodes)
    both = primaries + sum(len(state.secondaries[index]) for index in group.nodes)
    full, empty = [], []
    for index in group.nodes:
        fixed = capacities(nodes[index])
        full.append(values(NodeView.of(state, index, fixed), NO_CENTRES))
        vectors = [i.as_primary for i in state.primaries[index].values()]
        vectors += [i.as_secondary for i in state.secondaries[index].values()]
        held = map(sum, zip(*vectors)) if vectors else [0] * len(COLUMNS)
        row = [
            amount - amount_held for amount, amount_held in zip(state.row(index), held, strict=True)
        ]
        empty.append(values(NodeView(row, fixed, 0), NO_CENTRES))
    even = 0.0
    for k, statistic in enumerate(STATISTICS):
        if statistic.spread:
            used = sum(abs(now[k] - then[k]) for now, then in zip(full, empty))
            even += (
                statistic.weight
                * EVEN_DEVIATION
                * used
                / max(both if statistic.disk else primaries, 1)
            )
    certain = score_terms[RESERVED_TOTAL]
    avoidable = sum(score_terms) - certain
    level = (
        "high"
        if avoidable > HIGH_SCORE_FACTOR * even
        else "moderate"
        if avoidable > even
        else "low"
    )
    return {
        "score_level": level,
        "score_reference": certain + even,
        "score_terms": [
            {"name": one.name, "term": term}
            for one, term in zip(STATISTICS, score_terms, strict=True)
            if term
        ],
    }


def _summary(health: GroupHealth, counts: Mapping[str, int]) -> str:
    """Return the problems of a group in one line; "" if there are none."""
    parts = [f"{FINDING_KINDS[kind]}: {count}" for kind, count in counts.items() if count]
    if health.not_analysed:
        parts.append(f"{NOT_ANALYSED}: {len(health.not_analysed)}")
    return ", ".join(parts)


def _failure_facts(joint: FailuresFound) -> Json:
    """Return the results for sets of nodes and for failure domains; of many sets, the first."""
    cluster, sets = joint.cluster, joint.sets

    def listed(failures: Iterable[Failure]) -> list[Json]:
        return [one.document(cluster) for one in failures]

    facts: Json = {
        "size": joint.size, "complete": joint.complete, "sets": None, "domains": None,
    }  # fmt: skip
    if sets is not None:
        facts["sets"] = {
            "count": sets.count,
            "survived": sets.tolerated,
            "lose": sets.lose,
            "unknown": sets.unknown,
            "worst": listed(sets.worst(MOST_SETS_LISTED)),
            "losing": listed(islice(sets.losing(), MOST_SETS_LISTED)),
        }
    if joint.domains is not None:
        facts["domains"] = [
            {
                "domain": one.name,
                **one.failure.document(cluster),
                "pairs": comb(len(one.failure.nodes), joint.size),
                "losing": sets.within(one.failure.nodes) if sets is not None else 0,
            }
            for one in joint.domains
        ]
    return facts


def counts_of(health: Iterable[GroupHealth]) -> dict[str, int]:
    """Return kind of finding -> how many nodes or instances of all groups have it."""
    counts = [one.counts for one in health]
    return {kind: sum(one[kind] for one in counts) for kind in FINDING_KINDS}
