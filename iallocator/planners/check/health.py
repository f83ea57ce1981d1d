"""Find the problems of a cluster: each finding has its node, its instance and its numbers.

Violated hard constraints of tags are among the findings.  The effect of the failure of a node names
where each instance fails over to, moves to, or is created anew.
"""

from __future__ import annotations

from iallocator.constraints.table import INSTANCE_POLICY, out_of_reach
from iallocator.model.node_view import NodeView, capacities
from iallocator.n1 import Rules, UndecidedError
from iallocator.n1.tolerance import FailureTolerance
from iallocator.scoring.scalar import score_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure

__all__ = [
    "FINDING_KINDS", "INCONSISTENT_DATA", "NODE_KINDS", "NOT_ANALYSED", "Finding", "GroupHealth",
    "NodeFailure", "ViolatedConstraints", "data_findings", "examine", "failures", "unexamined",
]  # fmt: skip

FINDING_KINDS = {
    "n1": "nodes without the memory for a failover to them",
    "global_n1": "nodes with a failure that is not tolerated",
    "conflicts": "nodes with instances that exclude each other",
    "offline_primary": "instances with a primary that is not online",
    "offline_secondary": "instances with a secondary that is not online",
    "policy": "nodes and instances outside the policy",
    "split": "instances with nodes in two groups",
    "location": "instances badly placed by location",
    "musts": "instances that violate a hard constraint",
    "inconsistent": "nodes with less free memory or disk than their instances explain",
}
"""Kind of finding -> the nodes or instances that are counted, in words."""

NOT_ANALYSED = "nodes with a failure that was not analysed: the check ended early"
"""The nodes that `GroupHealth.not_analysed` counts, in words."""

INCONSISTENT_DATA = "inconsistent"
"""The kind of findings about the data, not about placement."""

NODE_KINDS = {"n1", "global_n1", "conflicts", INCONSISTENT_DATA}
"""The kinds that count nodes, even if a finding names an instance."""


class Finding:
    """One problem of a node or an instance.

    Attributes
    ----------
    kind:
        One of `FINDING_KINDS`.
    node, instance:
        The name of the node and of the instance; "" if the problem concerns none.
    text:
        The problem in words, with numbers.
    """

    __slots__ = ("instance", "kind", "node", "text")

    def __init__(self, kind: str, text: str, *, node: str = "", instance: str = "") -> None:
        self.kind = kind
        self.text = text
        self.node = node
        self.instance = instance

    def document(self) -> dict[str, object]:
        """Return the finding as plain data; null for a name that is ""."""
        return {
            "kind": self.kind,
            "node": self.node or None,
            "instance": self.instance or None,
            "text": self.text,
        }


class GroupHealth:
    """The problems of one group.

    Attributes
    ----------
    group, score:
        The group, and the score of its nodes.
    findings:
        The problems that were found.
    offline_nodes:
        The number of nodes that are not online.  An offline node is not a finding.
    not_analysed:
        Names of the nodes with a failure that was not analysed before the time limit.  They
        have no finding of the kind ``global_n1``.
    examined:
        Whether the findings of the other kinds were searched for before the time limit.
    tolerance:
        Global N+1 of the group as it was examined; None if it was not examined.
    """

    __slots__ = (
        "examined", "findings", "group", "not_analysed", "offline_nodes", "score", "tolerance",
    )  # fmt: skip

    def __init__(
        self,
        group: Group,
        findings: list[Finding],
        score: float,
        offline_nodes: int,
        not_analysed: list[str],
        examined: bool = True,
        tolerance: FailureTolerance | None = None,
    ) -> None:
        self.tolerance = tolerance
        self.not_analysed = not_analysed
        self.examined = examined
        self.group = group
        self.findings = findings
        self.score = score
        self.offline_nodes = offline_nodes

    @property
    def counts(self) -> dict[str, int]:
        """Return for each kind the number of nodes or instances with a finding of the kind."""
        named: dict[str, set[tuple[str, str]]] = {kind: set() for kind in FINDING_KINDS}
        for finding in self.findings:
            of_instance = finding.instance and finding.kind not in NODE_KINDS
            about = ("", finding.instance) if of_instance else (finding.node, "")
            named[finding.kind].add(about)
        return {kind: len(members) for kind, members in named.items()}


