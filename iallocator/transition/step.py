"""Steps while a transition is made: what each takes, gives back and needs done before."""

from __future__ import annotations

from iallocator.transition.resources import change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.transition.resources import Amounts, Place

__all__ = [
    "ARRIVALS", "CREATE", "DRAIN", "FAILOVER", "FENCE", "MIGRATE", "MOVE", "OFFLINE", "ONLINE",
    "POWER_OFF", "POWER_ON", "REBOOT", "RECREATE_DISKS", "REINSTALL", "REPLACE_DISKS", "START",
    "STOP", "TAG", "UNDRAIN", "UNTAG", "Step",
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
TAG = "tag"
UNTAG = "untag"

ARRIVALS = (MIGRATE, FAILOVER, MOVE, CREATE, START)
"""The kinds after which an instance runs, if it is to run, where it did not run before."""


class Step:
    """One step of a transition.

    Attributes
    ----------
    kind:
        One of the constants of this module.
    instance, before, after:
        Whose step it is, and its places before and after; None for steps of nodes.
    node:
        The index of the node that is fenced, powered, drained or tagged.
    tags:
        Those that are added or removed.
    move:
        The elementary move that it is, if it is one.
    takes, frees:
        Amounts; see `iallocator.transition.resources`.
    needs:
        What must be done before it, whatever the amounts: step -> why.
    """

    __slots__ = (
        "after",
        "before",
        "frees",
        "instance",
        "kind",
        "move",
        "needs",
        "node",
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
        self.takes: Amounts = {}
        self.frees: Amounts = {}
        if instance is not None:
            self.takes, self.frees = change(instance, before, after)

    @property
    def name(self) -> str:
        """Of the instance; "" for steps of nodes."""
        return self.instance.name if self.instance else ""

    @property
    def identity(self) -> tuple[str, str, Place | None, Place | None, int | None]:
        """The same for steps of two attempts that do the same."""
        return self.kind, self.name, self.before, self.after, self.node

    @property
    def arrives(self) -> bool:
        """Whether the instance runs, or may run, somewhere else than before."""
        return self.kind in ARRIVALS

    def leaves(self, node: int) -> bool:
        """Whether something of the instance is on `node` before, but not after."""
        before = self.before.nodes if self.before else ()
        after = self.after.nodes if self.after else ()
        return node in before and node not in after

    def comes_to(self, node: int) -> bool:
        """Whether the instance gets a role on `node` that it did not have, or starts there."""
        before = self.before.nodes if self.before else ()
        after = self.after.nodes if self.after else ()
        roles = [after[k : k + 1] == (node,) != before[k : k + 1] for k in range(2)]
        return any(roles) or (self.kind == START and after[:1] == (node,))
