"""What is asked of a transition besides the places."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from iallocator.transition.resources import HARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iallocator.model.instance import Instance

    Where = Mapping[str, tuple[int, ...]]

__all__ = ["MUST", "SHOULD", "Demands", "NodeChanges", "anywhere", "itself", "nobody"]

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


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """What a transition does with nodes.

    Attributes
    ----------
    power_on, power_off:
        Indices of nodes to power on and set online first; to drain, empty, set offline
        and power off.
    drain:
        Indices of nodes only to drain.
    add_tags, remove_tags:
        Node index -> tags, added when the node has been set offline and powered off,
        removed when it is back (at once where nothing of that happens).
    """

    power_on: Sequence[int] = ()
    power_off: Sequence[int] = ()
    drain: Sequence[int] = ()
    add_tags: Mapping[int, Sequence[str]] = field(default_factory=dict)
    remove_tags: Mapping[int, Sequence[str]] = field(default_factory=dict)

    def without(self, index: int) -> NodeChanges:
        """Return the same, but that the node of this index is not powered off."""
        return replace(
            self,
            power_off=[other for other in self.power_off if other != index],
            add_tags={other: tags for other, tags in self.add_tags.items() if other != index},
        )


@dataclass(kw_only=True, slots=True)
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
    nodes:
        What is done with nodes.
    limits:
        The dimensions that must never be overdrawn, of `amounts`: `HARD`, and
        those of `SOFT` that shall be hard, too.
    may_pass:
        Whether an instance may be on a node for a while, with the others where they are then
        (name -> nodes, primary first); called for ways round.
    """

    orders: Sequence[tuple[str, str, str]] = ()
    apart: Callable[[Iterable[str]], Sequence[tuple[str, str, str]]] = nobody
    sites: Callable[[int, str], Sequence[str]] = itself
    keep_running: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()
    fence_offline: bool = True
    nodes: NodeChanges = NodeChanges()
    limits: Collection[str] = HARD
    may_pass: Callable[[Instance, int, Where], bool] = anywhere