if TYPE_CHECKING:
    Share = tuple[int, int]

    """A number of instances, and the MiB of memory that they need."""


class NodeFailure:
    """The effect on the instances of a node if it fails, alone or together with other nodes.

    Attributes
    ----------
    node:
        The name of the node.
    together:
        Names of the nodes that fail, with the node itself. If several failures include the node, it
        is one that is not tolerated, if there is one.
    analysed:
        Whether the failure was analysed.  Failures of nodes that are not online are analysed
        only with ``strict``, and no failure is with ``--n1 off``.
    late:
        Whether the time limit came before the failure was analysed.
    lost:
        The reason why the failure is not tolerated; "" if it is tolerated or not analysed.
    unrestarted:
        Names of the instances that cannot be restarted after the failure.
    failovers:
        Name of a secondary -> the number and the MiB of the instances that fail over to it; with ""
        as name, of those without a secondary that is left.
    moved:
        Number and MiB of the instances that start on another node from shared storage.
    recreated:
        Number and MiB of the instances that are created anew.
    """

    __slots__ = (
        "analysed", "failovers", "late", "lost", "moved", "node", "recreated", "together",
        "unrestarted",
    )  # fmt: skip

    def __init__(
        self, node: str, together: Sequence[str], analysed: bool, lost: str, late: bool
    ) -> None:
        self.node = node
        self.together = together
        self.analysed = analysed and not late
        self.late = analysed and late
        self.lost = lost
        self.unrestarted: list[str] = []
        self.failovers: dict[str, Share] = {}
        self.moved: Share = (0, 0)
        self.recreated: Share = (0, 0)

    @property
    def tolerated(self) -> bool:
        """Return whether the failure was analysed, and all instances can be restarted."""
        return self.analysed and not self.lost


def failures(
    state: State, health: Iterable[GroupHealth], n1: str, by_group: Mapping[int, str]
) -> list[NodeFailure]:
    """Return the failure of each node, in the order of `health` and of the nodes of each group.

    `health` is what `examine` returned for `state`, `n1` and `by_group`.
    """
    cluster, nodes = state.cluster, state.cluster.nodes
    every: list[NodeFailure] = []
    for group in health:
        tolerance = group.tolerance
        rules = Rules(by_group.get(group.group.index, n1)) if tolerance is None else tolerance.rules
        lost = {one.node: one for one in group.findings if one.kind == "global_n1"}
        late = frozenset(group.not_analysed)
        names = {
            failure: cluster.node_names(failure)
            for failure in rules.failing(cluster, group.group, group.group.nodes)
            if rules.mode != "off"
        }
        failure_of: dict[int, Failure] = {}
        unrestarted: dict[Failure, list[str]] = {}
        for failure in sorted(names, key=lambda one: _joined(names[one]) not in lost):
            finding = lost.get(_joined(names[failure]))
            if finding:
                found = _unrestarted(tolerance, failure, len(lost))
                unrestarted[failure] = found or [finding.instance]
            for index in failure:
                failure_of.setdefault(index, failure)
        for index in group.group.nodes:
            name = nodes[index].name
            failed = failure_of.get(index, (index,))
            together = names.get(failed, [name])
            finding = lost.get(_joined(together))
            one = NodeFailure(
                name,
                together,
                index in failure_of,
                finding.text if finding else "",
                not late.isdisjoint(together),
            )
            one.unrestarted = unrestarted.get(failed, [])
            every.append(one)
            for instance in state.primaries[index].values():
                if instance.forthcoming:
                    continue
                if instance.needs_secondary:
                    left = [i for i in state.where[instance.name][1:] if i not in failed]
                    target = nodes[left[0]].name if left else ""
                    one.failovers[target] = _more(one.failovers.get(target, (0, 0)), instance)
                elif rules.recreates(instance):
                    one.recreated = _more(one.recreated, instance)
                else:
                    one.moved = _more(one.moved, instance)
    return every


