"""Test how planners read their cluster."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from iallocator import files
from iallocator.errors import RequestError, UsageError
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.sources import Source, load
from tests.builders import allocate, as_bytes, cluster

from .clusters import READING, SMALL

ZSTD = b"\x28\xb5\x2f\xfd\x00"
"""First bytes of a file compressed by zstd."""


def loaded(*words: object) -> Source:
    """Return the source of the cluster that the arguments `words` select."""
    settings = Settings()
    positional = parse([str(word) for word in words], settings)
    return load(settings, positional, READING)


def test_captured_document_is_loaded_with_its_policy(tmp_path: Path) -> None:
    """A captured document gives the cluster with its policy; its request is ignored."""
    document = {**cluster(nodes=2), "request": "damaged"}
    document["ipolicy"]["vcpu-ratio"] = 3.5
    path = tmp_path / "request.json"
    path.write_bytes(as_bytes(document))
    found = loaded(path)
    assert len(found.cluster.nodes) == 2
    assert (found.policy.vcpu_ratio, found.master) == (3.5, "")
    assert found.document == document


@pytest.mark.parametrize("name", ["request.json.gz", "request"])
def test_compressed_document_is_expanded(name: str, tmp_path: Path) -> None:
    """A compressed document is expanded, by its first bytes and not by its name."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(as_bytes(allocate(cluster(nodes=3)))))
    assert len(loaded(path).cluster.nodes) == 3


def test_compressed_text_is_expanded(tmp_path: Path) -> None:
    """A compressed text file is expanded."""
    path = tmp_path / "cluster.data.gz"
    path.write_bytes(gzip.compress(SMALL.encode()))
    assert loaded("-t", path).master == "node1"


@pytest.mark.parametrize("cut", [5, 40, -4])
def test_damaged_compressed_file_is_rejected(cut: int, tmp_path: Path) -> None:
    """A truncated compressed file is an error."""
    path = tmp_path / "request.json.gz"
    path.write_bytes(gzip.compress(as_bytes(cluster(nodes=3)))[:cut])
    with pytest.raises(UsageError, match=r"request\.json\.gz: damaged gzip file"):
        loaded(path)


def test_zstd_without_its_module_has_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zstd file without a module for zstd is an error that names both."""

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    path = tmp_path / "request.json.zst"
    path.write_bytes(ZSTD)
    with pytest.raises(UsageError, match=r"request\.json\.zst: compressed with zstd.*install"):
        files.read_file(str(path))


def test_simulated_cluster_is_loaded() -> None:
    """Each --simulate specifies one group of the cluster."""
    found = loaded("--simulate", "p,2,1g,1g,2", "--simulate=u,3,1g,1g,2")
    assert [len(group.nodes) for group in found.cluster.groups] == [3, 2]
    assert found.document is None


@pytest.mark.parametrize(
    "words",
    [
        ["one", "two"],
        ["one", "--simulate", "p,2,1,1,1"],
        ["-t", "one", "--simulate", "p,2,1,1,1"],
    ],
)
def test_two_sources_exclude_each_other(words: list[str], tmp_path: Path) -> None:
    """Two sources of the cluster are an error."""
    with pytest.raises(UsageError, match=r"at most|exclude"):
        loaded(*words)


def test_missing_file_is_rejected() -> None:
    """A missing file is an error that names it."""
    with pytest.raises(UsageError, match=r"/nowhere/cluster\.data: No such file"):
        loaded("-t", "/nowhere/cluster.data")


def test_document_in_place_of_text_is_rejected(tmp_path: Path) -> None:
    """A document given as text file is an error that names the file and its format."""
    path = tmp_path / "request.json"
    path.write_text(json.dumps(cluster(nodes=1)))
    with pytest.raises(RequestError, match=r"request\.json: expected htools' text format"):
        loaded("-t", path)


@pytest.mark.parametrize("keep_size", [True, False])
def test_document_compressed_by_zstd_is_expanded(keep_size: bool, tmp_path: Path) -> None:
    """If a module for zstd is installed, zstd documents are expanded."""
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor(write_content_size=keep_size).compress(
        as_bytes(cluster(nodes=3))
    )
    path = tmp_path / "request.json.zst"
    path.write_bytes(packed)
    assert len(loaded(path).cluster.nodes) == 3
    path.write_bytes(packed[:-9])
    with pytest.raises(UsageError, match=r"request\.json\.zst: damaged zstd file"):
        loaded(path)
