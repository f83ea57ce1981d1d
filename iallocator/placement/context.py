"""The context of one request: the initial cluster, its present state, and the settings."""

from __future__ import annotations

from iallocator.constraints import findings_for
from iallocator.constraints.no_affinity import NoAffinity
from iallocator.constraints.table import AFFINITY
from iallocator.deadline import NEVER, SIMULATIONS, Deadline
from iallocator.model.state import State
from iallocator.n1 import WORK_PER_SECOND, Rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.options.settings import PLANNING_SECONDS, REQUEST_SETTINGS
from iallocator.placement.evaluator import Evaluator
from iallocator.placement.limit_policy import limit_policies_for
from iallocator.placement.score_scope import ScoreScope
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.placement.limit_policy import LimitPolicies
    from iallocator.placement.results import NodeQuery
    from iallocator.placement.trace import Trace, TracedEvaluator
    from iallocator.ranking.base import ScheduledInstance
    from iallocator.scoring import Kernel
    from iallocator.scoring.candidates import Candidates

__all__ = ["EXPECTED_MOVES", "Context"]

EXPECTED_MOVES = 20
"""The number of moves that a planner is expected to make; it determines the form of the kernel."""


class Context:
    """The state, the settings and the shared objects of one request.

    Parameters
    ----------
    cluster, settings:
        The cluster as read, and the settings of the request.
    candidates:
        For each instance of the request, the number of nodes and of pairs of nodes to score; these
        numbers determine the form of the kernel.
    coming:
        The new instances of the request.
    trace:
        Receives each decision and its reasons, see `iallocator.placement.trace`; None if nothing is
        to be explained.
    deadline:
        The time limit of the request.
    groups:
        The number of groups that are scored.

    Attributes
    ----------
    affinity:
        The affinity constraints between instances.
    effort:
        The limit of work and time for simulations of failures.
    interrupted:
        Whether Ctrl-C ended a search.
    kept:
        Name of a strategy -> its cached data, from one instance of the request to the next.
    last_query:
        The last query and its evaluator, for the search for the nearest candidate.
    leaving:
        The instance that is not placed while its new nodes are chosen, or None.
    remarks:
        Lines for stderr.
    scheduled:
        The instance that is placed now, and the instances that are placed with it, if a strategy
        decides the order.
    """

    moves_are_optional = False
    """True if every move is optional, so that the stickiness of instances has effect."""

    groups_are_ranked_together = False
    """True if the nodes of all groups are scored in one pass, provided that the score alone ranks
    placements; see `AcrossGroups`."""

    __slots__ = (
        "_all_nodes",
        "_evaluators",
        "_failures",
        "_rules",
        "_scopes",
        "_version",
        "affinity",
        "cluster",
        "coming",
        "deadline",
        "effort",
        "interrupted",
        "kept",
        "kernels",
        "last_query",
        "leaving",
        "misses_reported",
        "namesake",
        "remarks",
        "scheduled",
        "settings",
        "state",
        "trace",
    )

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        candidates: Iterable[tuple[int, int]] = (),
        coming: Sequence[Instance] = (),
        trace: Trace | None = None,
        deadline: Deadline | None = None,
        groups: int = 1,
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.trace = trace
        self.deadline = Deadline(None) if deadline is None else deadline
        # The work of as many seconds as the deadline gives, at least by default, and that time.  A
        # shorter limit ends the simulations by the clock only.
        seconds = self.deadline.seconds
        work = NEVER if seconds is None else max(seconds, PLANNING_SECONDS) * WORK_PER_SECOND
        self.effort = Deadline(None, work={SIMULATIONS: work}, whole=self.deadline)
        self.state = State(cluster)
        self._version = self.state.version
        self._all_nodes = range(len(cluster.nodes))
        self._scopes: dict[int, ScoreScope] = {}
        self._rules: dict[str, Rules] = {}
        self._evaluators: dict[tuple[int, int], Evaluator] = {}
        self.interrupted = False
        self.leaving: Instance | None = None
        self.namesake: Instance | None = None
        self.misses_reported = 0
        self.last_query: tuple[TracedEvaluator, NodeQuery] | None = None
        self._failures: dict[int, FailureTolerance] = {}
        self.kept: dict[str, Any] = {}
        self.remarks: list[str] = []
        self.coming = coming
        self.scheduled: ScheduledInstance | None = None
        self.affinity = NoAffinity()
        if settings.behaviour.knows_affinity:
            self.affinity = AFFINITY.on(
                self.state, coming, settings, self._fits, self.moves_are_optional
            )
        passes = 1 if self.groups_are_ranked_together and self.plain else groups
        self.kernels = Kernels(self.state, candidates, groups=passes)

    def with_soft_costs(
        self, instance: Instance, candidates: Candidates
    ) -> tuple[Candidates, dict[Nodes, float]]:
        """Return `candidates` with penalties in their scores, and placement -> score without
        penalty.

        The mapping is empty if there are no penalties.
        """
        if self.affinity.relations is None:
            return candidates, {}
        from iallocator.placement.soft_costs import with_penalties

        return with_penalties(self.affinity, instance, candidates)

    def tag_findings(self, instances: Sequence[Instance]) -> list[str]:
        """Return the problems of tags that matter for an answer about `instances`, in words.

        With placement keys, which customers set, only the tags of `instances` are checked.
        """
        settings = self.settings
        if not settings.behaviour.knows_affinity:
            return []
        findings = findings_for(
            self.cluster, instances, settings.tag_prefix, self.affinity.relations, REQUEST_SETTINGS,
            shared=settings.strategy != "affinity", keys=settings.strategy.startswith("pacemaker"),
        )  # fmt: skip
        return list(map(str, findings))

    def _fits(self, instance: Instance, index: int) -> bool:
        """Return whether the limits of node `index` allow it to be the primary of `instance`."""
        return self.evaluator(self.cluster.nodes[index].group).takes_primary(instance, index)

    def settings_of(self, group: Group) -> Settings:
        """Return the settings of `group`, which its tags may change."""
        return self.settings.by_group.get(group.index, self.settings)

    def searches_for(self, groups: Iterable[Group]) -> bool:
        """Return whether exact search is allowed in any of `groups`.

        Without groups, the settings of the request decide.
        """
        searches = [self.settings_of(group).searches for group in groups]
        return any(searches) if searches else self.settings.searches

    @property
    def plain(self) -> bool:
        """Return whether every group ranks placements by the score alone."""
        settings = self.settings
        alike = settings.strategy == "score" and not settings.by_group
        return alike and self.affinity.relations is None

    def evaluator(self, group: Group, scope: Sequence[int] | None = None) -> Evaluator:
        """Return the evaluator of `group`, by its own settings; scores include the nodes of
        `scope`.

        The default `scope` is the group, as for moves; an allocation without a named group has
        `all_nodes`. Calls with equal arguments return one object.
        """
        nodes = group.nodes if scope is None else scope
        key = group.index, id(nodes)  # the scope keeps its nodes, and so their identity
        evaluator = self._evaluators.get(key)
        if evaluator is None:
            known = self._scopes.get(id(nodes))
            if known is None:
                known = self._scopes[id(nodes)] = ScoreScope(self, nodes)
            settings = self.settings_of(group)
            evaluator = Evaluator(
                self, group, settings, self.limit_policies(settings), self.rules(settings.n1), known
            )
            self._evaluators[key] = evaluator
        return evaluator

    def limit_policies(self, settings: Settings) -> LimitPolicies:
        """Return the limit policies of a group with these `settings`."""
        return limit_policies_for(settings)

    def rules(self, mode: str) -> Rules:
        """Return the N+1 rules of this `mode` for the request."""
        rules = self._rules.get(mode)
        if rules is None:
            relations = self.affinity.relations
            units = None if relations is None else relations.units()
            rules = self._rules[mode] = self.make_rules(mode, units)
        return rules

    def make_rules(self, mode: str, units: Mapping[str, Sequence[str]] | None) -> Rules:
        """Return new N+1 rules of `mode`.

        `units`: name of an instance -> its colocation group; None if there are no such groups.
        """
        stay = mode == "strict" and self.settings.behaviour.checks_n1_where_movers_were
        namesake = self.namesake if mode == "strict" else None
        return Rules(mode, units, self.effort, stay, namesake)

    def budget(self, thoroughness: int = 1) -> Deadline:
        """Return the budget of one exact search, multiplied by `thoroughness`."""
        limited = self.settings.time_limit is not None
        return Deadline.of_search(
            self.settings.optimum_seconds * thoroughness,
            self.deadline if limited else None,
            self.settings.planning_seconds,
        )

    def kernel(self, scope: Sequence[int]) -> Kernel:
        """Return a kernel that scores the nodes of `scope` on the present state."""
        return self.kernels.make(self.state, scope)

    def tolerance(self, scope: Sequence[int], rules: Rules | None = None) -> FailureTolerance:
        """Return new N+1 checks of the state; simulations compute scores over the nodes in `scope`.

        Without `rules`, the mode is that in the settings of the request.
        """
        make = FailureTolerance if self.trace is None else self.trace.n1_check
        return make(self.state, rules or self.rules(self.settings.n1), scope, self.kernels)

    def failures(self, group: Group) -> FailureTolerance:
        """Return the N+1 checks of `group`, which compare moves and states with the initial state.

        The losses in the initial state are measured when they are first needed.
        """
        failures = self._failures.get(group.index)
        if failures is None:
            rules = self.rules(self.settings_of(group).n1)
            as_read = self.state.version == self._version
            first = self.state.copy() if as_read else State(self.cluster)
            make = FailureTolerance if self.trace is None else self.trace.n1_check
            before = make(first, rules, group.nodes, self.kernels, group)
            before.measure(now=False)
            failures = self._failures[group.index] = before.on(self.state)
            failures.require(losses=failures.comparison.initial.losses)
        return failures

    def all_nodes(self) -> range:
        """Return every node of the document; all calls return one object."""
        return self._all_nodes
