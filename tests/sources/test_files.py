"""Test the size limit of files, and that files are written completely or not at all."""

from __future__ import annotations

import gzip
import io
import os
import stat
import threading
from pathlib import Path

import pytest

from iallocator import files, written_files
from iallocator.cli import main
from iallocator.errors import UsageError
from iallocator.options.values import byte_size
from tests.builders import allocate, as_bytes, cluster
from tests.command import printed


def test_read_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    """A file of exactly the size limit is read."""
    path = tmp_path / "document"
    path.write_bytes(b"x" * 1000)
    assert files.read_file(str(path), limit=1000) == b"x" * 1000


@pytest.mark.parametrize("size", [1001, 5_000_000])
def test_read_file_beyond_the_limit_is_rejected(size: int, tmp_path: Path) -> None:
    """A file beyond the size limit is rejected in one line with the file and the limit."""
    path = tmp_path / "document"
    path.write_bytes(b"x" * size)
    with pytest.raises(UsageError, match=r"document: more than 1000 bytes"):
        files.read_file(str(path), limit=1000)


def test_read_file_of_a_huge_sparse_file_reads_nothing(tmp_path: Path) -> None:
    """A sparse file of one TiB is rejected by its size, without being read."""
    path = tmp_path / "hole"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UsageError, match=r"hole: more than"):
        files.read_file(str(path))


def test_read_file_that_never_ends_is_rejected() -> None:
    """A device without an end is read up to the size limit, then rejected."""
    with pytest.raises(UsageError, match=r"/dev/zero: more than"):
        files.read_file("/dev/zero", limit=10_000_000)


def test_read_file_that_expands_beyond_the_limit_is_rejected(tmp_path: Path) -> None:
    """A small gzip file that expands beyond the size limit is rejected."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(20_000_000)))
    with pytest.raises(UsageError, match=r"bomb\.gz: more than 1000000 bytes"):
        files.read_file(str(path), limit=1_000_000)


def test_read_file_with_a_nul_in_its_name_is_rejected() -> None:
    """A file name with a NUL byte is an error."""
    with pytest.raises(UsageError, match="null byte"):
        files.read_file("a\0b")


def test_write_file_to_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk is full, the old file is kept, and no temporary file is left."""
    path = tmp_path / "plan"
    path.write_text("before")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        written_files.write_file(str(path), "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_write_file_to_a_full_device_is_an_error() -> None:
    """An error of writing to a device is reported."""
    with pytest.raises(UsageError, match="/dev/full: No space left"):
        written_files.write_file("/dev/full", "plan")


def test_write_file_keeps_permissions_and_links(tmp_path: Path) -> None:
    """A link stays a link when its file is replaced, and the target keeps its mode."""
    path, link = tmp_path / "plan", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    written_files.write_file(str(link), "after")
    assert (link.is_symlink(), path.read_text()) == (True, "after")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_write_file_by_two_writers_is_never_mixed(tmp_path: Path) -> None:
    """Of two writers of a file, readers see the complete content of one."""
    path = tmp_path / "plan"
    written_files.write_file(str(path), "a" * 100_000)
    seen = set()

    def write(letter: str) -> None:
        for _ in range(50):
            written_files.write_file(str(path), letter * 100_000)

    writer = threading.Thread(target=write, args=("b",))
    writer.start()
    written = False
    while not written:
        written = not writer.is_alive()
        text = path.read_text()
        seen.add((len(text), len(set(text))))
    writer.join()
    assert seen == {(100_000, 1)}


ANSWERS = (
    "doc", "-", "explain doc", "check doc", "config doc", "constraints doc", "balance doc",
    "balance -", "capacity -t data", "balance -t data", "check -t data", "--validate doc",
    "balance-groups -t data", "balance -U loads small", "place -t data", "squeeze doc",
    "compress doc", "redistribute doc", "doc.gz", "-t data small",
)  # fmt: skip
"""Command lines that read a file of more than 3000 bytes, expanded."""


@pytest.mark.parametrize("words", ANSWERS)
def test_max_input_limits_every_source(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file larger than --max-input is rejected, with the file and the option in one line."""
    raw = as_bytes(allocate(cluster(99)))
    contents = {
        "doc": raw, "doc.gz": gzip.compress(raw), "data": b"x" * 3001, "loads": b"x" * 3001,
        "small": as_bytes(allocate(cluster(1))),
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert main([*words.split(), "--max-input=3000"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("more than 3000 bytes, the most that is read (--max-input)\n")


def test_max_input_limits_replayed_cases(tmp_path: Path) -> None:
    """--max-input applies to each replayed case; other cases run."""
    (tmp_path / "a.request.json").write_bytes(as_bytes(allocate(cluster(99))))
    (tmp_path / "b.request.json").write_bytes(as_bytes(allocate(cluster(99))))
    (tmp_path / "b.args").write_text("balance --json")
    (tmp_path / "b.response.json").write_text("{}")
    assert (
        printed("replay", "--max-input=1k", str(tmp_path), status=1).count("more than 1024 bytes")
        == 2
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("7k", 7168),
        ("64M", 2**26),
        ("2g", 2**31),
        ("1t", 2**40),
        ("1.5GiB", 3 * 2**29),
        ("1gb", 2**30),
    ],
)
def test_max_input_accepts_sizes_with_units(text: str, size: int) -> None:
    """--max-input accepts bytes, and sizes with a unit."""
    assert byte_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "g", "-1", "1.5", "1gi", "9" * 400, "١"])
def test_max_input_of_another_form_is_rejected(text: str) -> None:
    """An invalid --max-input is rejected with the expected form."""
    with pytest.raises(ValueError, match="a size such as"):
        byte_size(text)