def _joined(names: Sequence[str]) -> str:
    """Return the nodes that fail together as a finding names them."""
    return " and ".join(names)


def _unrestarted(tolerance: FailureTolerance | None, failure: Failure, failures: int) -> list[str]:
    """Return names of instances that cannot be restarted after `failure`; [] if undecided.

    `failures`: the approximate number of failures that are simulated.
    """
    assert tolerance is not None
    try:
        if tolerance.rules.strict:
            return [one.instance.name for one in tolerance.all_unrestarted(failure, failures)]
        return [one.name for one in tolerance.unrestarted(failure)]
    except UndecidedError:
        return []


def _more(share: Share, instance: Instance) -> Share:
    """Return the instances and MiB of memory of `share`, with `instance` added."""
    return share[0] + 1, share[1] + (instance.memory if instance.uses_memory else 0)


class ViolatedConstraints:
    """The hard constraints that instances violate in `state`, which must not change."""

    def __init__(self, state: State, relations: Relations) -> None:
        self._state = state
        self._relations = relations
        self._rule_counts = relations.rule_counts(state.where)
        self._chains = relations.unsupported()

    def of(self, instance: Instance) -> Iterator[str]:
        """Yield the hard constraints that an instance violates, in words."""
        name, where, nodes = instance.name, self._state.where, self._state.cluster.nodes
        for constraint in self._relations.violated_hard(name, where[name][0], self._rule_counts):
            home = where.get(constraint.other)
            place = f", which is on {nodes[home[0]].name}" if home else ""
            yield f"must be {constraint.text}{place}"
        if instance.running and name in self._chains:
            yield f"runs, but {self._chains[name]}"


def examine(
    state: State,
    n1: str,
    min_disk: float = 0.0,
    relations: Relations | None = None,
    deadline: Deadline | None = None,
    by_group: Mapping[int, str] | None = None,
    begun_only: bool = False,
) -> list[GroupHealth]:
    """Return the health of every group that has nodes, in the order of the groups.

    Parameters
    ----------
    state:
        The cluster with its placement.  It is not changed.
    n1:
        The mode of global N+1: ``strict``, ``no-new`` (the failure of any online node),
        ``no-worse`` (the failures of ``no-new``, by exact search) or ``off``.
    min_disk:
        The share of the disk of each node that must stay free, from 0 to 1.
    relations:
        The constraints of tags; None if there are none.
    deadline:
        Nodes with a failure that is undecided at this time are in `GroupHealth.not_analysed`.
    by_group:
        Index of a group -> its mode of global N+1, for groups with a tag that sets the mode.
    begun_only:
        Whether to begin no further group after the deadline; the results of these groups have
        no findings, see `unexamined`.
    """
    units = None if relations is None else relations.units()
    modes = by_group or {}
    rules = {mode: Rules(mode, units, deadline) for mode in {n1, *modes.values()}}
    violated = None if relations is None else ViolatedConstraints(state, relations)
    group_health = []
    for group in state.cluster.groups:
        if not group.nodes:
            continue
        if begun_only and deadline is not None and deadline.over():
            group_health.append(_unexamined(state, group))
            continue
        own = rules[modes.get(group.index, n1)]
        group_health.append(_Examination(state, group, own, min_disk, violated).result())
    return group_health


def data_findings(state: State) -> dict[int, list[Finding]]:
    """Return the index of each group -> findings about nodes with inconsistent data.

    `state` must be the initial state.
    """
    by_group: dict[int, list[Finding]] = {}
    for node, memory, disk in state.unexplained():
        text = f"{memory:.0f} MiB memory and {disk:.0f} MiB disk are neither free nor explained"
        by_group.setdefault(node.group.index, []).append(
            Finding(INCONSISTENT_DATA, text, node=node.name)
        )
    return by_group


