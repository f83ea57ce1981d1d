"""Test invalid documents with the program: one line, exit status 2, no traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import allocate, cluster, instance
from tests.command import complaint, run, run_process

from .corpus import as_raw, base
from .rejections import good, rejection

LARGE = 500_000
"""Bytes of padding with which the parser for large documents reads the document."""


@pytest.mark.parametrize("padding", [0, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (("instances", "web", "nodes", 0, "lost"),
         'instances/web/nodes/0: expected a node of the document, got "lost"'),
        (("nodes", "node1", "group", "lost"),
         'nodes/node1/group: expected the uuid of a group in nodegroups, got "lost"'),
        (("instances", "web", "nodes", 1, "node1"),
         'instances/web/nodes/1: expected different nodes, got "node1" again'),
        (("nodes", "node1", "free_memory", "12G"),
         'nodes/node1/free_memory: expected an integer, got "12G"'),
        (("nodes", "node1", "free_memory", -5),
         "nodes/node1/free_memory: expected an integer from 0 to 9007199254740992, got -5"),
        (("request", "memory", 2**53 + 1),
         "request/memory: expected an integer from 0 to 9007199254740992, got 9007199254740993"),
        (("request", "memory", 0.5),
         "request/memory: expected an integer from 0 to 9007199254740992, got 0.5"),
        (("request", "type", "guess"),
         'request/type: expected one of "allocate", "multi-allocate", "allocate-secondary", '
         '"relocate", "node-evacuate", "change-group", "multi-evacuate", got "guess"'),
        (("request", "restrict-to-nodes", 0, "lost"),
         'request/restrict-to-nodes/0: expected a node of the document, got "lost"'),
        (("request", "required_nodes", 1), "request/required_nodes: expected 2 for drbd, got 1"),
    ],
)  # fmt: skip
def test_command_damaged_value_is_named(
    damage: tuple[Any, ...], expected: str, padding: int
) -> None:
    """The error about a damaged value has path, expected and found value, by both parsers."""
    *path, last, value = damage
    changed = base("modern", "allocate") | {"padding": "x" * padding}
    holder: Any = changed
    for key in path:
        holder = holder[key]
    holder[last] = value
    assert rejection(as_raw(changed)) == expected


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("padding", [0, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b'{"a": NaN}', "invalid JSON: ", id="nan"),
        pytest.param(b'{"a": -Infinity}', "invalid JSON: ", id="infinity"),
        pytest.param(b'{"a": ', "invalid JSON: ", id="cut-off"),
        pytest.param(b"{} {}", "invalid JSON: ", id="two-documents"),
        pytest.param(b'{"a\n": 1}', "invalid JSON: ", id="control-character"),
        pytest.param(b'{"a": "\\ud800"}', "invalid JSON: ", id="lone-surrogate"),
        pytest.param(b'{"\\uDC00": 1}', "invalid JSON: ", id="lone-surrogate-in-a-key"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', "not UTF-8 (byte ", id="encoded-surrogate"),
        pytest.param(b'{"a": "\xff"}', "not UTF-8 (byte ", id="invalid-utf-8"),
        pytest.param("{}".encode("utf-16"), "not UTF-8 (byte ", id="utf-16"),
        pytest.param(NESTED, "nested too deeply", id="nested"),
        pytest.param(b'{"a":' + NESTED + b"}", "nested too deeply", id="nested-inside"),
        pytest.param(b"[1]", "expected a JSON object, got an array", id="array"),
        pytest.param(b'"x"', 'expected a JSON object, got "x"', id="string"),
        pytest.param(b"null", "expected a JSON object, got null", id="null"),
        pytest.param(b"", "standard input: expected a JSON document, got nothing; ", id="nothing"),
        pytest.param(b"\n \n", "standard input: expected a JSON document, got ", id="blank"),
        pytest.param(b"{}", "nodes: expected an object, but it is missing", id="empty-object"),
    ],
)
def test_command_rejects_a_file_that_is_not_a_document(
    raw: bytes, expected: str, padding: int
) -> None:
    """Input that is not a JSON object is rejected by both parsers and by --validate."""
    output = rejection(raw + b" " * padding)
    assert output.startswith(expected)
    done = run("--validate", stdin=raw + b" " * padding)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"iallocator: {output}\n" in done.stderr.decode()


def test_command_number_beyond_all_floats_is_rejected() -> None:
    """A number beyond the range of floats is rejected."""
    raw = good().replace(b'"memory": 1024', b'"memory": 1e999')
    assert rejection(raw).endswith("expected an integer from 0 to 9007199254740992, got inf")


def test_command_number_with_thousands_of_digits_is_rejected() -> None:
    """A number with thousands of digits is rejected."""
    raw = good().replace(b'"memory": 1024', b'"memory": 1' + b"0" * 100_000)
    assert len(rejection(raw)) < 200


@pytest.mark.parametrize("name", ["a\nb", "a\rb\x1b[31m\x00", "\u2028\u202e", "é", "x" * 100_000])
@pytest.mark.parametrize("place", ["key", "value"])
def test_command_odd_names_stay_on_one_line(name: str, place: str) -> None:
    """Control characters and long names in errors cannot break a line or control the terminal."""
    changed = base("modern", "allocate")
    if place == "key":
        changed["nodes"][name] = {"group": 5}
    else:
        changed["instances"]["web"]["nodes"][0] = name
    output = rejection(as_raw(changed))
    assert "expected a" in output
    assert output.isprintable()
    assert len(output) < 1100


def large(instances: int, damaged: bool = False) -> bytes:
    """Return a document of about 300 bytes for each instance, on full nodes."""
    nodes = instances // 20
    there = {
        f"instance{n}": instance(f"node{n % nodes + 1}", f"node{(n + 1) % nodes + 1}", memory=1)
        for n in range(instances)
    }
    if damaged:
        there[f"instance{instances // 2}"]["nodes"][0] = "lost"
    changed = cluster(nodes, instances=None if damaged else there)
    return as_raw(allocate(changed | {"instances": there}, disk_template="plain"))


def test_command_document_of_five_megabytes_is_answered(tmp_path: Path) -> None:
    """A document of five megabytes is answered."""
    request = tmp_path / "request.json"
    request.write_bytes(large(17_000))
    assert request.stat().st_size > 5_000_000
    done = run_process(str(request))
    assert (done.returncode, done.stderr) == (0, b"")
    assert set(json.loads(done.stdout)) >= {"success", "info", "result"}


def test_command_document_of_five_megabytes_damaged_is_rejected() -> None:
    """One damaged value in a document of five megabytes is reported."""
    expected = 'instances/instance8500/nodes/0: expected a node of the document, got "lost"'
    assert rejection(large(17_000, damaged=True)) == expected


def test_command_deeply_nested_unknown_key_is_no_problem() -> None:
    """An unknown member is ignored although it is deeply nested."""
    done = run(stdin=good(unknown=json.loads("[" * 500 + "]" * 500)))
    assert (done.returncode, done.stderr) == (0, b"")


def test_command_empty_file_is_rejected(tmp_path: Path) -> None:
    """An empty file is rejected."""
    (tmp_path / "empty").touch()
    path = tmp_path / "empty"
    assert complaint(run(str(path))) == f"{path}: expected a JSON document, got nothing"


def test_command_directory_is_rejected(tmp_path: Path) -> None:
    """A folder is rejected as a document."""
    assert complaint(run(str(tmp_path))) == f"{tmp_path}: Is a directory"


@pytest.mark.parametrize("name", ["missing", "two\nlines", "", "b\udcff", "n" * 5000])
def test_command_missing_file_is_rejected(name: str, tmp_path: Path) -> None:
    """A file that does not exist is rejected by name."""
    output = complaint(run(str(tmp_path / name) if name else ""))
    assert output.endswith(("No such file or directory", "File name too long"))


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_command_forbidden_file_is_rejected(tmp_path: Path) -> None:
    """A file without read permission is rejected by name."""
    forbidden = tmp_path / "forbidden"
    forbidden.write_bytes(good())
    forbidden.chmod(0)
    assert complaint(run(str(forbidden))) == f"{forbidden}: Permission denied"


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="Linux")
def test_command_unreadable_file_is_rejected() -> None:
    """A file that can be opened but not read is rejected by name."""
    assert complaint(run_process("/proc/self/mem")) == "/proc/self/mem: Input/output error"
