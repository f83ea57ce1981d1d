"""What is asked of a transition besides the places."""

from __future__ import annotations

from iallocator.transition.resources import HARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iallocator.model.instance import Instance

    Where = Mapping[str, tuple[int, ...]]

__all__ = ["MUST", "SHOULD", "Demands", "anywhere", "itself", "nobody"]

MUST = "must"
SHOULD = "should"


def anywhere(instance: Instance, node: int, where: Where) -> bool:
    """No rule keeps an instance from passing over a node."""
    return True


def nobody(instances: Iterable[str]) -> Sequence[tuple[str, str, str]]:
    """Any two may meet."""
    return ()


def itself(node: int, domain: str) -> Sequence[str]:
    """No node is in a failure domain with others."""
    return [str(node)]


class Demands:
    """What is asked of a transition.

    Attributes
    ----------
    orders:
        (before, after, strength): instances by name; the first starts or arrives before
        the second, and stops after it.  `MUST`, or `SHOULD`: dropped where it stands in
        the way, first those that come last.
    apart:
        Says of instances by name who must never meet whom: (instance, instance, prefix of
        failure domains or ""), for those that one of them is in.
    sites:
        The failure domains, of a prefix, that the node of an index is in; of none: itself.
    keep_running:
        Names of instances that are never stopped to make room.
    stuck:
        Names of instances that cannot be stopped, and must not be by force.
    fence_offline:
        Whether what ran on an offline node waits until that node is fenced.
    power_on, power_off:
        Indices of nodes to power on and set online first; to drain, empty, set offline
        and power off.
    drain:
        Indices of nodes only to drain.
    add_tags, remove_tags:
        Node index -> tags, added when the node has been set offline and powered off,
        removed when it is back (at once where nothing of that happens).
    limits:
        The dimensions that must never be overdrawn, of `amounts`: `HARD`, and
        those of `SOFT` that shall be hard, too.
    may_pass:
        Whether an instance may be on a node for a while, with the others where they are then
        (name -> nodes, primary first); called for ways round.
    """

    __slots__ = (
        "add_tags",
        "apart",
        "drain",
        "fence_offline",
        "keep_running",
        "limits",
        "may_pass",
        "orders",
        "power_off",
        "power_on",
        "remove_tags",
        "sites",
        "stuck",
    )

    def __init__(
        self,
        *,
        orders: Sequence[tuple[str, str, str]] = (),
        apart: Callable[[Iterable[str]], Sequence[tuple[str, str, str]]] = nobody,
        sites: Callable[[int, str], Sequence[str]] = itself,
        keep_running: Collection[str] = (),
        stuck: Collection[str] = (),
        fence_offline: bool = True,
        power_on: Sequence[int] = (),
        power_off: Sequence[int] = (),
        drain: Sequence[int] = (),
        add_tags: Mapping[int, Sequence[str]] | None = None,
        remove_tags: Mapping[int, Sequence[str]] | None = None,
        limits: Collection[str] = HARD,
        may_pass: Callable[[Instance, int, Where], bool] = anywhere,
    ) -> None:
        self.orders = orders
        self.apart = apart
        self.sites = sites
        self.keep_running = frozenset(keep_running)
        self.stuck = frozenset(stuck)
        self.fence_offline = fence_offline
        self.power_on = power_on
        self.power_off = power_off
        self.drain = drain
        self.add_tags = add_tags or {}
        self.remove_tags = remove_tags or {}
        self.limits = limits
        self.may_pass = may_pass

    def copy(self) -> Demands:
        """Another with the same members."""
        twin = Demands()
        for name in Demands.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin
