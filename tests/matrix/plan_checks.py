"""Check answers and plans by the document alone, and report violated constraints.

The checks are written from the description of the constraints, not from the package. They compare
the placement before with the placement after. What is violated before may stay violated; no answer
may add a violation.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

from tests.builders import Json
from tests.property.limits import admits, broken_hard
from tests.property.plain import Plain

Homes = Mapping[str, list[str]]
"""Instance -> its nodes, primary first; [] for an instance that is not placed."""

__all__ = ["problems"]

LOWEST = -1_000_000
"""The number that stands for a score of minus infinity."""


def problems(document: Json, answer: Json, powered: Collection[str] = ()) -> list[str]:
    """Return the violations of `answer`, a response or a plan that powers on `powered`."""
    document = copy.deepcopy(document)
    for name in powered:
        document["nodes"][name]["offline"] = False
    after = _homes(document, answer)
    out = {one["instance"] for one in answer.get("instances", ()) if not one["to"]}
    case = _Case(document, after, out & document["instances"].keys())
    found = [problem for name in after for problem in case.problems(name)]
    found += case.new_conflicts()
    found += case.new_hard_violations()
    return found + list(case.migrations(answer))


def _homes(document: Json, answer: Json) -> dict[str, list[str]]:
    """Return the nodes of every instance after `answer`."""
    return {name: nodes for name, nodes in _placements_of(document, answer).items() if nodes}


def _placements_of(document: Json, answer: Json) -> dict[str, list[str]]:
    if "command" in answer:
        homes = {one["instance"]: list(one["to"]) for one in answer.get("instances", ())}
        return homes | {one["instance"]: list(one["to"]) for one in answer["moves"]}
    if not answer["success"]:
        return {}
    kind, result = document["request"]["type"], answer["result"]
    if kind == "allocate":
        return {document["request"]["name"]: list(result)}
    if kind == "multi-allocate":
        return {name: list(nodes) for name, nodes in result[0]}
    present = {name: one["nodes"] for name, one in document["instances"].items()}
    if kind in ("allocate-secondary", "relocate"):
        name = document["request"]["name"]
        kept = present[name][:1] if kind == "allocate-secondary" else present[name][:-1]
        return {name: [*kept, *([result] if isinstance(result, str) else result)]}
    if kind == "multi-evacuate":
        return {name: [present[name][0], *nodes] for name, nodes in result}
    moved = {name for name, _, _ in result[0]}
    return {e["instance"]: list(e["nodes"]) for e in answer["solutions"] if e["instance"] in moved}


def _wanted(document: Json) -> dict[str, Json]:
    """Return the description of each new instance in the request."""
    request = document.get("request", {})
    asked = [request, *(one for one in request.get("instances", ()) if isinstance(one, dict))]
    new = {one["name"]: one for one in asked if "memory" in one}
    if request.get("type") == "allocate-secondary":
        name = request["name"]
        new[name] = document["instances"][name] | {"disk_template": "drbd"}
    return new


class _Case:
    """The placements before and after an answer; nodes in `out` accept no instances."""

    def __init__(self, document: Json, after: Homes, out: Collection[str]) -> None:
        self.document = document
        self.nodes: Json = document["nodes"]
        self.groups: Json = document["nodegroups"]
        self.raw: Json = document["instances"] | _wanted(document)
        self.before = {name: one["nodes"] for name, one in document["instances"].items()}
        self.after = self.before | dict(after)
        self.plain = Plain(document)
        for name in out:
            self.plain.take(name)
            self.after[name] = []
        for name, nodes in after.items():
            self.plain.put(name, self.raw[name], nodes)

    def problems(self, name: str) -> Iterator[str]:
        """Yield the constraints that a moved or new instance violates by itself."""
        before, after = self.before.get(name, []), self.after[name]
        for role, node in enumerate(after):
            if before[role : role + 1] == [node] or (role and node in before):
                continue
            if not self.plain.online(node):
                yield f"{name}: new on {node}, which is not online"
            if "iallocator:maintenance" in self.nodes[node]["tags"] and node not in before:
                yield f"{name}: new on {node}, which is in maintenance"
        for problem in broken_hard(self.plain, name, before):
            yield f"{name}: {problem}"
        if before[:1] != after[:1]:
            yield from self._scores(name, after[0])
        yield from self._group(name, before, after)
        yield from self._restricted(name, after)

    def _scores(self, name: str, node: str) -> Iterator[str]:
        for tag in (f"iallocator:score:{node}:-INFINITY", f"iallocator:score:{node}:{LOWEST}"):
            if tag in self.raw[name]["tags"]:
                yield f"{name}: must not be on {node}"
        if "iallocator:score:-INFINITY" in self.nodes[node]["tags"]:
            yield f"{name}: {node} accepts no instance"

    def _group(self, name: str, before: list[str], after: list[str]) -> Iterator[str]:
        groups = {self.nodes[node]["group"] for node in after}
        if len(groups) > 1 and len({self.nodes[node]["group"] for node in before}) < 2:
            yield f"{name}: over two groups"
        uuid = self.nodes[after[0]]["group"]
        if before and self.nodes[before[0]]["group"] == uuid:
            return
        group = self.groups[uuid]
        wanted = {nic["network"] for nic in self.raw[name]["nics"] if nic.get("network")}
        if not wanted <= set(group["networks"]):
            yield f"{name}: group {group['name']} lacks networks"
        request = self.document.get("request", {})
        named = {self.raw[name].get("group_name"), request.get("group_name")}
        named |= {self.groups[u]["name"] for u in request.get("target_groups", ())}
        if group["alloc_policy"] == "unallocable" and group["name"] not in named:
            yield f"{name}: group {group['name']} is unallocable"
        for node in after if not before else ():
            if not admits(group["ipolicy"], self.raw[name], self.plain.exclusive(node)):
                yield f"{name}: outside the policy of {group['name']}"

    def _restricted(self, name: str, after: list[str]) -> Iterator[str]:
        allowed = self.raw[name].get("restrict-to-nodes")
        if name not in self.before and allowed is not None and not set(after) <= set(allowed):
            yield f"{name}: not on the nodes that it is restricted to"

    def new_conflicts(self) -> list[str]:
        """Return pairs with a common exclusion tag that share a node only after the answer."""
        now, then = (self._sharing(where) for where in (self.after, self.before))
        return [
            f"{one} and {other}: new conflict of exclusion tags"
            for one, other in now - then
            if not (self._forced(one) or self._forced(other) or self._forgiven(one))
        ]

    def _forgiven(self, name: str) -> bool:
        """Return whether the instance's group after the answer ignores soft errors."""
        group = self.groups[self.nodes[self.after[name][0]]["group"]]
        return "iallocator:ignore-soft-errors:yes" in group["tags"]

    def _sharing(self, where: Homes) -> set[tuple[str, str]]:
        placed: dict[str, list[str]] = {}
        for name, nodes in sorted(where.items()):
            if nodes and self._exclusion(name):
                placed.setdefault(nodes[0], []).append(name)
        return {
            (one, other)
            for names in placed.values()
            for one, other in combinations(names, 2)
            if self._exclusion(one) & self._exclusion(other)
        }

    def _exclusion(self, name: str) -> set[str]:
        start = tuple(self._meaning("htools:iextags:"))
        return {tag for tag in self.raw[name]["tags"] if tag.startswith(start)}

    def _forced(self, name: str) -> bool:
        """Return whether the instance had to leave a node that is not online."""
        before = self.before.get(name, [])
        moved = before != self.after[name]
        return moved and any(not self.plain.online(node) for node in before)

    def new_hard_violations(self) -> list[str]:
        """Return hard constraints between instances that are violated only after the answer."""
        now, then = (set(self._broken(where)) for where in (self.after, self.before))
        return [f"{one} and {other}: must: {kind} {d}" for kind, one, other, d in now - then]

    def _broken(self, where: Homes) -> Iterator[tuple[str, str, str, str]]:
        """Yield (colocate or separate, one, other, domain) of each violated constraint."""
        named: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for name in sorted(where):
            for words in (tag.split(":")[1:] for tag in self.raw[name]["tags"]):
                if words[1:2] == ["must"] and words[0] in ("colocate", "separate") and where[name]:
                    domain = "".join(words[3:4])
                    named.setdefault((words[0], words[2]), []).append((name, domain))
        for (kind, _), members in named.items():
            for (one, first), (other, second) in combinations(members, 2):
                for domain in {first, second} - {""} or {""}:
                    shared = self._sites(where[one][0], domain) & self._sites(
                        where[other][0], domain
                    )
                    if (kind == "separate") == bool(shared) and one != other:
                        yield kind, one, other, domain

    def _sites(self, node: str, domain: str) -> set[str]:
        """Return the failure domains of a node; for a node without any, the node itself."""
        tags = self.nodes[node]["tags"]
        return {tag for tag in tags if domain and tag.startswith(domain + ":")} or {node}

    def migrations(self, answer: Json) -> Iterator[str]:
        """Yield steps or moves between nodes with incompatible migration tags.

        A stopped instance that `place` starts on another node is not migrated.
        """
        steps = answer.get("transition", {}).get("steps", ())
        ways = [(s["instance"], s["from"], s["to"]) for s in steps if s.get("from")]
        cold = {one["instance"] for one in answer.get("instances", ()) if not one["runs"]}
        for name, source, target in ways or [
            (n, self.before.get(n), nodes) for n, nodes in self.after.items() if nodes
        ]:
            moved = bool(source) and source[0] != target[0] and name not in cold
            if moved and not self._receives(source[0], target[0]):
                yield f"{name}: {target[0]} may not receive from {source[0]}"

    def _receives(self, source: str, target: str) -> bool:
        kinds = tuple(kind + ":" for kind in self._meaning("htools:migration:"))
        own, there = (
            {t for t in self.nodes[n]["tags"] if t.startswith(kinds)} for n in (source, target)
        )
        allowed = [rule.split("::") for rule in self._meaning("htools:allowmigration:")]
        return own <= there | {old for old, new in allowed if new in there}

    def _meaning(self, kind: str) -> list[str]:
        tags = self.document["cluster_tags"]
        return [tag.removeprefix(kind) for tag in tags if tag.startswith(kind)]
