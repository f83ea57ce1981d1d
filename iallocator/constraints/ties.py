"""Which instances must be together, through others too."""

from __future__ import annotations

from iallocator.model.constraints import TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.constraints import Rule

    Units = dict[str, tuple[str, ...]]

__all__ = ["units_of"]


def units_of(rules: Iterable[Rule], domains: bool = False) -> Units:
    """Instance -> all that must be on its node, itself among them, where there are others.

    `domains`: or in its failure domain.  In the order in which rules and members stand.
    """
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    rules = [rule for rule in rules if rule.kind == TOGETHER]
    for names in _sets(rules, True):
        leader |= {name: name for name in names if name not in leader}
    for names in _sets(rules, domains):
        for name in names:
            leader[lead(name)] = lead(names[0])
    groups: dict[str, list[str]] = {}
    for name in leader:
        groups.setdefault(lead(name), []).append(name)
    units = [tuple(members) for members in groups.values() if len(members) > 1]
    return {name: unit for unit in units for name in unit}


def _sets(rules: Iterable[Rule], domains: bool) -> Iterable[Sequence[str]]:
    """Per rule those that must be together, if there are several."""
    for rule in rules:
        tied = [m.instance for m in rule.members if m.must and (domains or not m.domain)]
        if len(set(tied)) > 1:
            yield tied
