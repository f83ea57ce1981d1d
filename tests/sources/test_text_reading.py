"""Test reading htools' text format: fields, older files, invalid files."""

from __future__ import annotations

import pytest

from iallocator.errors import RequestError
from iallocator.model.state import State

from .clusters import LIKE_HAIL, SMALL, read


def changed(old: str, new: str) -> str:
    """Return the text `SMALL` with `old` replaced by `new`."""
    assert SMALL.count(old) == 1, old
    return SMALL.replace(old, new)


def problem(text: str) -> str:
    """Return the error about `text`, which is not a valid text file."""
    with pytest.raises(RequestError) as caught:
        read(text)
    return str(caught.value)


def test_text_with_every_section_gives_the_whole_cluster() -> None:
    """A text file with every section gives a cluster with all of its parts."""
    found = read(SMALL)
    cluster = found.cluster
    node, other = cluster.nodes
    assert (node.total_memory, node.reserved_memory, node.reported_memory) == (16384, 512, 14336)
    assert (node.total_disk, node.reported_disk, node.total_cpus) == (409600, 307200, 16)
    assert (node.spindle_count, node.reserved_cpus, node.tags) == (2, 1, ["rack:a"])
    assert node.online
    assert other.online
    assert found.masters == ("node1",)
    assert cluster.tags == ["htools:iextags:service"]
    assert found.policy.templates == ("drbd", "plain", "rbd")
    policy = cluster.groups[0].policy
    assert (policy.vcpu_ratio, policy.spindle_ratio, policy.standard.memory) == (2.5, 16.0, 256)
    assert policy.intervals[0].high.memory == 8192
    db, web = cluster.instances
    assert (web.nodes, web.exclusion, web.spindles) == ((0, 1), ("service:web",), None)
    assert (db.admin_state, db.auto_balance, db.spindles) == ("down", False, 2)


def test_text_with_tags_of_storage_pools_restricts_instances() -> None:
    """In a text file, tags for storage pools have the effect that they have in documents.

    hail ignores these tags.
    """
    pool = "iallocator:pool:external:nas"
    text = "g|u|preferred|\n\n" + "".join(
        f"n{k}|100|0|90|200|150|4|N|u|1|{pool if k < 2 else ''}\n" for k in range(3)
    )
    text += f"\ni|10|50|1|running|Y|n0||rbd|{pool}\nj|10|50|1|running|Y|n0||rbd|\n\n"
    cluster = read(text).cluster
    assert {one.name: cluster.reach(one) for one in cluster.instances} == {
        "i": frozenset({0, 1}),
        "j": None,
    }
    assert [one.restricted for one in cluster.instances] == [True, False]
    theirs = read(text, LIKE_HAIL).cluster
    assert [theirs.reach(one) for one in theirs.instances] == [None, None]


def test_text_with_the_fewest_fields_has_the_defaults() -> None:
    """A text file with the fewest fields gives a cluster with the defaults of htools."""
    text = "g|u|preferred|\n\nn|100|0|90|200|150|4|N|u\n\ni|10|50|1|running|Y|n||plain|\n\n"
    cluster = read(text).cluster
    node, instance = cluster.nodes[0], cluster.instances[0]
    assert (node.spindle_count, node.reserved_cpus, node.cpu_speed) == (1, 1, 1.0)
    assert not node.exclusive_storage
    assert (instance.spindle_use, instance.spindles, instance.forthcoming) == (1, None, False)
    assert cluster.groups[0].policy.vcpu_ratio == 4.0


def test_text_with_more_sections_than_known_ignores_them() -> None:
    """Sections after the policies in a text file are ignored, as in htools."""
    assert read(SMALL + "\nsomething|else\n").cluster.instances


def test_text_with_windows_line_ends_is_read_the_same() -> None:
    """A text file with line ends of Windows has the instances of the file with those of Unix."""
    assert len(read(SMALL.replace("\n", "\r\n")).cluster.instances) == 2


@pytest.mark.parametrize("field", range(1, 7))
def test_node_with_a_question_mark_is_offline(field: int) -> None:
    """A node with a question mark in a text file is offline and has no capacity."""
    fields = ["node2", "16384", "512", "15872", "409600", "358400", "16"]
    line = "|".join(fields)
    fields[field] = "?"
    node = read(changed(line, "|".join(fields))).cluster.nodes[1]
    assert node.offline
    assert not node.online
    assert (node.total_memory, node.total_disk, node.total_cpus) == (0, 0, 0)


def test_node_with_exclusive_storage_has_its_spindles() -> None:
    """The field for spindles is read as a count or as a total, by the node's storage."""
    line = "2||N|0|1|1.0"
    node = read(changed(line, "12||Y|7|1|1.0")).cluster.nodes[1]
    assert node.exclusive_storage
    assert (node.total_spindles, node.free_spindles) == (12, 7)


