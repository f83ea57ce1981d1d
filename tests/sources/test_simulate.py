"""Test the empty clusters of ``--simulate``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iallocator.errors import UsageError
from iallocator.model.state import State
from iallocator.sources.simulate import parse_size, simulate
from iallocator.sources.writer import write_text
from tests.patience import PATIENCE

from .clusters import LIKE_HAIL, READING


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [
        ("100", 100), ("16m", 16), ("16MiB", 16), ("16mib", 16), ("16M", 15), ("16MB", 15),
        ("1g", 1024), ("1GiB", 1024), ("100G", 95367), ("100GB", 95367), ("100gb", 95367),
        ("1t", 1048576), ("1TiB", 1048576), ("1T", 953674), ("1tb", 953674), ("10 g", 10240),
    ],
)  # fmt: skip
def test_size_is_read_as_by_htools(text: str, mebibytes: int) -> None:
    """Sizes have the units of htools.

    Lower-case units and the suffix iB are binary. Upper-case units and the suffix B are decimal.
    """
    assert parse_size(text) == mebibytes


@pytest.mark.parametrize("text", ["", "g", "1.5g", "-1g", "1k", "1b", "1gi", "1 g b", "0x1", "١"])
def test_invalid_size_is_distinguished(text: str) -> None:
    """A text that is not a size is rejected."""
    assert parse_size(text) is None


def test_simulated_cluster_has_groups_and_nodes_as_asked() -> None:
    """A simulated cluster has names, sizes and policies as specified; node 1 is the master."""
    found = simulate(["preferred,2,100G,16g,4,2"], READING)
    (group,) = found.cluster.groups
    assert (group.name, group.alloc_policy) == ("group-01", "preferred")
    assert [node.name for node in found.cluster.nodes] == ["node-01-001", "node-01-002"]
    node = found.cluster.nodes[0]
    assert (node.total_memory, node.total_disk, node.total_cpus) == (16384, 95367, 4)
    assert (node.spindle_count, node.reserved_cpus) == (2, 1)
    assert found.masters == ("node-01-001",)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("preferred,2,1,1", "5 to 7 fields"),
        ("pref,2,1,1,1", "a policy out of"),
        ("p,x,1,1,1", "nodes as a number"),
        ("p,1000000,1,1,1", "nodes as a number up to 100000"),
        ("p,2,1q,1,1", "disk as a size"),
        ("p,2,1,,1", "memory as a size"),
        ("p,2,1,1,-1", "cpus as a number"),
        ("p,2,1,1,1,x", "spindles as a number"),
        ("p,2,1,1,1,1,yes", "True or False for exclusive storage"),
    ],
)
def test_invalid_specification_is_rejected(spec: str, expected: str) -> None:
    """An invalid specification of --simulate is rejected with its invalid part."""
    with pytest.raises(UsageError, match=expected) as caught:
        simulate([spec], READING)
    assert f"--simulate {spec}: " in str(caught.value)


@pytest.mark.skipif(not shutil.which("hspace"), reason="hspace is not installed")
@pytest.mark.parametrize(
    "specs",
    [
        ["preferred,2,100G,16g,4,2"],
        ["p,3,1t,64GB,16"],
        ["u,11,100MiB,512,4,2", "last_resort,2,7gb,16g,4,3"],
        ["a,1,10g,2g,1", "p,12,10g,3g,2", "preferred,3,10T,4g,3"],
    ],
)
def test_simulated_cluster_is_the_one_of_hspace(specs: list[str], tmp_path: Path) -> None:
    """A simulated cluster is saved as the file that hspace saves, byte for byte."""
    options = [f"--simulate={spec}" for spec in specs]
    command = ["hspace", *options, "-l", "0", "-S", str(tmp_path / "saved")]
    subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE)
    theirs = (tmp_path / "saved.tiered").read_text()
    found = simulate(specs, LIKE_HAIL)
    ours = write_text(found.cluster, State(found.cluster), masters=found.masters, backwards=True)
    assert ours == theirs


@pytest.mark.parametrize(("word", "free"), [("True", 12), ("False", 0)])
def test_nodes_may_have_exclusive_storage(word: str, free: int) -> None:
    """The seventh field of --simulate gives nodes exclusive storage."""
    nodes = simulate([f"p,3,100g,16g,8,12,{word}"], READING).cluster.nodes
    assert {node.exclusive_storage for node in nodes} == {word == "True"}
    assert {(node.spindle_count, node.total_spindles) for node in nodes} == {(12, free)}
