"""Test the list of captured calls, and their explanations and replays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import allocate, allocate_rbd, as_bytes, cluster, rbd

BUSY = cluster(3, instances={"old": rbd("node1")})


class Desk:
    """A folder with captured calls."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        self.calls = folder / "calls"
        self.calls.mkdir()
        self._folder = folder
        self._capsys = capsys

    def capture(self, document: dict[str, Any], *words: str) -> dict[str, Any]:
        """Let the plugin answer `document` with --capture, and return the answer."""
        path = self._folder / "request.json"
        path.write_bytes(as_bytes(document))
        answer = self.output_of(f"--capture={self.calls}", *words, str(path))[1]
        return json.loads(answer) if answer else {}

    def output_of(self, *words: str) -> tuple[int, str, str]:
        """Return the exit status, stdout and stderr of a command."""
        status = main(list(words))
        streams = self._capsys.readouterr()
        return status, streams.out, streams.err

    def history(self, *words: str) -> list[dict[str, Any]]:
        """Return the calls that `history --json` lists."""
        status, out, _ = self.output_of("history", "--json", str(self.calls), *words)
        assert status == 0
        calls: list[dict[str, Any]] = json.loads(out)["calls"]
        return calls


@pytest.fixture
def desk(tmp_path: Path, capsys: Capture) -> Desk:
    """Return a desk with four calls: successful, failed, in error, and killed."""
    desk = Desk(tmp_path, capsys)
    desk.capture(allocate_rbd(BUSY, "web"), "--top=2")
    desk.capture(allocate_rbd(BUSY, "huge", memory=10**6))
    desk.capture({**BUSY, "request": {"type": "guess"}})
    leave = {"type": "node-evacuate", "instances": ["old"], "evac_mode": "all"}
    desk.capture({**BUSY, "request": leave})
    for kind in ("response.json.gz", "call.json"):
        (desk.calls / f"000004.{kind}").unlink()
    return desk


def test_history_lists_every_call_with_its_outcome(desk: Desk) -> None:
    """`history` lists every call with its result, the oldest first, also killed ones."""
    status, out, err = desk.output_of("history", str(desk.calls))
    assert (status, err) == (0, "")
    rows = [line.split("  ") for line in out.splitlines()]
    assert [row for row in rows[0] if row][:2] == ["call", "time"]
    numbers = [row[1].strip() for row in rows[1:] if row[1].strip()]
    assert numbers == ["1", "2", "3", "4"]
    found = desk.history()
    assert [call["number"] for call in found] == [1, 2, 3, 4]
    assert [call["outcome"] for call in found] == ["success", "failed", "error", "no answer"]
    assert [call.get("request_type") for call in found] == [
        "allocate",
        "allocate",
        None,
        "node-evacuate",
    ]
    assert found[3]["asked"] == "old; all"
    assert all(call["seconds"] > 0 for call in found[:3])
    assert found[0]["request"] == str(desk.calls / "000001.request.json.gz")


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (("--type=allocate",), [1, 2]),
        (("--outcome=no answer",), [4]),
        (("--text=huge",), [2]),
        (("--text=expected one of",), [3]),
        (("--last=2",), [3, 4]),
        (("--last=1", "--type=allocate"), [2]),
        (("--days=1",), [1, 2, 3, 4]),
        (("--days=0",), []),
    ],
)
def test_history_filters_calls(words: tuple[str, ...], numbers: list[int], desk: Desk) -> None:
    """The filters of `history` can be combined; the limit keeps the last calls."""
    assert [call["number"] for call in desk.history(*words)] == numbers