def test_node_with_negative_amounts_is_read() -> None:
    """A negative free memory of a node in a text file is read."""
    cluster = read(changed("|15872|", "|-5|")).cluster
    assert State(cluster).columns[0][1] == -5


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("running", "up"), ("ERROR_up", "up"), ("ERROR_wrongnode", "up"),
        ("ERROR_nodedown", "up"), ("ERROR_nodeoffline", "up"), ("ADMIN_down", "down"),
        ("USER_down", "down"), ("ERROR_down", "down"), ("ADMIN_offline", "offline"),
    ],
)  # fmt: skip
def test_instance_status_decides_its_resources(status: str, state: str) -> None:
    """An instance in a text file uses memory unless its status is that of a stopped one."""
    cluster = read(changed("ADMIN_down", status)).cluster
    assert cluster.instances[0].admin_state == state


def test_reading_orders_nodes_and_instances_by_name() -> None:
    """Of equal nodes in a text file, the first one by name is chosen."""
    cluster = read(SMALL.replace("node1|", "nodeX|").replace("uuid-nodeX", "")).cluster
    assert [node.name for node in cluster.nodes] == ["node2", "nodeX"]
    assert [instance.name for instance in cluster.instances] == ["db", "web"]


def test_reading_with_compat_hail_reverses_the_order_of_lines() -> None:
    """With --compat hail, the last of equal nodes in a text file is chosen, as in hail."""
    cluster = read(SMALL, LIKE_HAIL).cluster
    assert [node.name for node in cluster.nodes] == ["node2", "node1"]
    assert [instance.name for instance in cluster.instances] == ["db", "web"]


DAMAGE = [
    ("default|uuid-default|preferred||", "default|uuid-default", "1: group: expected at least 4"),
    ("|preferred|", "|sometimes|", "1: alloc policy: expected one of"),
    ("16384|512|14336", "16384|512|much", "3: free memory: expected a whole number"),
    ("16384|512|14336", "-1|512|14336", "3: total memory: expected an integer from 0"),
    ("16|M|uuid-default", "16|M|nowhere", "3: group: expected the uuid"),
    ("node2|16384|512|15872|409600|358400|16|N|uuid-default|2||N|0|1|1.0", "node2|16384|512",
     "4: node: expected at least 9 fields, got 3"),
    ("node2|16384", "node1|16384", "4: node: expected each name once"),
    ("2||N|0|1|1.0", "2||n|0|1|1.0", "4: exclusive storage: expected one of Y, N"),
    ("2||N|0|1|1.0", "2||N|0|1|nan", "4: cpu speed: expected a number"),
    ("|node2|drbd", "|node9|drbd", "6: secondary: expected a node of the file"),
    ("|node2|drbd", "|node1|drbd", "6: secondary: expected different nodes"),
    ("|node2|drbd", "|node2|drbd8", "6: disk template: expected one of"),
    ("|node1||plain", "|node1|node2|plain", "7: secondary: expected none for plain"),
    ("|running|Y|", "|running|y|", "6: auto-balanced: expected one of Y, N"),
    ("|running|Y|", "|flying|Y|", "6: status: expected one of"),
    ("web|1024", "|1024", "6: instance: expected a name"),
    ("db|512|51200", "db|512|51200.5", "7: disk: expected an integer"),
    ("default|256,1,1024,1,1,1|128", "default|256,1,1024,1,1|128", "12: standard size: expected"),
    ("default|256", "other|256", "12: policy: expected a group of the file"),
    ("1;8192,4,1048576,16,8,12", "1", "12: sizes: expected pairs"),
    ("|plain,drbd|", "|plain,drbd8|", "12: disk templates: expected names out of"),
    ("|2.5|16.0", "|2.5", "12: policy: expected at least 6 fields"),
    ("|2.5|16.0", "|x|16.0", "12: vcpu ratio: expected a number"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), DAMAGE)
def test_text_with_damage_names_file_line_and_field(old: str, new: str, expected: str) -> None:
    """A damaged text file is reported in one line with file, line and field."""
    output = problem(changed(old, new))
    assert output.startswith(f"cluster.data:{expected}")
    assert "\n" not in output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "cluster.data: expected a cluster"),
        ("\n\n\n", "cluster.data: expected a cluster"),
        (
            '{"version": 2}\n',
            "cluster.data: expected htools' text format, got what looks like JSON",
        ),
        (SMALL.split("\n\nweb")[0], "cluster.data: expected at least 4 sections, got 2"),
        ("\n" + SMALL, "cluster.data:2: node: expected at least 9 fields"),
    ],
)
def test_file_that_is_not_a_cluster_is_rejected(text: str, expected: str) -> None:
    """A file of another format is detected by its first line, and rejected."""
    assert problem(text).startswith(expected)
