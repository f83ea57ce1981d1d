"""Test how cluster tags define the meaning of tags of nodes and instances."""

from __future__ import annotations

import pytest

from iallocator.model.tags import InstanceTags, interpret_tags

from .make import cluster, instance


@pytest.mark.parametrize(
    ("cluster_tags", "tags", "expected"),
    [
        (("htools:iextags:service",), ("service:dns", "owner:me"), ("service:dns",)),
        (("htools:iextags:service",), ("services", "service", "my-service:dns"),
         ("services", "service")),
        (("htools:iextags:service:",), ("services", "service:dns"), ("service:dns",)),
        (("htools:iextags:a", "htools:iextags:b"), ("b:1", "c:1", "a:1"), ("b:1", "a:1")),
        (("htools:iextags:a", "htools:iextags:a:b"), ("a:b:1", "a:b:1"), ("a:b:1",)),
        (("iextags:service", "owner:me"), ("service:dns", "owner:me"), ()),
        ((), ("service:dns",), ()),
        (("htools:iextags:service",), (), ()),
    ],
)  # fmt: skip
def test_exclusion_tags_are_those_that_begin_with_a_named_prefix(
    cluster_tags: tuple[str, ...], tags: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """A tag with a named prefix is an exclusion tag, with or without a colon."""
    one = instance(tags=tags)
    InstanceTags(cluster_tags).interpret(one)
    assert one.exclusion == expected


@pytest.mark.parametrize("kind", ["iextags", "desiredlocation"])
def test_tag_kind_without_a_prefix_has_no_effect(kind: str) -> None:
    """An empty prefix in a cluster tag has no effect, as in hail."""
    one = instance(tags=("service:dns",))
    InstanceTags((f"htools:{kind}:",)).interpret(one)
    assert (one.exclusion, one.desired) == ((), frozenset())


def test_desired_locations_are_those_that_begin_with_a_named_prefix() -> None:
    """Tags of an instance with a named prefix are its desired locations."""
    one = instance(tags=("rack:a", "power:1"))
    InstanceTags(("htools:desiredlocation:rack",)).interpret(one)
    assert one.desired == {"rack:a"}


def test_locations_of_nodes_need_the_prefix_and_a_colon() -> None:
    """The prefix ``rack`` names the location ``rack:a``, but not ``racks:a`` or ``rack``."""
    made = cluster(
        tags=("htools:nlocation:rack", "htools:nlocation:power"),
        node_tags=(("rack:a", "power:1", "owner:me"), ("racks:a", "rack")),
    )
    interpret_tags(made)
    assert [node.locations for node in made.nodes] == [{"rack:a", "power:1"}, set()]


def test_migration_tags_let_nodes_with_equal_tags_receive_from_each_other() -> None:
    """A node receives migrations from nodes with an equal tag, or a permitted pair of tags."""
    made = cluster(
        nodes=3,
        tags=("htools:migration:cpu", "htools:allowmigration:cpu:old::cpu:new"),
        node_tags=(("cpu:old",), ("cpu:new",), ("other:x",)),
    )
    interpret_tags(made)
    assert [node.migration for node in made.nodes] == [{"cpu:old"}, {"cpu:new"}, set()]
    assert [node.receives for node in made.nodes] == [{"cpu:old"}, {"cpu:new", "cpu:old"}, set()]


def test_tags_without_meaning_change_nothing() -> None:
    """Without cluster tags, tags of nodes and instances have no meaning."""
    one = instance(tags=("rack:a",))
    made = cluster(tags=("owner:me",), node_tags=(("rack:a", "cpu:old"),), instances=(one,))
    interpret_tags(made)
    assert made.nodes[0].locations == made.nodes[0].migration == one.desired == frozenset()
    assert one.exclusion == ()