def test_history_lists_damaged_calls(desk: Desk) -> None:
    """`history` lists a call with a damaged file, and leaves out its damaged facts."""
    (desk.calls / "000001.call.json").write_text("[3]")
    damaged = '{"time": "x", "seconds": [], "type": {}, "remarks": [1], "error": "no", "pid": 4}'
    (desk.calls / "000002.call.json").write_text(damaged)
    (desk.calls / "000004.request.json.gz").write_bytes(b"\x1f\x8bhalf")
    (desk.calls / "7.request.json.gz").write_text("{}")
    assert [call["outcome"] for call in desk.history()] == [
        "no answer", "error", "error", "no answer",
    ]  # fmt: skip
    second = desk.history()[1]
    assert (second["error"], second["pid"]) == ("no", 4)
    assert not second.keys() & {"seconds", "request_type", "remarks"}
    assert desk.output_of("history", str(desk.calls))[0] == 0


def test_history_without_a_folder_is_rejected(desk: Desk) -> None:
    """`history` without exactly one existing folder is rejected in one line."""
    for words in (("history",), ("history", "a", "b"), ("history", str(desk.calls / "none"))):
        status, out, err = desk.output_of(*words)
        assert (status, out, err.count("\n")) == (2, "", 1)


def test_call_is_explained_with_the_settings_that_it_had(desk: Desk, tmp_path: Path) -> None:
    """`explain CALL` uses the options and the configuration that the call had."""
    file = tmp_path / "conf"
    file.write_text('top = 3\nstrategy = "pacemaker-minimal"\n')
    then = desk.capture(allocate_rbd(BUSY, "app"), "--top=2", f"--config={file}")
    file.write_text('top = 1\nn1 = "strict"\n[explain]\njson = true\n')
    status, out, _ = desk.output_of("explain", f"{desk.calls}#5", f"--config={file}")
    assert status == 0
    reported = json.loads(out)
    assert reported["response"] == then
    kept = reported["request_settings"]["strategy"], reported["request_settings"]["n1"]
    assert kept == ("pacemaker-minimal", "no-worse")
    other = json.loads(desk.output_of("explain", "--json", "--top=1", f"-I{desk.calls}#5")[1])
    assert "placements" not in other["response"]["solutions"][0]
    assert desk.output_of("replay", f"{desk.calls}#5", f"--config={file}")[0] == 0


def test_explanation_reports_that_the_recorded_answer_was_different(desk: Desk) -> None:
    """`explain CALL` reports that the stored answer differs, or that none is stored."""
    call = f"{desk.calls}#1"
    assert "answer then" not in desk.output_of("explain", call)[1]
    node = desk.capture(allocate_rbd(BUSY, "web"))["result"][0]
    other = "node3" if node == "node2" else "node2"
    words = ("explain", "--json", call, f"--restrict-allocation-to={other}")
    changed = json.loads(desk.output_of(*words)[1])["remarks"]
    assert changed == [
        f"The answer then was another: iallocator replay '{call}' shows how it differs."
    ]
    assert "not answered then" in desk.output_of("explain", f"{desk.calls}#4")[1]


def test_calls_are_replayed_by_number_and_all_together(desk: Desk) -> None:
    """`replay` runs captured calls by number or all together, also those with errors.

    For a call without an answer, nothing is compared.
    """
    status, out, _ = desk.output_of("replay", f"{desk.calls}#1", f"{desk.calls}#3")
    assert (status, out.splitlines()[-1]) == (0, "2 passed, 0 failed")
    assert f"ok                  {desk.calls}#1" in out
    status, out, _ = desk.output_of("replay", str(desk.calls))
    assert (status, out.splitlines()[-1]) == (1, "3 passed, 1 failed")
    assert f"no stored response  {desk.calls}#4" in out
    assert desk.output_of("replay", "--compat=hail", f"{desk.calls}#1")[0] == 1


def test_captured_calls_are_not_updated(desk: Desk) -> None:
    """`replay --update` rejects captured calls, as they are records."""
    before = (desk.calls / "000001.response.json.gz").read_bytes()
    status, out, _ = desk.output_of("replay", "--update", "--n1=strict", f"{desk.calls}#1")
    assert status == 1
    assert "--update does not change captured calls" in out
    assert (desk.calls / "000001.response.json.gz").read_bytes() == before


