"""The checks of a node: a formula, the amount that a node lacks, and when a check is enforced.

A `Check` compares a node before and after an instance is placed on it (`NodeView`: one node or an
array of nodes). `iallocator.constraints.table` has the checks of all constraints.
"""

from __future__ import annotations

from math import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView, Quantity

__all__ = [
    "ANY_INSTANCE",
    "DISK_SPACE",
    "EXCLUSIVE_STORAGE",
    "FREE_DISK",
    "FREE_MEMORY",
    "IN_ALL_CASES",
    "LOCAL_DISKS",
    "OWN_SPINDLES",
    "POOL_SPACE",
    "SHARED_SPINDLES",
    "SOFT",
    "SPINDLES_OF_DISKS",
    "UNLIMITED",
    "VCPUS",
    "About",
    "Check",
    "Lack",
    "Resource",
    "When",
    "amount_in",
]  # fmt: skip

FREE_MEMORY, DISK_SPACE, VCPUS = "MiB memory", "MiB disk", "virtual cpus"
OWN_SPINDLES, SHARED_SPINDLES = "spindles of its own", "spindles under the policy's ratio"
POOL_SPACE = "places in its storage pool"
SPINDLES_OF_DISKS = "the number of spindles of a disk"
"""The units of the amounts that a node can lack; see `Lack.unit`."""

UNLIMITED = inf


class Resource:
    """A resource of nodes that instances use, for example memory; each node has an amount of it.

    Attributes
    ----------
    name:
        The name in transitions and messages: ``memory``.
    unit:
        The unit of an amount, with the name: ``MiB memory``.
    columns:
        The positions in rows of nodes and vectors of instances; the amount is their sum. See
        `iallocator.model.columns`.
    later:
        The positions for the amount once forthcoming instances exist; () if there are none.
    rising:
        Whether the columns count what is in use; otherwise they count what is free.
    local:
        Whether only instances with local disks use the resource.
    spare:
        ``(amount in the columns, node)`` -> how much more the node can give: the largest whole
        amount if instances take whole amounts; `UNLIMITED` if the node has no bound.
    """

    __slots__ = ("columns", "later", "local", "name", "rising", "spare", "unit")

    def __init__(
        self,
        unit: str,
        columns: tuple[int, ...],
        spare: Callable[[float, Node], float],
        *,
        later: tuple[int, ...] = (),
        rising: bool = False,
        local: bool = False,
    ) -> None:
        self.name = unit.removeprefix("MiB ")
        self.unit = unit
        self.columns = columns
        self.later = later
        self.rising = rising
        self.local = local
        self.spare = spare

    def taken(self, vector: Sequence[float]) -> float:
        """Return how much of the resource an instance uses if it adds `vector` to a node."""
        amount = amount_in(vector, self.columns)
        return amount if self.rising else -amount


def amount_in(amounts: Sequence[float], columns: tuple[int, ...]) -> float:
    """Return the sum of `columns` of a row of a node, or of the vector of an instance."""
    if len(columns) == 1:
        return amounts[columns[0]]
    return sum(amounts[column] for column in columns)


class Lack:
    """The amount that a node lacks to stay within a limit.

    Attributes
    ----------
    unit:
        What the node lacks. If two limits lack the same unit, the lack counts once, not twice.
    amount:
        ``(before, after, instance)`` -> the amount that is lacking; above 0 where the limit is
        violated. It is linear in what instances use, so that N+1 can add up amounts.
    purpose:
        What the amount is for, if not for the instance as it runs; else "".
    resource:
        The `Resource` of which the node has too little; None if the limit is not about a sum.
    """

    __slots__ = ("_asked", "amount", "purpose", "resource", "unit")

    def __init__(
        self,
        unit: str,
        asked: str,
        amount: Callable[[NodeView, NodeView, Instance], float],
        purpose: str = "",
        resource: Resource | None = None,
    ) -> None:
        self.resource = resource
        self.unit = unit
        self.amount = amount
        self.purpose = purpose
        self._asked = asked

    def asked(self, instance: Instance) -> float:
        """Return how much of the resource `instance` requires in total; 1 if that is undefined."""
        return float(getattr(instance, self._asked) or 1) if self._asked else 1.0


