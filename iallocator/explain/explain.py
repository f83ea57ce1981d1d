"""Explain the answer to a request of any type."""

from __future__ import annotations

from iallocator.aliases import Json
from iallocator.engine import decide, read
from iallocator.errors import MOST_NAMES, UsageError, cut
from iallocator.explain.decisions import decisions_of
from iallocator.explain.explanation import Explanation
from iallocator.explain.facts import GroupReport
from iallocator.explain.recorder import Recorder
from iallocator.names import guesses, meant, whole_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.explain.explanation import Decision
    from iallocator.model.cluster import Cluster, Node
    from iallocator.options.settings import Settings
    from iallocator.requests.existing import Request

__all__ = [
    "explain",
    "explain_request",
    "narrow_to_instance",
    "narrow_to_node",
]

LATE = "There is no decision to explain: time was up before there was an answer."


def explain(
    raw: bytes, settings: Settings, instance: str | None = None, node: str | None = None
) -> Explanation:
    """Return the explanation of the answer to the request document `raw`.

    The request is answered once, as without an explanation; a trace records the reasons. With
    `instance`, only the decision on that instance is returned; with `node`, only the rows of that
    node.

    Raises
    ------
    RequestError
        If the document is invalid.
    UsageError
        If the request does not concern `instance`, or the cluster has no node called `node`.
    """
    cluster, request = read(raw, settings)
    return explain_request(cluster, request, settings, instance, node)


def explain_request(
    cluster: Cluster,
    request: Request,
    settings: Settings,
    instance: str | None = None,
    node: str | None = None,
) -> Explanation:
    """Return the explanation of the answer to `request` about `cluster`.

    With `instance`, only the decision on that instance is returned; with `node`, only the rows of
    that node.

    Raises
    ------
    UsageError
        If the request does not concern `instance`, or the cluster has no node called `node`.
    """
    noted = Recorder(request.evacuated_nodes())
    reply = decide(cluster, request, settings, noted)
    response = reply.document()
    remarks = list(reply.remarks)
    if noted.late:
        return Explanation(request.kind, response, _chosen(settings), [], [*remarks, LATE])
    decisions = decisions_of(request, noted, response)
    if not decisions:
        remarks.append("No instance is concerned: nothing is to be done.")
    chosen = _chosen(noted.context.settings)
    explanation = Explanation(request.kind, response, chosen, decisions, remarks)
    if instance is not None:
        narrow_to_instance(explanation, instance)
    if node is not None:
        narrow_to_node(explanation, cluster, node)
    return explanation


def _chosen(settings: Settings) -> Json:
    """Return the settings that influence an answer, as plain data."""
    return {
        "strategy": settings.strategy,
        "n1": settings.n1,
        "compat": settings.compat,
        "ignore_soft_errors": settings.ignore_soft_errors,
        "ignore_dynu": settings.ignore_dynu,
        "inter_group": settings.inter_group,
        "restrict_allocation_to": settings.restrict_allocation_to,
        "static_kvm_node_memory": settings.static_kvm_node_memory,
    }


def narrow_to_instance(explanation: Explanation, name: str) -> None:
    """Keep only the decision on the instance called `name`.

    Raises
    ------
    UsageError
        If the request does not concern this instance.
    """
    names = [decision.instance for decision in explanation.decisions]
    possible = meant(name, names)
    if len(possible) == 1:
        name = possible[0]
    else:
        near = guesses(name, names)
        known = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
        raise UsageError(
            f"--instance: the request is not about {cut(name)}{near}, but about {known or 'none'}"
        )
    explanation.decisions = [
        decision for decision in explanation.decisions if decision.instance == name
    ]


def narrow_to_node(explanation: Explanation, cluster: Cluster, name: str) -> None:
    """Keep only the rows of the node called `name` in each decision.

    Raises
    ------
    NotFoundError
        If the cluster does not have this node.
    """
    name = whole_name(name, [node.name for node in cluster.nodes], "--node", "node")
    node = next(node for node in cluster.nodes if node.name == name)
    for decision in explanation.decisions:
        _narrow(decision, node)
        if not any(part.groups for part in decision.parts()):
            group = node.group
            why = f"{node.name} is in group {group.name}, which was not asked"
            report = GroupReport(group.name, group.uuid, group.alloc_policy, obstacle=why)
            decision.groups = [report]


def _narrow(decision: Decision, node: Node) -> None:
    """Keep in `decision` only the last report on `node`, without the choice of its group."""
    decision.groups = [group for group in decision.groups if group.uuid == node.group.uuid]
    for group in decision.groups:
        group.nodes = [one for one in group.nodes if one.name == node.name]
        group.n1_rejections = [one for one in group.n1_rejections if node.name in one.nodes]
    if decision.groups:
        decision.choice = decision.elsewhere = None
    for part in (decision.choice, decision.elsewhere):
        if part is not None:
            _narrow(part, node)
