"""Test how instance tags reject nodes, or add penalties to them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from iallocator.constraints import relations_of
from iallocator.constraints.relations import Relations
from iallocator.model.cluster import Cluster, Group, Node
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.policy import Policy

Tags = Mapping[str, tuple[str, ...]]

WHERE = {"a": (0,), "b": (1,), "c": (2,)}


def _relations(tags: Tags, nodes: Tags | None = None) -> Relations:
    """Return the affinity rules of the instances a to d with `tags`; a to c are on nodes 0 to 2."""
    group = Group(0, "uuid", "default", Policy())
    homes = [Node(f"node{n}", group, tags=(nodes or {}).get(f"node{n}", ())) for n in range(4)]
    instances = [
        Instance(
            name, Backend(1024), Disks("rbd"), tags=tags.get(name, ()), nodes=WHERE.get(name, ())
        )
        for name in "abcd"
    ]
    found = relations_of(Cluster("c", (), [group], homes, instances))
    assert found is not None
    return found


def test_colocate_must_rejects_every_other_node() -> None:
    """With a hard colocation, only the node of the other member is accepted."""
    relations = _relations({"a": ("iallocator:colocate:must:web",),
                            "d": ("iallocator:colocate:must:web",)})  # fmt: skip
    assert sorted(relations.rejections("d", range(4), relations.rule_counts(WHERE))) == [1, 2, 3]


def test_separate_must_rejects_the_nodes_of_the_others() -> None:
    """With a hard separation, the nodes of all other members are rejected."""
    tag = ("iallocator:separate:must:web",)
    relations = _relations({"a": tag, "c": tag, "d": tag})
    assert sorted(relations.rejections("d", range(4), relations.rule_counts(WHERE))) == [0, 2]


def test_separate_must_with_a_domain_rejects_the_whole_domain() -> None:
    """With a hard separation by domain, all nodes of a member's domain are rejected.

    A node without a tag of the domain is a domain of its own.
    """
    tag = ("iallocator:separate:must:web:rack",)
    racks = {"node0": ("rack:1",), "node1": ("rack:1",), "node2": ("rack:2",)}
    relations = _relations({"a": tag, "d": tag}, racks)
    assert sorted(relations.rejections("d", range(4), relations.rule_counts(WHERE))) == [0, 1]


def test_should_adds_its_weight_and_rejects_nothing() -> None:
    """A soft constraint adds its weight to nodes and rejects none."""
    tag = ("iallocator:separate:should:web:0.25",)
    relations = _relations({"a": tag, "b": tag, "d": tag})
    assert relations.rejections("d", range(4), relations.rule_counts(WHERE)) == {}
    assert relations.costs("d", range(4), relations.rule_counts(WHERE)) == {0: 0.25, 1: 0.25}


def test_must_with_should_is_soft() -> None:
    """If one of two members has a soft constraint, the constraint of both is soft."""
    relations = _relations({"a": ("iallocator:separate:must:web",),
                            "d": ("iallocator:separate:should:web",)})  # fmt: skip
    assert relations.rejections("d", range(4), relations.rule_counts(WHERE)) == {}
    assert relations.costs("d", range(4), relations.rule_counts(WHERE)) == {0: 1.0}


def test_in_order_sorts_by_priority_and_then_by_order() -> None:
    """Instances are sorted by priority, then by order of starts, then as given."""
    first = ("iallocator:priority:9", "iallocator:order:after:d")
    relations = _relations({"c": ("iallocator:priority:5",), "b": first})
    instances = relations.cluster.instances
    assert [i.name for i in relations.in_order(instances)] == ["d", "b", "c", "a"]


def test_in_order_accepts_a_cycle() -> None:
    """Two instances that must each start after the other are sorted once each."""
    relations = _relations({"a": ("iallocator:order:after:b",),
                            "b": ("iallocator:order:after:a",)})  # fmt: skip
    assert sorted(i.name for i in relations.in_order(relations.cluster.instances)) == list("abcd")


def test_colocation_group_includes_indirect_members() -> None:
    """Two colocation names with a common member form one colocation group."""
    relations = _relations({
        "a": ("iallocator:colocate:must:x",),
        "b": ("iallocator:colocate:must:x", "iallocator:colocate:must:y"),
        "d": ("iallocator:colocate:must:y",),
    })  # fmt: skip
    assert relations.group_of("a", ["d", "c", "b", "a"]) == ["d", "b", "a"]


@pytest.mark.parametrize(
    "tag",
    ["colocate:maybe:x", "colocate:must", "separate:must:", "order:before:a", "order:after:",
     "priority:high", "separate:should:x:rack:-1", "separate:must:x:y:z",
     "separate:should:x:1_0", "separate:should:x:rack:٣", "colocate:should:x: 1",
     "colocate:should:x:nan", "separate:should:x:1e400", "separate:should:x:1e10",
     "priority:1_0", "priority:٣", "priority: 1"],
)  # fmt: skip
def test_invalid_tags_are_listed(tag: str) -> None:
    """A tag with the prefix that has no valid meaning is listed, and has no effect."""
    relations = _relations({"d": (f"iallocator:{tag}",)})
    assert relations.unusable == [f"d: iallocator:{tag}"]
    assert relations.of("d") == []