def test_number_without_a_call_is_rejected(desk: Desk) -> None:
    """A number without a call is rejected; the error names the command that lists numbers."""
    for command in ("explain", "replay"):
        status, _, err = desk.output_of(command, f"{desk.calls}#77")
        assert status == 2
        why = f"no such call; iallocator history {desk.calls} lists them"
        assert err == f"iallocator: {desk.calls}#77: {why}\n"


def test_planners_take_the_cluster_of_a_call(desk: Desk) -> None:
    """A planner accepts a captured call as its cluster: ``balance FOLDER#1``."""
    status, _, err = desk.output_of("balance", "-v", f"{desk.calls}#1")
    assert status == 0
    assert err.startswith("read 1 group, 3 nodes")


def test_options_with_blanks_and_quotes_are_replayed(desk: Desk) -> None:
    """`replay` runs a captured call with options that contain blanks and quotes."""
    document = {**BUSY, "cluster_tags": ["it's a #tag:strategy:pacemaker-minimal"]}
    desk.capture(allocate_rbd(document, "app"), "--tag-prefix", "it's a #tag:")
    assert desk.output_of("replay", f"{desk.calls}#5")[0] == 0
    reported = json.loads(desk.output_of("explain", "--json", f"{desk.calls}#5")[1])
    assert reported["request_settings"]["strategy"] == "pacemaker-minimal"


def test_entry_that_is_not_a_file_is_ignored(desk: Desk) -> None:
    """`history` ignores entries that are no files, such as pipes and folders."""
    for name in ("000002.call.json", "000001.response.json.gz"):
        (desk.calls / name).unlink()
        os.mkfifo(desk.calls / name)
    os.mkfifo(desk.calls / "000008.request.json.gz")
    (desk.calls / "000009.request.json.gz").mkdir()
    (desk.calls / f"{'9' * 30}.request.json.gz").touch()
    assert [call["number"] for call in desk.history()] == [1, 2, 3, 4]
    assert desk.output_of("explain", f"{desk.calls}#1")[0] == 0
    assert desk.output_of("replay", f"{desk.calls}#1")[0] == 1
    assert desk.output_of("explain", f"{desk.calls}#8")[0] == 2
    assert "not captured" not in desk.capture(allocate(BUSY, "new"), "--capture-keep=1")["info"]
    assert (desk.calls / "000010.response.json.gz").is_file()
    assert (desk.calls / "000009.request.json.gz").is_dir()


@pytest.mark.parametrize("words", [(), ("--json",), ("--last=3",)], ids=str)
def test_history_of_a_folder_without_calls_fails(
    words: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """`history` of a folder without calls ends with an error: it is probably the wrong folder."""
    (tmp_path / "notes.txt").write_text("no call")
    assert main(["history", *words, str(tmp_path)]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err == (
        f"iallocator: {tmp_path}: no captured calls; --capture FOLDER keeps them\n"
    )


def test_history_where_no_call_matches_shows_no_header(desk: Desk) -> None:
    """If no call matches, `history` prints no header, and the number of calls on stderr."""
    status, out, err = desk.output_of("history", "--text=nowhere", str(desk.calls))
    assert (status, out, err) == (0, "", "none of 4 captured calls matches\n")
    assert desk.history("--text=nowhere") == []


@pytest.mark.parametrize("digits", ["9" * 18, "9" * 19, "1" + "0" * 18, "0" * 18 + "9"])
@pytest.mark.parametrize("kind", ["args", "request.json.gz"])
def test_file_with_a_long_number_hides_no_later_call(
    digits: str, kind: str, tmp_path: Path, capsys: Capture
) -> None:
    """A file with a very long number does not hide later calls in `history`."""
    desk = Desk(tmp_path, capsys)
    desk.capture(allocate_rbd(BUSY, "first"))
    (desk.calls / f"{digits}.{kind}").touch()
    for name in ("second", "third"):
        desk.capture(allocate_rbd(BUSY, name))
    listed = [call["asked"] for call in desk.history() if "asked" in call]
    assert [text.split()[0].rstrip(":") for text in listed] == ["first", "second", "third"]
    assert [call["number"] for call in desk.history()][:3] == [1, 2, 3]
