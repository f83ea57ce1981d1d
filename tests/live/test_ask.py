"""Test that `ask` answers and explains requests on a running cluster without changing it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.wire.validation import problems
from tests.aliases import Capture
from tests.builders import Json
from tests.command import printed, run

from .cluster_answers import luxi_answer, rapi_answers, write_answers
from .fakes import fake_luxi

NEW = ("allocate", "--memory", "4G", "--disk", "20G", "--template", "drbd")


def explained(*words: str) -> Json:
    """Return the explanation as a JSON document."""
    done = run("ask", *words, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    found: Json = json.loads(done.stdout)
    return found


def test_ask_allocate_answers_on_every_kind_of_source(tmp_path: Path) -> None:
    """`ask allocate` gives equal nodes and scores for LUXI, RAPI, a text file and a document."""
    answers = rapi_answers()
    address = write_answers(tmp_path / "rapi", answers)
    found = explained(*NEW, "-m", address)
    assert found["response"]["success"]
    assert len(found["response"]["result"]) == 2
    with fake_luxi(tmp_path, lambda method, args: luxi_answer(answers, method, args)) as server:
        source = {"source": f"luxi:{server.path}"}
        assert explained(*NEW, f"-L{server.path}") == found | source
        assert {method for method, _ in server.asked} == {"Query", "QueryClusterInfo"}
    for form, where in (("text", ("-t",)), ("json", ())):
        file = tmp_path / f"cluster.{form}"
        file.write_text(printed("snapshot", "-m", address, "--form", form))
        assert explained(*NEW, *where, str(file))["response"] == found["response"]


def test_ask_allocate_of_several_and_in_a_group(tmp_path: Path) -> None:
    """`ask allocate` with several names sends a batch; `--group` restricts it."""
    address = write_answers(tmp_path / "rapi", rapi_answers())
    found = explained(*NEW, "--count=3", "--name=web", "--group=two", "-m", address)
    placed, failed = found["response"]["result"]
    assert (sorted(name for name, _ in placed), failed) == (["web-1", "web-2", "web-3"], [])
    assert {node for _, nodes in placed for node in nodes} == {
        "node4.example.com", "node5.example.com",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "moved"),
    [
        ("primary-only", {"inst1", "inst2", "inst3", "inst4"}),
        ("secondary-only", set()),
        ("all", {"inst1", "inst2", "inst3", "inst4"}),
    ],
)
def test_ask_evacuate_is_about_instances_on_the_node_in_that_role(
    mode: str, moved: set[str], tmp_path: Path
) -> None:
    """`ask evacuate` concerns the instances on the node in the given role."""
    address = write_answers(tmp_path / "rapi", rapi_answers())
    found = explained("evacuate", "node1", f"--mode={mode}", "-m", address)
    placed, failed, _ = found["response"]["result"]
    assert {name.partition(".")[0] for name, *_ in (*placed, *failed)} == moved
    assert bool(failed) == (mode == "all")  # both nodes of each, and the group has one more
    assert all(nodes[0] != "node1.example.com" for _, _, nodes in placed)


def test_ask_relocate_and_change_group(tmp_path: Path) -> None:
    """`ask relocate` keeps the primary; `ask change-group` accepts group names and uuids."""
    address = write_answers(tmp_path / "rapi", rapi_answers())
    found = explained("relocate", "inst1", "-m", address)
    assert found["response"]["result"] == ["node3.example.com"]
    for target in ("two", "uuid-two"):
        found = explained("change-group", "inst1,inst2", "--to", target, "-m", address)
        placed, failed, _ = found["response"]["result"]
        assert ([group for _, group, _ in placed], failed) == (["two", "two"], [])


def test_ask_explains_in_words_and_accepts_the_options_of_requests(tmp_path: Path) -> None:
    """`ask` explains the answer in words, and accepts the options of requests."""
    address = write_answers(tmp_path / "rapi", rapi_answers())
    assert "node2" in printed("ask", *NEW, "-m", address, "--node", "node2.example.com")
    found = explained(*NEW, "-m", address, "--strategy=pacemaker-balanced")
    assert found["request_settings"]["strategy"] == "pacemaker-balanced"


@pytest.mark.parametrize(
    "words",
    [
        (), ("why",), ("evacuate",), ("evacuate", "node9"), ("evacuate", "node"),
        ("relocate", "inst1,inst2"), ("allocate",), ("allocate", "--memory=x"),
        ("allocate", "--memory=1G", "--template=drbd"), ("evacuate", "node1", "--memory=1G"),
        ("allocate", "--memory=1G", "--template=diskless", "--disk=1G"),
        ("change-group", "inst1", "--to=nowhere"), ("relocate", "inst1", "--mode=all"),
    ],
)  # fmt: skip
def test_invalid_ask_is_reported_in_one_line(
    words: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """An invalid `ask` is reported in one line, with exit status 2."""
    address = write_answers(tmp_path / "rapi", rapi_answers())
    assert main(["ask", *words, "-m", address]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    "question",
    [" ".join(NEW), f"{' '.join(NEW)} --count 2", "evacuate node1", "relocate inst1",
     "change-group inst1 --to two"],
)  # fmt: skip
def test_snapshot_with_a_request_is_a_complete_request(
    question: str, tmp_path: Path, capsys: Capture
) -> None:
    """`snapshot` with a request writes a valid request, which has the answer of `ask`."""
    address = write_answers(tmp_path / "rapi", rapi_answers())
    assert main(["snapshot", "-m", address, "--request", question]) == 0
    file = tmp_path / "request.json"
    file.write_text(capsys.readouterr().out)
    assert problems(file.read_bytes(), "needed") == []
    response = json.loads(printed(str(file)))
    assert response == explained(*question.split(), "-m", address)["response"]
