"""Test `replay` as an administrator or a CI system starts it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import command
from tests.builders import allocate, as_bytes, cluster, instance
from tests.paths import ROOT

Done = subprocess.CompletedProcess[str]


def replay(*words: str | Path, **environment: str) -> Done:
    """Run `replay`; assert that stderr is empty unless the status is 2."""
    arguments = ["replay", *map(str, words)]
    if environment:
        variables = {**os.environ, **environment}
        done = command.run_process(*arguments, cwd=ROOT, env=variables)
    else:
        done = command.run(*arguments)
    coding = environment.get("PYTHONIOENCODING", "utf-8")
    out, err = done.stdout.decode(coding), done.stderr.decode(coding)
    assert bool(err) == (done.returncode == 2), err
    return Done(done.args, done.returncode, out, err)


def request(**members: Any) -> bytes:
    """Return a request to which the answer is node3."""
    document = cluster(instances={"a": instance("node1"), "b": instance("node2")})
    return as_bytes(allocate(document, disk_template="plain", **members))


def store(folder: Path, raw: bytes | None = None, args: str = "", response: Any = None) -> Path:
    """Store a case in `folder` and return its path.

    Without `response`, the present response is stored.
    """
    folder.mkdir(parents=True)
    (folder / "request.json").write_bytes(request() if raw is None else raw)
    if args:
        (folder / "args").write_text(args)
    if response is None:
        replay("--update", folder)
    else:
        (folder / "response.json").write_text(json.dumps(response))
    return folder


def change(case: Path, **members: Any) -> None:
    """Change members of the stored response of `case`."""
    path = case / "response.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | members))


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """Return the folder of a stored case that `replay` passes."""
    return store(tmp_path / "cases" / "plain")


def test_replay_of_fixtures_passes() -> None:
    """`replay` passes cases in ``fixtures``, with one process and with several."""
    some = "fixtures/balance", "fixtures/relocate"
    one, two = replay(*some), replay(*some, "-j", "2")
    assert one.returncode == 0
    assert one.stdout.splitlines()[-1].endswith(" passed, 0 failed")
    assert two.stdout == one.stdout


def test_replay_of_an_equal_answer_is_ok(case: Path) -> None:
    """`replay` passes a case with an unchanged answer."""
    done = replay(case.parent)
    assert done.stdout == f"ok                  {case}\n1 passed, 0 failed\n"
    assert done.returncode == 0


def test_replay_of_a_different_answer_shows_path_and_both_values(case: Path) -> None:
    """`replay` reports each difference with path and both values; the exit status is 1."""
    change(case, result=["node1"], success=False, surplus=[1])
    done = replay(case)
    assert done.stdout.splitlines() == [
        f"DIFFERS             {case}",
        "    success: false → true",
        '    result/0: "node1" → "node3"',
        "    surplus: [1] → (absent)",
        "0 passed, 1 failed",
    ]
    assert done.returncode == 1


@pytest.mark.parametrize(("shift", "status"), [(4e-10, 0), (1e-8, 1)])
def test_replay_compares_scores_to_eight_decimals(case: Path, shift: float, status: int) -> None:
    """`replay` ignores differences of scores beyond the eighth decimal."""
    stored = json.loads((case / "response.json").read_text())
    stored["solutions"][0]["score"] += shift
    change(case, solutions=stored["solutions"])
    assert replay(case).returncode == status


def test_replay_without_stored_response_fails(case: Path) -> None:
    """`replay` fails a case without a stored response."""
    (case / "response.json").unlink()
    done = replay(case)
    assert done.stdout.startswith(f"no stored response  {case}\n")
    assert done.returncode == 1


def test_replay_of_unusable_response_fails(case: Path) -> None:
    """`replay` fails a case with a stored response that is not JSON."""
    (case / "response.json").write_text("{")
    done = replay(case)
    assert done.stdout.startswith(f"error               {case}\n    {case}/response.json: ")
    assert done.returncode == 1


def test_replay_with_update_stores_answers_and_reports_changes(case: Path) -> None:
    """`replay --update` stores a changed answer; a second update changes nothing."""
    change(case, result=["node1"])
    done = replay("--update", case)
    assert done.stdout.splitlines() == [
        f"updated             {case}",
        '    result/0: "node1" → "node3"',
        "1 passed, 0 failed (1 updated)",
    ]
    assert done.returncode == 0
    stored = (case / "response.json").read_bytes()
    assert replay("--update", case).stdout.startswith("ok ")
    assert (case / "response.json").read_bytes() == stored
    assert replay(case).returncode == 0


def test_replay_with_update_repairs_layout(case: Path) -> None:
    """`replay --update` stores all responses in one layout."""
    stored = (case / "response.json").read_bytes()
    change(case)
    assert replay(case).returncode == 0
    assert "only its layout" in replay("--update", case).stdout
    assert (case / "response.json").read_bytes() == stored


def test_replay_of_an_invalid_request_expects_its_error(tmp_path: Path) -> None:
    """`replay` compares the error of an invalid request with the stored error."""
    case = store(tmp_path / "broken", b"[]")
    stored = json.loads((case / "response.json").read_text())
    assert stored == {"error": "expected a JSON object, got an array"}
    assert replay(case).returncode == 0
    change(case, error="something else")
    assert replay(case, "--keys", "success").returncode == 1


def test_replay_gives_request_its_own_options(tmp_path: Path) -> None:
    """`replay` reads options of a request from a file beside it."""
    args = "# not where it would go\n--restrict-allocation-to 'node1'\n--top=2\n"
    case = store(tmp_path / "restricted", args=args)
    stored = json.loads((case / "response.json").read_text())
    assert stored["result"] == ["node1"]
    assert "placements" in stored["solutions"][0]


@pytest.mark.parametrize("args", ["--nonsense", "--top='1"])
def test_replay_of_unusable_options_is_an_error(tmp_path: Path, args: str) -> None:
    """`replay` fails a case with unreadable options, and runs the others."""
    store(tmp_path / "a-broken", args=args, response={})
    store(tmp_path / "b-sound")
    done = replay(tmp_path)
    assert done.stdout.startswith(f"error               {tmp_path / 'a-broken'}\n")
    assert done.stdout.endswith(f"ok                  {tmp_path / 'b-sound'}\n1 passed, 1 failed\n")
    assert done.returncode == 1


def test_replay_passes_options_of_the_command_on(case: Path) -> None:
    """`replay` applies an option of its command line to every request."""
    done = replay(case, "--restrict-allocation-to", "node1,node2")
    assert 'result/0: "node3" → "node1"' in done.stdout
    assert done.returncode == 1


def test_replay_with_keys_compares_only_those_keys(tmp_path: Path) -> None:
    """`replay --keys` compares only the named keys."""
    (tmp_path / "120000-allocate.abcd.request.json").write_bytes(request())
    answered = {"success": True, "info": "in other words", "result": ["node3"]}
    (tmp_path / "120000-allocate.abcd.response.json").write_text(json.dumps(answered))
    assert replay(tmp_path).returncode == 1
    done = replay(tmp_path, "--keys", "success,result")
    assert done.stdout.startswith(f"ok                  {tmp_path}/120000-allocate.abcd\n")
    assert done.returncode == 0


def test_replay_of_named_files_takes_any_name(tmp_path: Path) -> None:
    """`replay` runs a named file as a request, whatever its name."""
    (tmp_path / "one.json").write_bytes(request())
    replay("--update", tmp_path / "one.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "one.response.json"]
    done = replay(*sorted(tmp_path.iterdir()), tmp_path / "one.json")
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed"


def test_replay_with_processes_keeps_the_order(tmp_path: Path) -> None:
    """`replay` with several processes prints results in the order of the cases."""
    for name in "edcba":
        store(tmp_path / name, response={"success": name})
    one, three = replay(tmp_path), replay(tmp_path, "-j3")
    assert one.stdout.count("DIFFERS") == 5
    assert (three.stdout, three.returncode) == (one.stdout, 1)


def test_replay_with_junit_writes_each_result(case: Path, tmp_path: Path) -> None:
    """`replay --junit` writes every case with its differences, and the counts."""
    other = store(case.parent / "other", response={"success": "\x00 no"})
    store(case.parent / "unusable", args="--nonsense", response={})
    report = tmp_path / "junit.xml"
    assert replay(case.parent, "--junit", report).returncode == 1
    suite = ElementTree.parse(report).getroot()[0]
    numbers = {key: suite.get(key) for key in ("tests", "failures", "errors")}
    assert numbers == {"tests": "3", "failures": "1", "errors": "1"}
    by_name = {found.get("name"): found for found in suite}
    assert list(by_name) == ["other", "plain", "unusable"]
    failure = by_name["other"].find("failure")
    assert failure is not None
    assert 'success: "\\u0000 no" → true' in (failure.text or "")
    assert by_name["plain"].find("*") is None
    assert by_name["unusable"].find("error") is not None
    assert by_name["other"].get("classname") == str(other.parent)


def test_replay_on_a_plain_terminal_still_prints(case: Path) -> None:
    """If the terminal cannot print the arrow between two values, `replay` prints ``?`` instead."""
    change(case, success=False)
    done = replay(case, PYTHONIOENCODING="ascii")
    assert "success: false ? true" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "replay needs requests or commands"),
        (("nowhere.json",), "nowhere.json: No such file or directory"),
        (("schemas",), "schemas: no request.json or *.request.json in it, nor"),
        (("fixtures", "--keys", "sucess"), "--keys: expected some of success,info"),
        (("fixtures", "--keys=info", "--update"), "--update stores whole responses"),
        (("fixtures", "-j", "0"), "-j: expected a whole number from 1 to 1024"),
    ],
)
def test_replay_of_invalid_arguments_has_the_reason(words: tuple[str, ...], complaint: str) -> None:
    """`replay` rejects invalid arguments in one line, with exit status 2, and runs no case."""
    done = replay(*words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


TEXT = """\
default|uuid-default|preferred||