def unexamined(state: State) -> list[GroupHealth]:
    """Return for every group that has nodes a result without findings, marked as not examined.

    It is used if there is no time to examine groups.
    """
    return [_unexamined(state, group) for group in state.cluster.groups if group.nodes]


def _unexamined(state: State, group: Group) -> GroupHealth:
    offline = sum(1 for index in group.nodes if not state.cluster.nodes[index].online)
    names = state.cluster.node_names(group.nodes)
    return GroupHealth(group, [], 0.0, offline, names, examined=False)


class _Examination:
    """The search for the problems of one group."""

    def __init__(
        self,
        state: State,
        group: Group,
        rules: Rules,
        min_disk: float,
        violated: ViolatedConstraints | None,
    ) -> None:
        self._violated = violated
        self._state = state
        self._group = group
        self._rules = rules
        self._nodes = state.cluster.nodes
        self._min_disk = min_disk
        self._not_analysed: list[str] = []
        self._tolerance: FailureTolerance | None = None

    def result(self) -> GroupHealth:
        group = self._group
        findings = [
            *self._failovers(),
            *self._failures(),
            *self._conflicts(),
            *self._offline(),
            *self._policy(),
            *self._split(),
            *self._locations(),
            *self._violated_constraints(),
        ]
        score = score_of(self._state, group.nodes, self._min_disk)
        offline = sum(1 for index in group.nodes if not self._nodes[index].online)
        return GroupHealth(
            group, findings, score, offline, self._not_analysed, tolerance=self._tolerance
        )

    def _primaries(self) -> Iterator[tuple[int, Instance]]:
        """Yield each node of the group with each of its primary instances."""
        for index in self._group.nodes:
            for instance in self._state.primaries[index].values():
                yield index, instance

    def _view(self, index: int) -> NodeView:
        return NodeView.of(self._state, index, capacities(self._nodes[index], self._min_disk))

    def _name(self, index: int) -> str:
        return self._nodes[index].name

    def _failovers(self) -> Iterator[Finding]:
        for index in self._group.nodes:
            view = self._view(index)
            if self._nodes[index].online and view.fails_n1:
                text = (
                    f"{view.memory:.12g} MiB memory free, "
                    f"{view.reserved:.12g} MiB reserved for failovers"
                )
                yield Finding("n1", text, node=self._name(index))

    def _failures(self) -> Iterator[Finding]:
        group, rules = self._group, self._rules
        if rules.mode == "off":
            return
        tolerance = self._tolerance = FailureTolerance(
            self._state, rules, group=group, min_disk=self._min_disk
        )
        failing = rules.failing(self._state.cluster, group, group.nodes)
        lost = tolerance.not_tolerated(failing)
        for failure in lost:
            if rules.effort.spent:
                self._not_analysed += map(self._name, failure)
                continue
            try:
                stranded = tolerance.first_unrestarted(failure, len(lost))
            except UndecidedError:
                self._not_analysed += map(self._name, failure)
                continue
            if stranded is None:
                continue
            name = stranded.instance.name
            failing_nodes = self._state.cluster.node_names(failure)
            event = "it fails" if len(failing_nodes) == 1 else "they fail together"
            text = f"if {event}, {name} cannot be restarted: {stranded.why}"
            yield Finding("global_n1", text, node=_joined(failing_nodes), instance=name)

    def _conflicts(self) -> Iterator[Finding]:
        for index in self._group.nodes:
            if not self._view(index).conflicts > 0:
                continue
            holders: dict[str, list[str]] = {}
            for instance in self._state.primaries[index].values():
                for tag in instance.exclusion:
                    holders.setdefault(tag, []).append(instance.name)
            for tag, names in sorted(holders.items()):
                if len(names) > 1:
                    text = f"exclusion tag {tag} on several instances: {', '.join(sorted(names))}"
                    yield Finding("conflicts", text, node=self._name(index))

    def _offline(self) -> Iterator[Finding]:
        for _, instance in self._primaries():
            if instance.forthcoming:
                continue
            for role, at in zip(("primary", "secondary"), self._state.where[instance.name]):
                node = self._nodes[at]
                if not node.online:
                    condition = "offline" if node.offline else "drained or cannot hold instances"
                    text = f"{role} on {node.name}, which is {condition}"
                    yield Finding(f"offline_{role}", text, node=node.name, instance=instance.name)

    def _policy(self) -> Iterator[Finding]:
        breaches: dict[tuple[object, ...], str] = {}  # of each size: many instances have the same
        for index, instance in self._primaries():
            size = (
                self._nodes[index].exclusive_storage, instance.template, instance.memory,
                instance.vcpus, tuple(instance.disk_sizes), instance.spindles,
                instance.spindle_use,
            )  # fmt: skip
            if size not in breaches:
                breaches[size] = INSTANCE_POLICY.entry_words(self._state.cluster, instance, index)
            breach = breaches[size]
            if breach:
                yield Finding("policy", breach, node=self._name(index), instance=instance.name)
        for index in self._group.nodes:
            view = self._view(index)
            if not view.online:
                continue
            if view.cpus > view.vcpu_ratio * view.total_cpus:
                most = view.vcpu_ratio * view.total_cpus
                text = (
                    f"{view.cpus:.12g} virtual cpus in use, {self._nodes[index].total_cpus} cpus "
                    f"at ratio {view.vcpu_ratio:.12g} allow {most:.12g}"
                )
                yield Finding("policy", text, node=self._name(index))
            kept = self._nodes[index].disk_reserve
            if view.disk < kept:
                text = f"{view.disk:.12g} MiB of disk free, {kept:.12g} are to be kept free"
                yield Finding("policy", text, node=self._name(index))
            if view.spindles > view.high_spindles:
                text = (
                    f"{view.spindles:.12g} spindles in use, "
                    f"the policy allows {view.high_spindles:.12g}"
                )
                yield Finding("policy", text, node=self._name(index))

    def _split(self) -> Iterator[Finding]:
        for index, instance in self._primaries():
            others = [self._nodes[at] for at in self._state.where[instance.name][1:]]
            for other in others:
                if other.group is not self._group:
                    text = (
                        f"primary on {self._name(index)} in group {self._group.name}, "
                        f"secondary on {other.name} in group {other.group.name}"
                    )
                    yield Finding("split", text, node=self._name(index), instance=instance.name)

    def _locations(self) -> Iterator[Finding]:
        domains: dict[tuple[str, str], list[str]] = {}
        for index, instance in self._primaries():
            node = self._nodes[index]
            if instance.forthcoming or not node.online:
                continue
            missed = sorted(instance.desired - node.locations)
            if missed:
                text = f"prefers {', '.join(missed)}, which {node.name} does not have"
                yield Finding("location", text, node=node.name, instance=instance.name)
            for at in self._state.where[instance.name][1:]:
                shared = sorted(node.locations & self._nodes[at].locations)
                if shared:
                    text = f"{node.name} and {self._name(at)} are both in {', '.join(shared)}"
                    yield Finding("location", text, node=node.name, instance=instance.name)
            for location in node.locations:
                for tag in instance.exclusion:
                    domains.setdefault((location, tag), []).append(instance.name)
        for (location, tag), names in sorted(domains.items()):
            for name in sorted(names)[1:]:
                others = ", ".join(other for other in sorted(names) if other != name)
                text = f"{tag} is in {location} more than once: with {others}"
                yield Finding("location", text, instance=name)

    def _violated_constraints(self) -> Iterator[Finding]:
        for index, instance in self._primaries():
            broken = []
            for at in self._state.where[instance.name]:
                lacking = out_of_reach(self._state.cluster, (at,), instance)  # a pool, for example
                if lacking:
                    broken.append(f"{self._name(at)} does not {lacking}")
            if self._violated is not None:
                broken += self._violated.of(instance)
            if broken and not instance.forthcoming:
                text = "; ".join(broken)
                yield Finding("musts", text, node=self._name(index), instance=instance.name)
