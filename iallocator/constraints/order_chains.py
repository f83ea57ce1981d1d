"""Find the instances that depend on an instance that cannot run, and why.

A chain is a list of hard constraints from the dependent instance to the one that cannot run.
"""

from __future__ import annotations

from iallocator.model.constraints import TOGETHER, domains_between
from iallocator.tags.affinity import constraint_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import Constraint, Member, Rule

    MembersOf = Mapping[str, Mapping[Rule, Sequence[Member]]]
    """Instance -> rule -> the members of the rule that are this instance, one for each tag."""

    ConstraintsOf = Callable[[str], Sequence[Constraint]]
    """Instance -> its orders."""

__all__ = ["dependents_of_failed", "unsupported"]

MOST_SHOWN_LINKS = 8
"""The most links of a chain that a message shows; of a longer chain, it shows both ends."""


class _Chain:
    """One link of a chain of dependencies: a constraint, and the next link or the final reason."""

    __slots__ = ("_constraint", "_length", "_next", "_reason")

    def __init__(self, constraint: str, reason: str = "", following: _Chain | None = None) -> None:
        self._constraint = constraint
        self._reason = reason
        self._next = following
        self._length: int = 1 + (following._length if following else 0)

    def __str__(self) -> str:
        left_out = max(0, self._length - MOST_SHOWN_LINKS)
        words: list[str] = []
        link: _Chain | None = self
        while link is not None:
            if left_out and len(words) == MOST_SHOWN_LINKS // 2:
                while link._next is not None:
                    link = link._next
                last = f"{link._constraint}, which {link._reason}"
                words.append(f"after {left_out} more links {last}")
                break
            words.append(link._constraint)
            if link._next is None:
                words.append(link._reason)
            link = link._next
        return ", which ".join(words)


def unsupported(
    cluster: Cluster, constraints_of: ConstraintsOf, bound: Collection[str], coming: Collection[str]
) -> dict[str, str]:
    """Return instance -> chain in words, for instances that cannot start by their hard orders.

    A chain ends at an instance that does not exist, does not run, or is on an offline node. The
    shortest chain is returned.

    Parameters
    ----------
    cluster:
        The cluster, with all instances that exist.
    constraints_of:
        Name of an instance -> its constraints.
    bound:
        The instances that have orders.
    coming:
        The instances that the request creates.
    """
    there = {instance.name: instance for instance in cluster.instances}
    dependents: dict[str, list[str]] = {}
    chains: dict[str, _Chain] = {}
    # Instances with an order that names an instance that cannot run
    for name in bound:
        for constraint in constraints_of(name):
            if not (constraint.must and constraint.other):
                continue
            dependents.setdefault(constraint.other, []).append(name)
            if name in chains or constraint.other in coming:
                continue
            base = there.get(constraint.other)
            if base is None:
                chains[name] = _Chain(constraint.text, "does not exist")
            elif not base.running:
                chains[name] = _Chain(constraint.text, "does not run")
            else:
                home = cluster.nodes[base.nodes[0]]
                if home.offline:
                    chains[name] = _Chain(constraint.text, f"is on {home.name}, which is offline")
    # Instances that depend on one of those; breadth first, so that chains are the shortest
    row = list(chains)
    for name in row:  # the loop adds to it
        for other in dependents.get(name, ()):
            if other not in chains:
                constraint = next(b for b in constraints_of(other) if b.must and b.other == name)
                chains[other] = _Chain(constraint.text, following=chains[name])
                row.append(other)
    return {name: str(chain) for name, chain in chains.items()}


def dependents_of_failed(
    done: Iterable[str],
    failed: Collection[str],
    constraints_of: ConstraintsOf,
    members_of: MembersOf,
) -> dict[str, str]:
    """Return instance -> chain in words, for instances of `done` that depend on one of `failed`.

    Instances with a hard colocation depend on each other. An instance also depends on those that
    must start before it, by its hard orders in `constraints_of`. The shortest chain is returned.
    Cost: one pass over orders and members.
    """
    done = list(done)
    dependents: dict[str, list[tuple[str, str]]] = {}
    for name in done:
        for constraint in constraints_of(name):
            if constraint.must and constraint.other:
                dependents.setdefault(constraint.other, []).append((name, constraint.text))
    chains: dict[str, _Chain] = {}
    left = set(done).difference(failed)
    seen: set[Rule] = set()
    row = sorted(failed)
    for name in row:  # grows by the instances that depend on `name`
        waiting = list(dependents.get(name, ()))
        # The members of colocation groups; each rule only once
        for rule, members in members_of.get(name, {}).items():
            hard = next((member for member in members if member.must), None)
            if rule.kind != TOGETHER or hard is None or rule in seen:
                continue
            seen.add(rule)
            for member in rule.members:
                if member.must and member.instance != name:
                    domains = domains_between(member.domain, hard.domain)
                    text = constraint_between(member, hard, domains[0]).text
                    waiting.append((member.instance, f"must be {text}"))
        for other, text in waiting:
            if other in left and other not in chains:
                following = chains.get(name)
                chains[other] = _Chain(text, "" if following else "has no place", following)
                row.append(other)
    return {name: str(chains[name]) for name in done if name in chains}
