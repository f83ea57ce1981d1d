"""The command ``check``: report what is wrong with a cluster, before and after balancing."""

from __future__ import annotations

from iallocator.commands.command import Result, ShownState, enforced_relations
from iallocator.commands.progress import progress_line
from iallocator.deadline import SIGNALLED, TIME_IS_UP, Deadline, interrupted, limit_reached
from iallocator.documents.checkup import Checkup, score_assessment
from iallocator.errors import STATUS_INCOMPLETE, tell
from iallocator.model.state import State
from iallocator.names import domains_of
from iallocator.options.settings import REQUEST_SETTINGS
from iallocator.planners.check.health import data_findings, examine
from iallocator.planners.eligible import group_named, set_offline, set_vcpu_ratio
from iallocator.planners.plan import Plan
from iallocator.planners.result import GroupPlan, GroupPlans
from iallocator.render import TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.commands.command import Command
    from iallocator.commands.planner_options import Check as Settings

__all__ = ["check"]

AFTER_SIGNAL = 0.3
"""Seconds that the analysis of the health after balancing may take once a signal has come."""

BALANCING_TIME_SHARE = 0.5
"""The share of the time limit for balancing; the rest is for the analysis of problems."""


def check(command: Command, deadline: Deadline) -> Result:
    """Find what is wrong with the cluster, and balance every group if that may help."""
    own: Any = command.effective  # tags are applied, for example the N+1 mode
    cluster = command.source.cluster
    if own.lookahead:
        tell("Warning: --lookahead has no effect")
    set_offline(cluster, own.offline)
    if own.max_cpu is not None:
        set_vcpu_ratio(cluster, own.max_cpu)
    first = State(cluster)
    with progress_line("checking"):
        now = _health(first.copy(), own, deadline)
    # Balancing is tried if something is wrong, or if options ask for it
    simulation_asked = own.simulation or own.chosen_for_moves() or now.healthy is False
    trying = (
        bool(now.hcheck_needs if own.machine_readable else simulation_asked)
        and not own.no_simulation
    )
    if own.behaviour.reports_inconsistent_nodes:
        now.data = data_findings(first)
    late = trying and deadline.over()
    if trying and not late:
        from iallocator.commands.plans import balanced

        seconds = own.planning_seconds - (1 - BALANCING_TIME_SHARE) * (deadline.left or 0.0)
        with progress_line("balancing"):
            done = balanced(cluster, own, own, Deadline.of_run(seconds), compound=False)
    else:
        plans = [GroupPlan(one.group, Plan("balance", one.score)) for one in now.before]
        done = GroupPlans("balance", first, plans)
    reasons = {done.plan.reason, *(one.plan.reason for one in done.plans)}
    if late:
        reasons.add(TIME_IS_UP)
    early = next((why for why in (TIME_IS_UP, SIGNALLED) if why in reasons), "")
    if early == SIGNALLED:
        tell(f"iallocator: balancing ended early: {SIGNALLED}")
    elif early:
        tell(f"iallocator: balancing ended early: {limit_reached(own.planning_seconds)}")
    elif now.not_analysed:
        tell(f"iallocator: {limit_reached(own.planning_seconds)}")
    if done.moves:
        _leave_out_needless_copies(done, own, deadline)
    return Checked(done, now, own, trying, early)


