"""Test constraints of many instances: counts equal sums over pairs, in linear time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iallocator.cli import answer, main
from iallocator.constraints import relations_of, rule_violations
from iallocator.constraints.relations import Relations
from iallocator.model.constraints import APART, Constraint, Member
from iallocator.model.instance import Instance
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.planners.balance.scan.affinity import AffinityCosts, MoveAffinity
from iallocator.planners.balance.scan.arrays import NodeTable
from tests import builders
from tests.builders import Json
from tests.command import json_of
from tests.model.make import model_of

Pair = tuple[Member, Member, str]

DOMAINS = ("", "", ":rack", ":row", ":absent", ":nowhere")


def _tags(chances: random.Random) -> list[str]:
    """Return up to three affinity tags of one instance; several may have equal names."""
    tags = []
    for _ in range(chances.randint(0, 3)):
        kind, domain = chances.choice(["separate", "colocate"]), chances.choice(DOMAINS)
        name, weight = chances.choice("xy"), chances.choice(["", ":0.5", ":3", ":8"])
        if chances.random() < 0.4:
            tags.append(f"iallocator:{kind}:must:{name}{domain}")
        else:
            tags.append(f"iallocator:{kind}:should:{name}{domain}{weight}")
    return tags


def _scenario(chances: random.Random) -> tuple[State, Relations]:
    """Return the state and the constraints of a few instances on five nodes.

    The nodes are in overlapping failure domains.
    """
    instances = {
        f"inst{k:02}": builders.rbd(f"node{chances.randint(1, 5)}", tags=_tags(chances))
        for k in range(12)
    }
    instances["inst00"]["tags"] = ["iallocator:separate:should:x", "iallocator:colocate:must:y"]
    instances["inst01"]["tags"] = instances["inst00"]["tags"]
    document = builders.cluster(nodes=5, memory=65536, instances=instances)
    for k, node in enumerate(document["nodes"].values()):
        node["tags"] = [f"rack:{k // 2}"] + [f"row:{n}" for n in chances.sample(range(3), k % 3)]
    cluster = model_of(document)
    relations = relations_of(cluster)
    assert relations is not None
    return State(cluster), relations


def _pairs(relations: Relations, name: str, homes: Mapping[str, int]) -> Iterator[Pair]:
    """Yield each constraint of an instance as (instance, other instance, failure domain)."""
    for rule in relations.rules:
        for one, other in itertools.permutations(rule.members, 2):
            if one.instance == name != other.instance and other.instance in homes:
                for domain in sorted({one.domain or other.domain, other.domain or one.domain}):
                    yield one, other, domain


def _broken(relations: Relations, pair: Pair, node: int, home: int) -> bool:
    """Return whether instances on `node` and at `home` violate the constraint `pair`."""
    nodes, (one, _, domain) = relations.cluster.nodes, pair
    sites = [
        {tag for tag in nodes[index].tags if domain and tag.startswith(domain + ":")}
        or {f"node {index}"}
        for index in (node, home)
    ]
    return (one.rule.kind == APART) != sites[0].isdisjoint(sites[1])


def _sums(
    relations: Relations, instance: str, node: int, homes: Mapping[str, int]
) -> tuple[int, float]:
    """Return the violated hard constraints and the penalties of an instance on a node.

    Both are summed over all pairs.
    """
    hard, cost = 0, 0.0
    for pair in _pairs(relations, instance, homes):
        if _broken(relations, pair, node, homes[pair[1].instance]):
            weight = min(pair[0].weight, pair[1].weight)
            hard, cost = (hard + 1, cost) if weight == float("inf") else (hard, cost + weight)
    return hard, cost


@pytest.mark.parametrize("seed", range(12))
def test_counts_equal_sums_over_pairs(seed: int) -> None:
    """Hard constraints, penalties and new violations from counts equal sums over pairs.

    Scalars and arrays agree.
    """
    chances = random.Random(seed)
    state, relations = _scenario(chances)
    rule_counts = relations.live(state)
    names = [instance.name for instance in state.cluster.instances]
    table = NodeTable(state, range(5), Capacities(state.cluster.nodes))
    bonds = AffinityCosts(relations, rule_counts)
    arrays = MoveAffinity(table, state.cluster.instances, bonds)
    for _ in range(4):
        homes = {name: nodes[0] for name, nodes in state.where.items()}
        _same_sums(relations, state, arrays, names)
        total = sum(_sums(relations, name, homes[name], homes)[1] for name in names)
        assert bonds.penalty({index: index for index in range(5)}) == pytest.approx(total / 2)
        moved = chances.sample(state.cluster.instances, 3)
        for instance in moved:
            state.remove(instance, state.where[instance.name])
            state.place(instance, (chances.randrange(5),))
        arrays.refresh()
        _same_breaks(relations, state, homes, moved)


def _same_sums(relations: Relations, state: State, arrays: MoveAffinity, names: list[str]) -> None:
    rule_counts = relations.live(state).now()
    homes = {name: nodes[0] for name, nodes in state.where.items()}
    for row, name in enumerate(names):
        plain = [_sums(relations, name, node, homes) for node in range(5)]
        rejected = [node for node, (hard, _) in enumerate(plain) if hard]
        assert relations.rejected(name, range(5), rule_counts) == rejected
        assert [relations.hard_violations(name, n, rule_counts) for n in range(5)] == [
            m for m, _ in plain
        ]
        costs = relations.costs(name, range(5), rule_counts)
        assert [costs.get(n, 0.0) for n in range(5)] == pytest.approx([c for _, c in plain])
        barred = [node for node in range(5) if _newly_broken(relations, name, node, homes)]
        assert np.flatnonzero(arrays.barred[row]).tolist() == barred
        assert arrays.costs[row] == pytest.approx([cost for _, cost in plain])
        reported = relations.violated_hard(name, rejected[0], rule_counts) if rejected else []
        assert len(reported) == (plain[rejected[0]][0] if rejected else 0)


def _newly_broken(
    relations: Relations, name: str, node: int, homes: Mapping[str, int]
) -> list[Pair]:
    """Return the hard constraints that an instance violates on a node, but not at home."""
    return [
        pair
        for pair in _pairs(relations, name, homes)
        if pair[0].must
        and pair[1].must
        and _broken(relations, pair, node, homes[pair[1].instance])
        and not _broken(relations, pair, homes[name], homes[pair[1].instance])
    ]


def _same_breaks(
    relations: Relations, state: State, before: Mapping[str, int], moved: list[Instance]
) -> None:
    """Assert that new violations by the moved instances equal those found pair by pair."""
    now = {name: nodes[0] for name, nodes in state.where.items()}
    was: dict[str, int | None] = {instance.name: before[instance.name] for instance in moved}
    expected = {
        (name, pair[1].instance)
        for name in was
        for pair in _pairs(relations, name, now)
        if pair[0].must
        and pair[1].must
        and _broken(relations, pair, now[name], now[pair[1].instance])
        and not _broken(relations, pair, before[name], before[pair[1].instance])
    }
    found = relations.newly_broken(was, state.where, relations.live(state).now())
    assert {(name, constraint.other) for name, constraint in found} == expected


def _many(count: int, *tags: str) -> Json:
    """Return `count` instances with equal tags on eight nodes in two racks."""
    instances = {
        f"inst{k:03}": builders.rbd(
            f"node{k % 8 + 1}", memory=64,
            tags=[tag.replace("K", str(k)) for tag in tags],
        )
        for k in range(count)
    }  # fmt: skip
    document = builders.cluster(
        nodes=8, memory=262144, cpus=64, instances=instances, tags=("htools:iextags:ex",)
    )
    for k, node in enumerate(document["nodes"].values()):
        node["tags"] = [f"rack:{k // 4}"]
    return document


TAGS = {
    "apart": ["iallocator:separate:should:web"],
    "apart must": ["iallocator:separate:must:web"],
    "together": ["iallocator:colocate:should:web"],
    "together must": ["iallocator:colocate:must:web"],
    "by rack": ["iallocator:separate:should:web:rack"],
    "own penalties": ["iallocator:separate:should:web:0.0K"],
    "own domains": ["iallocator:separate:should:web:dK:1"],
    "exclusion": ["ex:1"],
    "two names": ["iallocator:separate:should:web", "iallocator:colocate:should:db:rack"],
}


@pytest.mark.parametrize("case", TAGS)
def test_operations_grow_with_members_and_not_with_pairs(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work for constraints grows with the number of members, not of pairs.

    Twice as many members have at most about twice as many constraints and lines of output.
    """
    made = [0]
    init = Constraint.__init__

    def counted(self: Constraint, *args: Any, **kwargs: Any) -> None:
        made[0] += 1
        init(self, *args, **kwargs)

    monkeypatch.setattr(Constraint, "__init__", counted)
    counts, sizes = [], []
    for members in (120, 240):
        document = _many(members, *TAGS[case])
        path = tmp_path / "cluster.json"
        path.write_bytes(builders.as_bytes(document))
        made[0] = 0
        asked = builders.allocate_rbd(document, memory=64, tags=TAGS[case])
        text = answer(builders.as_bytes(asked), ["--n1=off"])
        main(["constraints", "--json", str(path)])
        sizes.append(len(text) + len(capsys.readouterr().out))
        main(["check", "--json", str(path)])
        main(["balance", "--json", "--max-length=1", str(path)])
        capsys.readouterr()
        counts.append(made[0])
    assert counts[1] <= 2.5 * counts[0] + 20, counts
    assert sizes[1] <= 2.5 * sizes[0], sizes


