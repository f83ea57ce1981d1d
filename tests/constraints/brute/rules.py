"""State what constraints allow on small clusters, by the document alone.

All amounts are counted anew for each placement. The functions that search try all placements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from itertools import combinations, permutations, product
from math import ceil, inf
from typing import NamedTuple

from tests.builders import Json
from tests.constraints.scenarios import violated_hard
from tests.property.plain import Plain

__all__ = ["INFINITY", "Homes", "Loss", "Rules", "homes_of", "number"]

Homes = Mapping[str, tuple[str, ...]]
"""Instance -> nodes, primary first."""

PREFIX = "iallocator:"
INFINITY = 1e6
METADATA = 128
LOCAL = ("plain", "drbd")
MODES = ("no-worse", "no-new", "strict")


class Loss(NamedTuple):
    """The least number of instances, and the least MiB, that cannot be restarted."""

    instances: int
    memory: int


def homes_of(document: Json) -> dict[str, tuple[str, ...]]:
    """Return the present nodes of each instance."""
    return {name: tuple(raw["nodes"]) for name, raw in document["instances"].items()}


def words_of(raw: Json, kind: str) -> list[list[str]]:
    """Return what follows `kind` in the tags of an object, divided at colons."""
    start = f"{PREFIX}{kind}:"
    return [tag.removeprefix(start).split(":") for tag in raw["tags"] if tag.startswith(start)]


def number(text: str) -> float:
    """Return the number in a tag."""
    return {"INFINITY": INFINITY, "-INFINITY": -INFINITY}.get(text) or float(text)


def _after(tags: list[str], start: str) -> list[str]:
    """Return what follows `start` in those of `tags` that begin with it."""
    return [tag.removeprefix(start) for tag in tags if tag.startswith(start)]


SOFT = "should"


def _weight(strength: str, words: list[str]) -> float:
    """Return the weight of a tag for a constraint between instances; infinite if it is hard."""
    if strength != SOFT:
        return inf
    return float(words[-1]) if len(words) > 1 and words[-1][0].isdigit() else 1.0


def _domains(words: list[str], others: list[str]) -> set[str]:
    """Return the failure domains that two tags name; {""} if they name none."""
    named = {one for one in (*words[1:], *others[1:]) if not one[0].isdigit()}
    return named or {""}


class Rules:
    """The constraints of a document; `new` are instances that do not exist yet."""

    def __init__(self, document: Json, new: Mapping[str, Json] | None = None) -> None:
        self.document = document
        self.nodes: Json = document["nodes"]
        self.raw: Json = {**document["instances"], **(new or {})}
        self.asked = {
            **document,
            "request": {"instances": [{**raw, "name": n} for n, raw in (new or {}).items()]},
        }

    # What a node has

    def memory(self, node: str) -> int:
        """Return the MiB of memory that instances on the node may use."""
        group = self.document["nodegroups"][self.nodes[node]["group"]]
        ratio = Fraction(1)
        for tags in (self.document["cluster_tags"], group["tags"]):
            for (value,) in words_of({"tags": tags}, "memory-ratio"):
                ratio = Fraction(value)
        own = int(self.nodes[node]["total_memory"]) - int(self.nodes[node]["reserved_memory"])
        return int(ratio * own)

    def free_memory(self, where: Homes, node: str) -> int:
        """Return the MiB of memory that the instances of `where` leave free on the node."""
        here = (name for name, nodes in where.items() if nodes[0] == node)
        return self.memory(node) - sum(int(self.raw[name]["memory"]) for name in here)

    def reserve(self, node: str) -> int:
        """Return the MiB of the default volume group that new disks must leave free."""
        group = self.document["nodegroups"][self.nodes[node]["group"]]
        found = "0"
        for tags in (self.document["cluster_tags"], group["tags"], self.nodes[node]["tags"]):
            for (value,) in words_of({"tags": tags}, "disk-reserve"):
                found = value
        if found.endswith("%"):
            return ceil(Fraction(found[:-1]) / 100 * int(self.nodes[node]["total_disk"]))
        return int(found)

    def volumes(self, node: str) -> dict[str, int]:
        """Return the MiB of each volume group of the node."""
        raw = self.nodes[node]
        if "volume_groups" not in raw:
            return {"lvm": raw["total_disk"]}
        return {one["name"]: one["total"] for one in raw["volume_groups"]}

    def disks(self, name: str) -> Counter[str]:
        """Return the MiB of the disks of an instance on each of its nodes, by volume group."""
        raw, found = self.raw[name], Counter[str]()
        if raw["disk_template"] in LOCAL:
            for disk in raw["disks"]:
                found[disk.get("vg", "lvm")] += disk["size"]
                if raw["disk_template"] == "drbd":
                    found[disk.get("metavg", "lvm")] += METADATA
        return found

    def free_disk(self, where: Homes, node: str) -> Counter[str]:
        """Return the MiB that instances leave in each volume group of the node."""
        left = Counter(self.volumes(node))
        for name, nodes in where.items():
            if node in nodes:
                left.subtract(self.disks(name))
        return left

    def holds_disks(self, where: Homes, node: str, name: str, reserve: bool = True) -> bool:
        """Return whether the new disks of instance `name`, placed in `where`, fit the node."""
        free, exist = self.free_disk(where, node), self.volumes(node)
        return all(
            group in exist
            and free[group] >= max(1, self.reserve(node) * (reserve and group == "lvm"))
            for group in self.disks(name)
        )

    # What tags of an instance allow

    def labels_allow(self, name: str, node: str) -> bool:
        """Return whether the labels of the node are those that the instance may have."""
        own, raw = self.nodes[node]["tags"], self.raw[name]
        required = [":".join(words[1:]) for words in words_of(raw, "nodes") if words[0] == "must"]
        excluded = [":".join(words[1:]) for words in words_of(raw, "nodes") if words[0] == "never"]
        return all(label in own for label in required) and not any(one in own for one in excluded)

    def scores(self, name: str) -> dict[str, float]:
        """Return the scores in the tags of the instance, by node."""
        return {node: number(value) for node, value in words_of(self.raw[name], "score")}

    def scores_allow(self, name: str, node: str, primary: bool) -> bool:
        """Return whether the scores allow the node: a required one must be the primary."""
        own = self.scores(name)
        required = [one for one, score in own.items() if score >= INFINITY]
        return node in required if primary and required else own.get(node, 0) > -INFINITY

    def pinned(self, name: str) -> bool:
        """Return whether optional moves leave the primary of the instance where it is."""
        return ["INFINITY"] in words_of(self.raw[name], "stickiness")

    def penalty(self, name: str, nodes: tuple[str, ...], home: str = "") -> float:
        """Return the penalty of the labels and scores on `nodes`; `home`: where it sticks."""
        raw, node = self.raw[name], nodes[0]
        missing = [w for w in words_of(raw, "nodes") if w[0] == "should"]
        cost = sum(float(words[2]) for words in missing if words[1] not in self.nodes[node]["tags"])
        own = self.scores(name)
        if self.pinned(name) or any(score >= INFINITY for score in own.values()):
            return cost
        sums = {}
        for one, at in self.nodes.items():
            if own.get(one, 0) > -INFINITY:
                sums[one] = own.get(one, 0.0) + sum(number(w[0]) for w in words_of(at, "score"))
                if one == home:
                    sums[one] += sum(number(w[0]) for w in words_of(raw, "stickiness"))
        return cost + max(sums.values(), default=0) - sums.get(node, 0)

    def exclusive(self, name: str) -> set[str]:
        """Return the tags that no other instance on the primary node may have."""
        kinds = _after(self.document["cluster_tags"], "htools:iextags:")
        return {tag for tag in self.raw[name]["tags"] if tag.startswith(tuple(kinds))}

    def migrates(self, source: str, target: str) -> bool:
        """Return whether the migration tags of `target` accept those of `source`."""
        tags = self.document["cluster_tags"]
        kinds = tuple(f"{one}:" for one in _after(tags, "htools:migration:"))
        pairs = [one.split("::") for one in _after(tags, "htools:allowmigration:")]
        has = {node: set(self.nodes[node]["tags"]) for node in (source, target)}
        own = {node: {tag for tag in has[node] if tag.startswith(kinds)} for node in has}
        return own[source] <= own[target] | {old for old, new in pairs if new in has[target]}

    def pair_penalty(self, where: Homes) -> float:
        """Return the penalty of the violated soft constraints between two instances."""
        known = [
            (name, kind, strength, rest)
            for name in where
            for kind in ("separate", "colocate")
            for strength, *rest in words_of(self.raw[name], kind)
        ]
        return sum(
            min(_weight(strength, words), _weight(others, more))
            for (one, kind, strength, words), (two, same, others, more) in combinations(known, 2)
            if one != two and kind == same and words[0] == more[0]
            if SOFT in (strength, others)
            for domain in _domains(words, more)
            if self._near(where[one][0], where[two][0], domain) == (kind == "separate")
        )

    def _near(self, one: str, other: str, domain: str) -> bool:
        """Return whether two nodes are in one failure domain of the kind `domain`.

        If `domain` is "", return whether they are one node.
        """
        if domain == "group":
            return self.group_of((one,)) == self.group_of((other,))
        tags = [
            {tag for tag in self.nodes[node]["tags"] if domain and tag.startswith(f"{domain}:")}
            for node in (one, other)
        ]
        return one == other or bool(tags[0] & tags[1])

    def objective(self, where: Homes, sticky: bool = False) -> float:
        """Return the score of a placement with all penalties."""
        lvm = {n: {**raw, "disk_space_total": self.disks(n)["lvm"]} for n, raw in self.raw.items()}
        present = {name: lvm[name] for name in self.document["instances"]}
        plain = Plain({**self.document, "instances": present})
        for name, nodes in where.items():
            plain.put(name, lvm[name], nodes)
        first = homes_of(self.document)
        return (
            plain.score(plain.nodes)
            + self.pair_penalty(where)
            + sum(
                self.penalty(name, nodes, first.get(name, ("",))[0] if sticky else "")
                for name, nodes in where.items()
            )
        )

    # Placements

    def shortage(self, where: Homes, node: str) -> int:
        """Return the MiB that failovers to the node lack; 0 or less: none."""
        peers = Counter[str]()
        for name, nodes in where.items():
            if node in nodes[1:]:
                peers[nodes[0]] += self.raw[name]["memory"]
        return max(peers.values(), default=0) - self.free_memory(where, node) + 1

    def obstacle(
        self,
        where: Homes,
        name: str,
        nodes: tuple[str, ...],
        mode: str = "off",
        soft: bool = True,
        leaving: Collection[str] | None = None,
    ) -> str:
        """Return why instance `name` may not go to `nodes`; "" if it may.

        `where` has the place of the instance before, unless it is new. `soft`: whether the disk
        reserve, the memory for failovers and the constraints between instances are checked, too.
        They apply after a move, but not between the steps of a move. `leaving`: the instances that
        a request moves; each is separated from those that stay, and from those moved before.
        """
        old = tuple(where.get(name, ()))
        without = {one: at for one, at in where.items() if one != name}
        after = {**without, name: nodes}
        concerned = []
        for role, node in enumerate(nodes):
            if old[role : role + 1] == (node,):
                concerned += [node] * (role > 0 and old[:1] != nodes[:1])
                continue
            concerned.append(node)
            if not self.labels_allow(name, node):
                return f"{node}: labels"
            if node not in old and not self.holds_disks(after, node, name, reserve=soft):
                return f"{node}: disk"
            if role == 0 and self.free_memory(after, node) <= 0:
                return f"{node}: memory"
            if not self.scores_allow(name, node, primary=role == 0):
                return f"{node}: scores"
            if soft and role and self.raw[name]["memory"] >= self.free_memory(without, node):
                return f"{node}: memory for a failover"
        if old and old[0] != nodes[0] and not self.migrates(old[0], nodes[0]):
            return f"{nodes[0]}: migration"
        if soft and old[:1] != nodes[:1] and self.exclusive(name):
            for other, (home, *_) in without.items():
                if home == nodes[0] and self.exclusive(name) & self.exclusive(other):
                    return f"{nodes[0]}: exclusion tags of {other}"
        for node in concerned if soft else ():
            then, now = self.shortage(after, node), self.shortage(without, node)
            if then > 0 and (now <= 0 or (mode == "no-worse" and old and then > now)):
                return f"{node}: reserved memory"
        if soft and self.newly_separated(where, after, name, leaving):
            return f"{nodes[0]}: separation"
        return ""

    def newly_separated(
        self, where: Homes, after: Homes, name: str, leaving: Collection[str] | None
    ) -> set[tuple[str, str, str, str]]:
        """Return the violations that a move of instance `name` must not leave.

        No move may violate what was satisfied. A request must also satisfy what was violated, apart
        from a spread over groups, which does not depend on a node of the group.
        """
        if leaving is None:
            return self.separated(after) - self.separated(where)
        if where.get(name, ())[:1] == after[name][:1]:
            return set()
        present = homes_of(self.document)
        first = self.separated(present) if name in present else set()
        stays = name in present and self.group_of(after[name]) == self.group_of(present[name])
        counted = {one: at for one, at in after.items() if one == name or one not in leaving}
        return {
            one
            for one in self.separated(counted)
            if name in one[1:3] and not (stays and one[3] == "group" and one in first)
        }

    def group_of(self, nodes: tuple[str, ...]) -> str:
        """Return the group of the first of `nodes`, which is the primary."""
        group: str = self.nodes[nodes[0]]["group"]
        return group

    def separated(self, where: Homes) -> set[tuple[str, str, str, str]]:
        """Return the violated hard constraints between instances."""
        return violated_hard(self.asked, {name: nodes[0] for name, nodes in where.items()})

    def groups(self) -> dict[str, list[str]]:
        """Return the nodes of each group."""
        found: dict[str, list[str]] = {}
        for name, raw in self.nodes.items():
            found.setdefault(raw["group"], []).append(name)
        return found

    def places(self, name: str) -> Iterator[tuple[str, ...]]:
        """Yield all places of an instance, legal or not: its nodes are in one group."""
        roles = 2 if self.raw[name]["disk_template"] == "drbd" else 1
        for nodes in self.groups().values():
            yield from permutations(nodes, roles)

    def most_placed(
        self,
        where: Homes,
        ways: Mapping[str, list[tuple[str, ...]]],
        leaving: frozenset[str] = frozenset(),
    ) -> int:
        """Return how many of the instances of `ways` can go to one of their places, in any order.

        `leaving`: the instances that are on their nodes in `where` at first.
        """
        most = 0
        for order in permutations(ways):
            most = max(most, self._placed(where, {name: ways[name] for name in order}, leaving))
            if most == len(ways):
                break
        return most

    def _placed(
        self, where: Homes, ways: Mapping[str, list[tuple[str, ...]]], leaving: frozenset[str]
    ) -> int:
        """Return how many of the instances of `ways` can be placed in that order."""
        if not ways:
            return 0
        (name, own), *others = ways.items()
        best = 0
        left = leaving - {name}
        for nodes in own:
            if best == len(ways):
                break
            if not self.obstacle(where, name, nodes, leaving=left):
                after = {**where, name: nodes}
                best = max(best, 1 + self._placed(after, dict(others), left))
        if best == len(ways):
            return best
        return max(best, self._placed(where, dict(others), left))

    # Failures

    def restarts(self, where: Homes, failing: str, name: str) -> list[str]:
        """Return the nodes on which the instance may restart if `failing` fails."""
        nodes = where[name]
        if self.raw[name]["disk_template"] == "drbd":
            targets = list(nodes[1:])
        else:
            group = self.nodes[failing]["group"]
            targets = [n for n, raw in self.nodes.items() if raw["group"] == group and n != failing]
        if self.raw[name]["disk_template"] != "plain":  # which would be created again
            targets = [node for node in targets if self.migrates(failing, node)]
        return [node for node in targets if self.labels_allow(name, node)]

    def fits_all(self, where: Homes, choices: Mapping[str, list[str]]) -> bool:
        """Return whether each instance of `choices` fits one of its nodes beside the others."""
        if not choices:
            return True
        (name, nodes), *others = choices.items()
        for node in nodes:
            after = {**where, name: (node,)}
            disk = self.raw[name]["disk_template"] != "plain"
            fits = self.free_memory(after, node) > 0
            fits = fits and (disk or self.holds_disks(after, node, name, reserve=False))
            if fits and self.fits_all(after, dict(others)):
                return True
        return False

    def loss(self, where: Homes, failing: str) -> Loss:
        """Return the least loss if that node fails."""
        choices = {
            name: self.restarts(where, failing, name)
            for name, nodes in where.items()
            if nodes[0] == failing
        }
        left = {name: nodes for name, nodes in where.items() if name not in choices}
        count, memory = len(choices), sum(self.raw[name]["memory"] for name in choices)
        for size in range(len(choices) + 1):
            for out in combinations(choices, size):
                lost = sum(self.raw[name]["memory"] for name in out)
                others = {n: nodes for n, nodes in choices.items() if n not in out}
                if (size < count or lost < memory) and self.fits_all(left, others):
                    count, memory = min(count, size), min(memory, lost)
        return Loss(count, memory)

    def tolerates(self, where: Homes, failing: str) -> bool:
        """Return whether all instances can be restarted if that node fails."""
        choices = {
            name: self.restarts(where, failing, name)
            for name, nodes in where.items()
            if nodes[0] == failing
        }
        left = {name: nodes for name, nodes in where.items() if name not in choices}
        return self.fits_all(left, choices)

    def losses(self, where: Homes) -> dict[str, Loss]:
        """Return the least loss of the failure of each node."""
        return {node: self.loss(where, node) for node in self.nodes}

    # All states that moves reach

    def reachable(self, where: Homes, most: int) -> list[Homes] | None:
        """Return all placements that legal moves of one-node instances reach; None if > `most`.

        Each instance stays in its group.
        """
        names = [n for n, raw in self.raw.items() if raw["disk_template"] in ("rbd", "ext")]
        first = tuple(where[name][0] for name in names)
        found, queue = {first}, [first]
        while queue:
            now = queue.pop()
            at: dict[str, tuple[str, ...]] = {**where, **{n: (h,) for n, h in zip(names, now)}}
            for index, name in enumerate(names):
                if self.pinned(name):
                    continue
                for node in self.groups()[self.nodes[first[index]]["group"]]:
                    other = (*now[:index], node, *now[index + 1 :])
                    if other not in found and not self.obstacle(at, name, (node,)):
                        found.add(other)
                        queue.append(other)
            if len(found) > most:
                return None
        return [{**where, **{n: (h,) for n, h in zip(names, one)}} for one in found]

    def slots(self, where: Homes, node: str, name: str) -> int:
        """Return how many instances like `name` the node holds beside the others."""
        count = 0
        now = dict(where)
        while True:
            twin = f"{name}+{count}"
            self.raw[twin] = self.raw[name]
            if self.obstacle(now, twin, (node,)):
                return count
            now[twin] = (node,)
            count += 1


def all_ways(choices: Mapping[str, list[tuple[str, ...]]]) -> Iterator[Homes]:
    """Yield each choice of a place for every instance."""
    for chosen in product(*choices.values()):
        yield dict(zip(choices, chosen))
