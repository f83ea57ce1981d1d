"""Test invalid command lines and broken streams: one line, the status, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.command import COMMAND, ENVIRONMENT, complaint, run, run_process
from tests.patience import PATIENCE

from .corpus import DAMAGES, as_raw, base
from .rejections import good


@pytest.mark.parametrize("arguments", [(), ("--validate",), ("--help",), ("--version",)])
def test_command_without_a_reader_of_stdout_is_reported(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """If the reader of stdout has ended, as with `| head -c0`, that is reported."""
    request = tmp_path / "request.json"
    request.write_bytes(good())
    reader, writer = os.pipe()
    os.close(reader)
    done = run_process(str(request), *arguments, stdout=writer)
    os.close(writer)
    assert complaint(done, status=1) == "standard output: Broken pipe"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux")
@pytest.mark.parametrize("arguments", [(), ("--validate",), ("--help",)])
def test_command_with_full_stdout_reports_it(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """If the answer cannot be written to stdout, that is reported by message and status."""
    request = tmp_path / "request.json"
    request.write_bytes(good())
    with open("/dev/full", "wb") as full:
        done = run_process(str(request), *arguments, stdout=full)
    assert complaint(done, status=1) == "standard output: No space left on device"


@pytest.mark.parametrize(
    ("redirection", "raw", "status", "line"),
    [
        (">&-", good(), 1, b"iallocator: standard output is closed\n"),
        ("<&-", good(), 2, b"iallocator: standard input is closed\n"),
        ("2>&-", b"{}", 2, b""),
    ],
)
def test_command_with_a_closed_stream_reports_it(
    redirection: str, raw: bytes, status: int, line: bytes
) -> None:
    """A stream that is closed from the start causes no traceback."""
    shell = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND]
    done = subprocess.run(
        shell, env=ENVIRONMENT, input=raw, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", line)


def test_command_stdin_is_read_with_dash_and_without(tmp_path: Path) -> None:
    """A file, ``-`` and no argument give equal answers."""
    request = tmp_path / "request.json"
    request.write_bytes(good())
    answers = {
        run_process(*arguments, stdin=good()).stdout for arguments in [(), ("-",), (str(request),)]
    }
    assert len(answers) == 1
    assert json.loads(answers.pop())["success"] is True


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--guess"], "unknown option --guess; iallocator help --all lists them"),
        (["--guess=2"], "unknown option --guess; iallocator help --all lists them"),
        (["-x"], "unknown option -x; iallocator help --all lists them"),
        (["--gu\ness"], r"unknown option --gu\ness; iallocator help --all lists them"),
        (["--validate=maybe"],
         "--validate is a flag: yes (as without a value) or no, got 'maybe'"),
        (["--top"], "--top needs a value: N"),
        (["--top", "many"], f"--top: expected a whole number from 1 to {2**53}, got 'many'"),
        (["--top=-1"], f"--top: expected a whole number from 1 to {2**53}, got '-1'"),
        ([f"--top={2**53 + 1}"],
         f"--top: expected a whole number from 1 to {2**53}, got '{2**53 + 1}'"),
        (["--msav-steps=100000000"],
         "--msav-steps: expected a whole number from 1 to 10000, got '100000000'"),
        (["--initial-msav=1e308"],
         f"--initial-msav: expected a number from -{2**53} to {2**53}, got '1e308'"),
        (["--n1=sometimes"],
         "--n1: expected one of strict, no-worse, no-new, off, got 'sometimes'"),
        (["--restrict-allocation-to=a,,b"],
         "--restrict-allocation-to: expected names with commas between them, got 'a,,b'"),
        (["-", "-"], "one request file at most, got - -"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("after", [False, True])
def test_command_unusable_option_is_named(arguments: list[str], expected: str, after: bool) -> None:
    """An invalid option is named at any position of the command line."""
    ordered = ["-", *arguments] if after else [*arguments, *["-"][: arguments[-1] != "--top"]]
    output = complaint(run(*ordered, stdin=good()))
    assert output.startswith(expected)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--top=2", "--ignore-soft-errors", "FILE"),
        ("FILE", "--top=2", "--ignore-soft-errors"),
        ("--top", "2", "FILE", "--ignore-soft-errors="),
        ("--ignore-soft-errors=", "FILE", "--top", "2"),
        ("--ignore-soft-errors", "--top", "2", "--", "FILE"),
    ],
)
def test_command_options_in_any_place_and_form_are_the_same(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """Options are accepted before and after the file, with ``=`` and without it.

    Flags may have an empty value.
    """
    request = tmp_path / "request.json"
    request.write_bytes(good())
    usual = run(str(request), "--top=2", "--ignore-soft-errors")
    done = run(*(str(request) if word == "FILE" else word for word in arguments))
    assert (done.returncode, done.stdout, done.stderr) == (0, usual.stdout, b"")


def test_validate_of_a_valid_document_reports_it(tmp_path: Path) -> None:
    """--validate reports a valid document as valid, and does not answer it."""
    request = tmp_path / "a\nb.json"
    request.write_bytes(good())
    done = run("--validate", str(request))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"{tmp_path}/a\\nb.json: valid\n"


def test_validate_of_an_invalid_document_lists_every_problem() -> None:
    """--validate lists every problem of a document in sorted lines."""
    changed = base("modern", "allocate")
    for damage in ("node-name-with-newline", "plain-on-two", "unknown-type"):
        DAMAGES[damage](changed)
    done = run("--validate", "-", stdin=as_raw(changed))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == [
        "iallocator: instances/plain/nodes: expected one node, got 2",
        r'iallocator: instances/web/nodes/0: expected a node of the document, got "a\nb"',
        r"iallocator: instances/web/nodes/1: expected a node of the document, "
        r'got "\x00\u2028\xe9"',
        'iallocator: request/type: expected one of "allocate", "multi-allocate", '
        '"allocate-secondary", "relocate", "node-evacuate", "change-group", "multi-evacuate", '
        r'got "re\nlocate"',
    ]


def test_command_number_with_thousands_of_digits_is_one_short_line() -> None:
    """An option with a number of thousands of digits is reported in one short line."""
    done = run(f"--top={'9' * 5000}", stdin=good())
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"iallocator: --top: expected a whole number from 1 to")
    assert len(done.stderr) < 1100
    assert run(f"--top={'0' * 5000}2", stdin=good()).returncode == 0
    assert run(f"--msav-steps={'0' * 50}20000", stdin=good()).returncode == 2