def _everywhere(group: Group) -> bool:
    """Return True, for a limit that may reject instances in any group."""
    return True


def _where_storage_is_exclusive(group: Group) -> bool:
    """Return whether `group` has exclusive storage, for limits that reject instances only then."""
    return group.exclusive


class About:
    """Which instances and nodes a limit concerns; `Check` explains its attributes."""

    __slots__ = ("access", "applies", "local", "space")

    def __init__(
        self,
        *,
        local: bool = False,
        space: bool = False,
        access: bool = False,
        applies: Callable[[Group], bool] = _everywhere,
    ) -> None:
        self.local = local
        self.space = space
        self.access = access
        self.applies = applies


class When:
    """When a limit is enforced; `Check` explains its attributes."""

    __slots__ = ("forced", "later", "no_worse", "soft")

    def __init__(
        self,
        *,
        soft: bool = False,
        later: bool = False,
        forced: bool = True,
        no_worse: bool = False,
    ) -> None:
        self.soft = soft
        self.later = later
        self.forced = forced
        self.no_worse = no_worse


ANY_INSTANCE, IN_ALL_CASES, SOFT = About(), When(), When(soft=True)
LOCAL_DISKS = About(local=True)
FREE_DISK = About(local=True, space=True)
EXCLUSIVE_STORAGE = About(local=True, applies=_where_storage_is_exclusive)


class Check:
    """One limit of a node: its formula, and when it is enforced.

    Attributes
    ----------
    reason:
        The failure reason of a node that fails the check, one of `REASONS`.
    fails:
        ``(before, after, instance)`` -> whether the limit is violated; an array for an array of
        nodes.
    words:
        The name of the function in `iallocator.constraints.words` that returns the numbers of a
        rejection in words; "" for the amount of `lacks` alone.
    soft:
        Whether the check may be ignored on request.
    local:
        Whether the check concerns only instances with local disks.
    forced:
        Whether the check is enforced for forced moves, too.
    later:
        Whether the check is about the node as it will be once forthcoming instances exist.
    space:
        Whether the check is about the free disk that the node reports.
    access:
        Whether the check is an access constraint, which concerns only instances that are restricted
        to some nodes.
    no_worse:
        Whether the check is enforced only where failures must not lose more instances than before.
    lacks:
        The amount that a node lacks if it fails the check.
    applies:
        ``(group)`` -> whether the check may reject an instance there; by default in every group.
    """

    __slots__ = ("access", "applies", "fails", "forced", "lacks", "later", "local", "no_worse",
                 "reason", "soft", "space", "words")  # fmt: skip

    def __init__(
        self,
        reason: str,
        fails: Callable[[NodeView, NodeView, Instance], Quantity],
        words: str,
        lacks: Lack,
        about: About = ANY_INSTANCE,
        when: When = IN_ALL_CASES,
    ) -> None:
        self.reason = reason
        self.fails = fails
        self.words = words
        self.lacks = lacks
        self.local = about.local
        self.space = about.space
        self.access = about.access
        self.applies = about.applies
        self.soft = when.soft
        self.later = when.later
        self.forced = when.forced and not (when.soft or when.later)
        self.no_worse = when.no_worse

    def numbers(self, before: NodeView, after: NodeView, instance: Instance) -> str:
        """Return, in words, the amounts of a node that fails the check.

        `before`, `after`: the node without and with `instance`.
        """
        from iallocator.constraints import words

        if not self.words:
            lack = self.lacks.amount(before, after, instance)
            return f"lacks {words.quantity(lack, self.lacks.unit)}"
        return str(getattr(words, self.words)(before, after, instance, self.later))
