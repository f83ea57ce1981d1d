"""Test the effect of instance tags on candidates."""

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
    """Return the relations of instances a, b, c, d with these tags; a to c are on nodes 0 to 2."""
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
    """Only the node of the existing member is accepted."""
    relations = _relations({"a": ("iallocator:colocate:must:web",),
                            "d": ("iallocator:colocate:must:web",)})  # fmt: skip
    assert sorted(relations.rejections("d", range(4), relations.rule_counts(WHERE))) == [1, 2, 3]


def test_separate_must_rejects_the_nodes_of_the_others() -> None:
    """The nodes of all other members are rejected."""
    tag = ("iallocator:separate:must:web",)
    relations = _relations({"a": tag, "c": tag, "d": tag})
    assert sorted(relations.rejections("d", range(4), relations.rule_counts(WHERE))) == [0, 2]


def test_separate_must_with_a_domain_rejects_the_whole_domain() -> None:
    """Nodes that share a tag of the domain count as one; a node without one is its own domain."""
    tag = ("iallocator:separate:must:web:rack",)
    racks = {"node0": ("rack:1",), "node1": ("rack:1",), "node2": ("rack:2",)}
    relations = _relations({"a": tag, "d": tag}, racks)
    assert sorted(relations.rejections("d", range(4), relations.rule_counts(WHERE))) == [0, 1]


def test_should_adds_its_weight_and_rejects_nothing() -> None:
    """A soft constraint has a penalty and rejects no node."""
    tag = ("iallocator:separate:should:web:0.25",)
    relations = _relations({"a": tag, "b": tag, "d": tag})
    assert relations.rejections("d", range(4), relations.rule_counts(WHERE)) == {}
    assert relations.costs("d", range(4), relations.rule_counts(WHERE)) == {0: 0.25, 1: 0.25}


def test_must_with_should_is_soft() -> None:
    """The weaker of the two strengths applies to the pair."""
    relations = _relations({"a": ("iallocator:separate:must:web",),
                            "d": ("iallocator:separate:should:web",)})  # fmt: skip
    assert relations.rejections("d", range(4), relations.rule_counts(WHERE)) == {}
    assert relations.costs("d", range(4), relations.rule_counts(WHERE)) == {0: 1.0}


def test_in_order_sorts_by_priority_and_then_by_order() -> None:
    """Priority decides first, then order constraints; the rest keeps its order."""
    first = ("iallocator:priority:9", "iallocator:order:after:d")
    relations = _relations({"c": ("iallocator:priority:5",), "b": first})
    instances = relations.cluster.instances
    assert [i.name for i in relations.in_order(instances)] == ["d", "b", "c", "a"]


def test_in_order_accepts_a_cycle() -> None:
    """Two instances that depend on each other are in the order once each."""
    relations = _relations({"a": ("iallocator:order:after:b",),
                            "b": ("iallocator:order:after:a",)})  # fmt: skip
    assert sorted(i.name for i in relations.in_order(relations.cluster.instances)) == list("abcd")


def test_colocation_group_includes_indirect_members() -> None:
    """Two names that share a member form one group."""
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
    """A tag with the prefix but no valid meaning is listed, and constrains no instance."""
    relations = _relations({"d": (f"iallocator:{tag}",)})
    assert relations.unusable == [f"d: iallocator:{tag}"]
    assert relations.of("d") == []
