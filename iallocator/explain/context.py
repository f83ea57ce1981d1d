"""The context in which a request is asked again, so that it can be explained."""

from __future__ import annotations

from copy import copy

from iallocator.explain.n1 import RecordingN1Check
from iallocator.placement.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.n1.rules import Rules
    from iallocator.options import Settings

__all__ = ["WitnessedContext", "limit_notes", "option_notes", "order_note", "scope_note"]

N1_MODES = {
    "strict": "N+1 is strict: the failure of any node must be survived, whoever causes it.",
    "off": "Global N+1 is not looked at.",
}
"""What is worth a note where N+1 is not judged as usual."""

NAMED = 3
"""How many instances that went before are named at most."""


class WitnessedContext(Context):
    """A context for asking again: at least two ways for each instance, and a `RecordingN1Check`.

    `instances` are those that go to any node; without any, placements are few.
    """

    __slots__ = ("_witnesses",)

    def __init__(self, cluster: Cluster, settings: Settings, instances: Sequence[Instance]) -> None:
        wanted = _asking_for_two(settings)
        wanted.by_group = {k: _asking_for_two(own) for k, own in settings.by_group.items()}
        pairs = sum(len(group.nodes) ** 2 for group in cluster.groups)
        work = [(len(cluster.nodes), pairs if i.required_nodes == 2 else 0) for i in instances]
        super().__init__(cluster, wanted, work, [i for i in instances if not i.nodes])
        self._witnesses: dict[tuple[tuple[int, ...], str], RecordingN1Check] = {}

    def forget(self) -> None:
        """Begin with new witnesses: what they know is about the state as it was."""
        self._witnesses.clear()

    def judge(self, scope: Sequence[int], rules: Rules | None = None) -> RecordingN1Check:
        """The witness for `scope` and `rules`, the same until `forget`."""
        rules = rules or self.rules(self.settings.n1)
        key = tuple(scope), rules.mode
        if key not in self._witnesses:
            self._witnesses[key] = RecordingN1Check(self.state, self.kernels, rules, scope)
        return self._witnesses[key]


def _asking_for_two(settings: Settings) -> Settings:
    wanted = copy(settings)
    wanted.top = max(2, settings.top)
    return wanted


def option_notes(settings: Settings) -> list[str]:
    """What the options say of the limits for a new instance."""
    found = []
    if settings.ignore_soft_errors:
        found.append("Soft limits are not looked at.")
    if settings.n1 in N1_MODES:
        found.append(N1_MODES[settings.n1])
    return found


def limit_notes(context: Context, instance: Instance) -> list[str]:
    """What is worth saying of the limits for moving `instance` off its nodes."""
    if context.settings_of(context.cluster.group_of(instance)).ignore_soft_errors:
        return ["Soft limits are not looked at."]
    nodes = context.cluster.nodes
    lost = [nodes[i].name for i in context.state.where[instance.name] if not nodes[i].online]
    if not lost:
        return []
    return [f"Not online: {' and '.join(lost)}. Moves off there are held to hard limits only."]


def scope_note(context: Context, instance: Instance) -> list[str]:
    """Which groups are not asked where an instance has to stay in its own."""
    local = context.cluster.group_of(instance)
    others = [g.name for g in context.cluster.groups if g is not local and g.nodes]
    return [f"It stays in group {local.name}: not asked is {', '.join(others)}."] if others else []


def order_note(names: Sequence[str], done: str = "moved") -> list[str]:
    """What went before on the same state: the instances called `names` are `done`."""
    if not names:
        return []
    told = ", ".join(names) if len(names) <= NAMED else f"{len(names)} instances"
    verb = "is" if len(names) == 1 else "are"
    return [f"As things are once {told} of this request {verb} {done}."]
