"""Who depends on something that cannot be, and through which chain of musts."""

from __future__ import annotations

from iallocator.model.constraints import TOGETHER, domains_between
from iallocator.tags.affinity import bond_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import Constraint, Member, Rule
    from iallocator.model.instance import Instance

    MembersOf = Mapping[str, Mapping[Rule, Sequence[Member]]]
    """Instance -> rule -> its memberships there."""

    Bonds = Callable[[str], Sequence[Constraint]]
    """Instance -> its orders."""

__all__ = ["dependents_of_failed", "unsupported"]

LINKS = 8
"""How many links of a chain are told; of longer ones the first and the last."""


class _Chain:
    """Why something depends on what cannot be: bonds, each to the next instance, and a reason."""

    __slots__ = ("_bond", "_length", "_next", "_reason")

    def __init__(self, bond: str, reason: str = "", following: _Chain | None = None) -> None:
        self._bond = bond
        self._reason = reason
        self._next = following
        self._length: int = 1 + (following._length if following else 0)

    def __str__(self) -> str:
        left_out = max(0, self._length - LINKS)
        words: list[str] = []
        link: _Chain | None = self
        while link is not None:
            if left_out and len(words) == LINKS // 2:
                while link._next is not None:
                    link = link._next
                last = f"{link._bond}, which {link._reason}"
                words.append(f"after {left_out} more links {last}")
                break
            words.append(link._bond)
            if link._next is None:
                words.append(link._reason)
            link = link._next
        return ", which ".join(words)


def unsupported(
    cluster: Cluster, bonds: Bonds, bound: Collection[str], coming: Collection[str]
) -> dict[str, str]:
    """Instances that start after something that cannot run, and through which musts.

    That does not exist, does not run, is on a node that is offline, or starts itself after
    such a thing: the shortest chain is told.  `bound` are the instances that have orders,
    `coming` those that the request makes.
    """
    there = {instance.name: instance for instance in cluster.instances}
    waiting: dict[str, list[str]] = {}
    chains: dict[str, _Chain] = {}
    for name in bound:
        for bond in bonds(name):
            if bond.must and bond.other:
                waiting.setdefault(bond.other, []).append(name)
                why = "" if bond.other in coming else _hindrance(cluster, there.get(bond.other))
                if why and name not in chains:
                    chains[name] = _Chain(bond.text, why)
    row = list(chains)
    for name in row:  # grows: those that wait for one that waits in vain
        for other in waiting.get(name, ()):
            if other not in chains:
                bond = next(b for b in bonds(other) if b.must and b.other == name)
                chains[other] = _Chain(bond.text, following=chains[name])
                row.append(other)
    return {name: str(chain) for name, chain in chains.items()}


def _hindrance(cluster: Cluster, base: Instance | None) -> str:
    """Why an instance of the cluster, itself, cannot be waited for, or ""."""
    if base is None:
        return "does not exist"
    if not base.running:
        return "does not run"
    home = cluster.nodes[base.nodes[0]]
    return f"is on {home.name}, which is offline" if home.offline else ""


def dependents_of_failed(
    done: Iterable[str],
    failed: Collection[str],
    bonds: Bonds,
    members_of: MembersOf,
) -> dict[str, str]:
    """Those of `done` that depend on one of `failed`, by musts, and through which chain.

    To be together is to depend on each other; `bonds` say who starts after whom.  The
    shortest chain is told.  Cost: bonds and members, each once.
    """
    done = list(done)
    waiting: dict[str, list[tuple[str, Constraint]]] = {}
    for name in done:
        for bond in bonds(name):
            if bond.must and bond.other:
                waiting.setdefault(bond.other, []).append((name, bond))
    chains: dict[str, _Chain] = {}
    left = set(done).difference(failed)
    told: set[Rule] = set()
    row = sorted(failed)
    for name in row:  # grows: those that depend on one that is left behind
        found = [(other, bond.text) for other, bond in waiting.get(name, ())]
        for other, text in (*found, *_together(name, members_of, told)):
            if other in left and other not in chains:
                following = chains.get(name)
                chains[other] = _Chain(text, "" if following else "has no place", following)
                row.append(other)
    return {name: str(chains[name]) for name in done if name in chains}


def _together(name: str, members_of: MembersOf, told: set[Rule]) -> Iterator[tuple[str, str]]:
    """Who must be together with an instance, and that in words; each rule only once."""
    for rule, members in members_of.get(name, {}).items():
        musts = [member for member in members if member.must]
        if rule.kind == TOGETHER and musts and rule not in told:
            told.add(rule)
            for other in rule.members:
                if other.must and other.instance != name:
                    domains = domains_between(other.domain, musts[0].domain)
                    bond = bond_between(other, musts[0], domains[0])
                    yield other.instance, f"must be {bond.text}"