class Checked(Result):
    """The result of ``check``: the problems of a cluster, now and after balancing.

    `early`: the reason, if balancing ended before it was complete; otherwise "".
    """

    def __init__(
        self, done: GroupPlans, now: Checkup, settings: Settings, tried: bool, early: str
    ) -> None:
        super().__init__()
        self._early = early
        self._done = done
        self._now = now
        self._settings = settings
        self._tried = tried
        self.interrupted = done.interrupted
        self.before = [ShownState("Initial", "original", lambda: done.before)]

    def complete(self) -> bool:
        """Analyse the health after balancing, and the effect of several failures at once."""
        with progress_line("checking"):
            self._checked = self._checkup()
            self._checked.tried = self._tried
            self._checked.early = self._early
            settings, state = self._settings, self._done.before
            if settings.failures or settings.racks:
                from iallocator.planners.check.joint_failures import examine_failures

                self._checked.failures = examine_failures(
                    state,
                    settings.failures,
                    settings.racks,
                    settings.min_disk,
                    enforced_relations(state.cluster, settings),
                    Deadline.of_run(settings.planning_seconds),
                )
        if interrupted() and not self._checked.complete and not self.interrupted:
            tell(f"iallocator: {SIGNALLED} before every failure was analysed")
            self.interrupted = True
        checkup, done = self._checked, self._done
        after = done.after if checkup.moves else lambda: done.before
        self.after = [ShownState("Final", "balanced", after)]
        if settings.machine_readable:
            wrong = checkup.hcheck_needs and not settings.no_simulation
        else:
            wrong = checkup.healthy is False
        self.status = 1 if wrong else 0 if checkup.complete else STATUS_INCOMPLETE
        if settings.nagios:
            self.status = checkup.nagios_status
        return True

    def _checkup(self) -> Checkup:
        """Return the health before and after balancing, or only the health before it.

        Balancing is left out if the time does not suffice for the health after it.
        """
        done, now = self._done, self._now
        if not done.moves:
            return now
        reason, last = TIME_IS_UP, Deadline.of_run(self._settings.planning_seconds)
        if interrupted():
            reason, last = SIGNALLED, Deadline(AFTER_SIGNAL)
        then = _health(done.after(), self._settings, last)
        if then.not_analysed:
            tell(f"iallocator: {reason} before the health after balancing is known")
            return now
        moves = len(done.moves)
        checkup = Checkup(now.before, then.before, moves, now.capacity_checks, now.tag_findings)
        checkup.data = now.data
        return checkup

    def document(self) -> Json:
        """Return the findings as plain data, without the list of joint failures."""
        return self._with_scores(self._checked.findings())

    def _with_scores(self, document: Json) -> Json:
        """Add to each group of `document` the assessment of its score; return `document`."""
        for health, entry in zip(self._now.before, document["groups"], strict=True):
            entry.update(score_assessment(self._done.before, health.group))
        return document

    def json(self) -> Json:
        """Return the findings, and the moves that balancing makes, as plain data."""
        document = self._with_scores(self._checked.document())
        return {**self._done.document(), "command": "check", **document}

    def machine_lines(self) -> Iterable[str]:
        """Return the findings with the keys of hcheck, or as the line of a Nagios plugin."""
        if self._settings.nagios:
            return [self._checked.nagios_line()]
        return self._checked.hcheck_lines()

    def metrics(self) -> list[Json]:
        """Return the health of each group."""
        from iallocator.documents.cluster_facts import Examination
        from iallocator.documents.metrics import health_metrics

        settings, state = self._settings, self._done.before
        relations = enforced_relations(state.cluster, settings)
        how = Examination.of(settings, settings.min_disk, relations)
        return health_metrics(state, self._now.before, self._now.data, how)

    def facts(self, medium: str) -> Json:
        """Return the findings in words for the text; for the page, the health before and after.

        The findings are known already and are not computed again.
        """
        done, checkup, settings = self._done, self._checked, self._settings
        if medium == TEXT:
            nodes, instances = done.cluster.nodes, done.cluster.instances
            domains = domains_of((n.name for n in nodes), (i.name for i in instances))
            return {**checkup.facts(), "domains": domains}
        from iallocator.documents.cluster_facts import Examination, cluster_facts
        from iallocator.documents.plan import plan_facts
        from iallocator.ganeti.jobs import transition_document

        how = Examination.of(settings, settings.min_disk)
        if checkup.moves:
            facts = plan_facts(done, how, health=(checkup.before, checkup.after))
        else:
            only = group_named(done.cluster, settings.group) if settings.group else None
            facts = cluster_facts(done.before, how, checkup.before, only)
        plan = {**done.document(), "transition": transition_document(done.transition)}
        return {**facts, **checkup.facts(), "plan": plan}


def _leave_out_needless_copies(done: GroupPlans, settings: Settings, whole: Deadline) -> None:
    """Leave needless copies of disks out of a plan that passes verification."""
    from iallocator.commands.verification import limits_of_plan, without_needless_copies
    from iallocator.planners.outcome import Failures
    from iallocator.planners.verify import verify_moves, verify_transition

    limits = limits_of_plan(done, settings, settings.min_disk)
    failures = Failures(limits)
    if not verify_moves(done.before, done.entries, limits, failures):
        without_needless_copies(
            done,
            limits,
            failures,
            whole.over,
            lambda: verify_transition(
                done.before, done.transition, limits, 0, whole.over, failures
            ),
        )


def _health(state: State, settings: Settings, deadline: Deadline) -> Checkup:
    """Return the health of `state`.

    If `deadline` leaves no time to find out whether a failure is tolerated, that failure is not
    analysed.
    """
    cluster = state.cluster
    relations = enforced_relations(cluster, settings)
    tags = []
    if settings.behaviour.knows_affinity:
        from iallocator.constraints.locations import by_pacemaker
        from iallocator.constraints.tag_findings import all_findings

        tags = all_findings(
            cluster,
            cluster.instances,
            settings.tag_prefix,
            relations,
            REQUEST_SETTINGS,
            by_pacemaker(settings),
        )
    modes = {index: one.n1 for index, one in settings.by_group.items()}
    groups = examine(state, settings.n1, settings.min_disk, relations, deadline, modes)
    if settings.group:
        only = group_named(cluster, settings.group)
        groups = [one for one in groups if one.group is only]
    return Checkup(groups, groups, 0, settings.n1 != "off", tags)