def test_chain_of_orders_is_reported_in_few_links() -> None:
    """A long chain of orders is reported by its ends only."""
    tags = {k: [f"iallocator:order:after:inst{k + 1:04}"] for k in range(1500)}
    instances = {f"inst{k:04}": builders.rbd("node1", memory=1, tags=tags[k]) for k in tags}
    unusable = json_of(
        "constraints", document=builders.cluster(2, memory=65536, instances=instances)
    )["unusable_tags"]
    chains = [text for text in unusable if "inst1500" in text]
    assert len(chains) == 1500
    assert all(text.endswith("which does not exist") for text in chains)
    assert max(map(len, chains)) < 1000


def test_layers_of_orders_are_visited_once() -> None:
    """Orders between ten layers of ten instances are checked in linear time, not path by path."""
    instances = {
        f"inst{layer}{k}": builders.rbd(
            "node1", memory=1,
            tags=[f"iallocator:order:after:inst{layer - 1}{j}" for j in range(10) if layer],
        )
        for layer in range(10)
        for k in range(10)
    }  # fmt: skip
    document = builders.cluster(2, memory=65536, instances=instances)
    assert json_of("constraints", document=document)["unusable_tags"] == []


MEMBERS = 60

OF_EACH = {
    "penalties": "iallocator:separate:should:web:{}",
    "domains": "iallocator:separate:must:web:domain{}",
    "together": "iallocator:colocate:should:web:{}",
}


@pytest.mark.parametrize("tag", OF_EACH.values(), ids=OF_EACH)
@pytest.mark.parametrize("command", [("check",), ("check", "--no-simulation"), ("balance",)])
def test_members_with_different_requirements_need_a_few_sums_each(
    command: tuple[str, ...],
    tag: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Penalties of equal members are computed once, without a loop over the members."""
    made = 0
    plain = rule_violations._Term.add

    def counted(self: rule_violations._Term, *arguments: object) -> None:
        nonlocal made
        made += 1
        plain(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rule_violations._Term, "add", counted)
    instances = {
        f"inst{k}": builders.rbd(f"node{k % 3 + 1}", memory=64, tags=[tag.format(k + 1)])
        for k in range(MEMBERS)
    }
    path = tmp_path / "cluster.json"
    path.write_bytes(builders.as_bytes(builders.cluster(4, memory=65536, instances=instances)))
    assert main([*command, str(path)]) in (0, 1)
    assert capsys.readouterr().out
    assert made < 40 * MEMBERS
