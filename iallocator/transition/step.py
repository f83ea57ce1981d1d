"""The steps of a transition: the amounts that a step takes and frees, and its dependencies."""

from __future__ import annotations

from iallocator.transition.resources import change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.transition.resources import Amounts, Place

__all__ = [
    "ARRIVALS", "CREATE", "DEMOTE", "DRAIN", "FAILOVER", "FENCE", "MIGRATE", "MOVE", "OFFLINE",
    "ONLINE", "POWER_OFF", "POWER_ON", "PROMOTE", "REBOOT", "RECREATE_DISKS", "REINSTALL",
    "REPLACE_DISKS", "START", "STOP", "TAG", "UNDRAIN", "UNTAG", "Step",
]  # fmt: skip

MIGRATE = "migrate"
MOVE = "move"
FAILOVER = "failover"
REPLACE_DISKS = "replace-disks"
RECREATE_DISKS = "recreate-disks"
REINSTALL = "reinstall"
CREATE = "create"
START = "start"
STOP = "stop"
FENCE = "fence"
POWER_ON = "power-on"
POWER_OFF = "power-off"
DRAIN = "drain"
UNDRAIN = "undrain"
REBOOT = "reboot"
OFFLINE = "offline"
ONLINE = "online"
DEMOTE = "demote"
PROMOTE = "promote"
TAG = "tag"
UNTAG = "untag"

ARRIVALS = (MIGRATE, FAILOVER, MOVE, CREATE, START)
"""The kinds of steps after which an instance runs on a node on which it did not run before."""


class Step:
    """One step of a transition.

    Attributes
    ----------
    kind:
        One of the constants of this module.
    instance, before, after:
        The instance, and its places before and after; None for steps of nodes.
    node:
        The index of the node that is fenced, powered, drained, demoted, promoted or tagged.
    tags:
        The tags that are added or removed.
    move:
        The elementary move of this step, if there is one.
    takes, frees:
        The amounts that the step takes at its beginning, and frees at its end.
    needs:
        Step that must be done before this step, whatever the amounts -> reason.
    alone:
        Whether the step is a job of its own, so that it delays no step of another instance.
    promotes:
        Whether the step makes its node a master candidate.
    """

    takes: Amounts
    frees: Amounts

    __slots__ = (
        "after",
        "alone",
        "before",
        "frees",
        "instance",
        "kind",
        "move",
        "needs",
        "node",
        "promotes",
        "tags",
        "takes",
    )

    def __init__(
        self,
        kind: str,
        *,
        instance: Instance | None = None,
        before: Place | None = None,
        after: Place | None = None,
        move: ElementaryMove | None = None,
        node: int | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.instance = instance
        self.before = before
        self.after = after
        self.move = move
        self.node = node
        self.tags = tuple(tags)
        self.needs: dict[Step, str] = {}
        self.alone = False
        self.promotes = False

    def __getattr__(self, name: str) -> Amounts:
        """Compute `takes` and `frees` when one of them is first read; many steps need neither."""
        if name not in ("takes", "frees"):
            raise AttributeError(name)
        self.takes, self.frees = {}, {}
        if self.instance is not None:
            self.takes, self.frees = change(self.instance, self.before, self.after)
        return self.takes if name == "takes" else self.frees

    @property
    def name(self) -> str:
        """Return the name of the instance; "" for steps of nodes."""
        return self.instance.name if self.instance else ""

    @property
    def identity(self) -> tuple[str, str, Place | None, Place | None, int | None]:
        """Return a key that is equal for equal steps in two searches."""
        return self.kind, self.name, self.before, self.after, self.node

    @property
    def arrives(self) -> bool:
        """Return whether the instance may run, after the step, on a node where it did not run."""
        return self.kind in ARRIVALS

    def leaves(self, node: int) -> bool:
        """Return whether the instance has a role on `node` before the step, and none after it."""
        before = self.before.nodes if self.before else ()
        after = self.after.nodes if self.after else ()
        return node in before and node not in after

    def comes_to(self, node: int) -> bool:
        """Return whether the instance gets a new role on `node`, or starts there."""
        before = self.before.nodes if self.before else ()
        after = self.after.nodes if self.after else ()
        roles = [after[k : k + 1] == (node,) != before[k : k + 1] for k in range(2)]
        return any(roles) or (self.kind == START and after[:1] == (node,))