node1|16384|512|14336|409600|307200|16|N|uuid-default|2||Y|0|1|1.0
node2|16384|512|15872|409600|358400|16|N|uuid-default|2||N|0|1|1.0

web|1024|51200|1|running|Y|node1||rbd||1|-|N
db|1024|51200|1|running|Y|node1||rbd||1|-|N


|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,rbd|4.0|32.0
"""


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """Return the folder of a stored command on a cluster in text form."""
    case = tmp_path / "planned"
    case.mkdir()
    (case / "cluster.data").write_text(TEXT)
    (case / "args").write_text("balance --json\n")
    assert replay("--update", case).stdout.startswith("written ")
    return case


def test_replay_of_command_compares_its_json(planned: Path) -> None:
    """If ``args`` begins with a command, `replay` compares its JSON output by path."""
    assert sorted(p.name for p in planned.iterdir()) == ["args", "cluster.data", "response.json"]
    done = replay(planned.parent)
    assert done.stdout == f"ok                  {planned}\n1 passed, 0 failed\n"
    change(planned, job_sets=[])
    done = replay(planned)
    assert done.stdout.splitlines()[1] == "    job_sets/0: (absent) → [0]"
    assert done.returncode == 1
    assert replay(planned, "--keys", "moves,scores").returncode == 0
    assert "none of success is in it" in replay(planned, "--keys", "success").stdout


def test_replay_of_command_runs_in_the_folder_of_its_case(planned: Path) -> None:
    """`replay` runs a stored command in the folder of its case."""
    (planned / "loads").write_text("web 1 1 1 1\ndb 4 4 4 4\n")
    (planned / "args").write_text("balance --json -U loads --offline=node1\n")
    done = replay("--update", planned, "-j", "2")
    assert done.stdout.startswith("updated ")
    moves = json.loads((planned / "response.json").read_text())["moves"]
    assert [move["to"] for move in moves] == [["node2"], ["node2"]]


def test_replay_of_command_without_json_compares_its_text(planned: Path) -> None:
    """`replay` stores the text of a command without JSON as ``stdout``."""
    (planned / "args").write_text("balance -C")
    done = replay("--update", planned)
    assert "(absent)" not in done.stdout
    assert not (planned / "response.json").exists()
    text = (planned / "stdout").read_text()
    assert "gnt-instance migrate" in text
    assert replay(planned).returncode == 0
    (planned / "stdout").write_text(text.replace("migrate", "move"))
    assert replay(planned).stdout.splitlines()[1].startswith("    stdout: ")
    (planned / "stdout").unlink()
    assert replay(planned).stdout.startswith("no stored response")


def test_replay_of_command_stores_its_error_and_exit_status(planned: Path) -> None:
    """`replay` stores the error and the exit status of a failing command."""
    (planned / "args").write_text("balance --json --offline nowhere")
    replay("--update", planned)
    stored = json.loads((planned / "response.json").read_text())
    assert stored == {"error": "--offline: unknown node nowhere"}
    assert (planned / "status").read_text() == "2\n"
    assert replay(planned).returncode == 0
    (planned / "status").unlink()
    assert replay(planned).stdout.splitlines()[1] == '    status: "" → "2\\n"'


def test_replay_of_command_needs_no_file(tmp_path: Path) -> None:
    """`replay` runs a stored command on a simulated cluster without a file.

    ``args`` that do not begin with a command are an error.
    """
    for name, args in (("a", "balance --json --simulate p,3,100G,16g,4,2"), ("b", "--top=2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "args").write_text(args)
    done = replay("--update", tmp_path)
    assert done.stdout.startswith(f"written             {tmp_path / 'a'}\nerror ")
    assert "expected a command as its first word" in done.stdout
    assert done.returncode == 1
