"""Test `explain` as an administrator starts it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import command
from tests.builders import allocate, allocate_rbd, as_bytes, cluster, instance
from tests.paths import ROOT


def run(request: Any, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `explain` on `request`, which it reads from standard input."""
    raw = request if isinstance(request, bytes) else as_bytes(request)
    done = command.run("explain", *options, stdin=raw)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def lines(request: Any, *options: str) -> list[str]:
    """Return the lines of the explanation, without their indentation."""
    done = run(request, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.strip() for line in done.stdout.splitlines()]


def on_terminal(request: dict[str, Any], path: Path, **environment: str) -> str:
    """Return what `explain` prints on a terminal."""
    path.write_bytes(as_bytes(request))
    master, slave = pty.openpty()
    variables = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    process = subprocess.Popen(
        [*command.COMMAND, "explain", str(path)],
        stdout=slave,
        cwd=ROOT,
        env={**variables, "TERM": "xterm", **environment},
    )
    os.close(slave)
    parts = []
    while chunk := _read(master):
        parts.append(chunk)
    os.close(master)
    assert process.wait() == 0
    return b"".join(parts).decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other side of the terminal is closed
        return b""


def test_explain_possible_request_names_answer_and_runner_up() -> None:
    """`explain` names the answer, its score, and the second best placement."""
    request = allocate(cluster(instances={"a": instance("node1", "node2")}))
    found = lines(request)
    assert found[0] == "allocate new"
    assert "Answer: node3 with node2 as secondary, in group default" in found
    assert "Answer node3/node2 and runner-up node2/node3" in found
    assert found[-2].startswith("Request successful: Selected group: default, Group default")


def test_explain_sorts_statistics_by_their_share_of_the_difference() -> None:
    """`explain` sorts statistics by their share of the difference, and ends with the score."""
    found = lines(allocate(cluster(instances={"a": instance("node1", "node2")})))
    start = next(k for k, line in enumerate(found) if line.startswith("statistic"))
    end = next(k for k, line in enumerate(found) if line.startswith("score "))
    rows = [line for line in found[start + 1 : end] if line[-1].isdigit()]
    amounts = [abs(float(line.split()[-1])) for line in rows]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0] > 0
    assert any(line.startswith("equal in both, shown with -v: ") for line in found[end:])
    assert any(line.startswith("0 everywhere: ") for line in found[end:])


def test_explain_rejected_node_gives_reason_role_and_numbers() -> None:
    """The row of a rejected node in `explain` has the reason, the role, and the numbers."""
    request = allocate(cluster(changes={"node3": {"free_memory": 3120}}), memory=4096)
    found = lines(request)
    assert "FailMem as secondary: could not take over its 4096 MiB memory, 3120 free" in found
    (row,) = [line for line in found if line.startswith("node3 ")]
    assert row.split(maxsplit=2)[1:] == [
        "rejected",
        "FailMem as primary: needs 4096 MiB memory, 3120 free, and 1 MiB must remain",
    ]


def test_explain_impossible_request_ends_with_success() -> None:
    """`explain` of an impossible request names the nearest candidate; the exit status is 0."""
    found = lines(allocate(cluster(memory=1000), memory=4096))
    assert "Answer: no place" in found
    assert (
        "Closest in group default: node1/node2: node1 lacks 3097 MiB memory, "
        "node2 lacks 3097 MiB memory"
    ) in " ".join(found)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"request": {"type": "allocate"}}'])
def test_explain_unusable_document_ends_with_two(raw: bytes) -> None:
    """`explain` reports an invalid document in one line, with exit status 2."""
    done = run(raw)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("iallocator: ")
    assert done.stderr.count("\n") == 1


def test_explain_two_files_end_with_two() -> None:
    """`explain` rejects two request files with exit status 2."""
    assert run(b"", "one", "two").returncode == 2


def test_explain_json_has_the_same_content() -> None:
    """`explain --json` has the response, the placements, the nodes and the comparisons."""
    request = allocate(cluster(nodes={"default": 3, "spare": 2}))
    found = json.loads(run(request, "--json").stdout)
    assert set(found) == {
        "command", "version", "cluster", "source", "time",
        "request_type", "response", "request_settings", "remarks", "decisions",
    }  # fmt: skip
    (decision,) = found["decisions"]
    assert decision["answer"]["nodes"] == found["response"]["result"]
    assert [one["with"] for one in decision["comparisons"]] == ["runner-up", "group spare"]
    assert {
        candidate["node"] for group in decision["groups"] for candidate in group["candidates"]
    } == set(request["nodes"])
    total = sum(term["contribution_after"] for term in decision["answer"]["terms"])
    assert total == pytest.approx(found["response"]["solutions"][0]["score"], abs=1e-7)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_explain_is_deterministic(form: tuple[str, ...]) -> None:
    """`explain` prints equal text for one request in two runs."""
    request = allocate(cluster(nodes=4, instances={"a": instance("node1", "node2")}))
    assert run(request, *form).stdout == run(request, *form).stdout


def test_explain_long_names_are_shown_without_their_domain() -> None:
    """`explain` omits the common domain of names, and notes that below the response."""
    request = allocate(cluster(nodes=2))
    for name in list(request["nodes"]):
        request["nodes"][f"{name}.example.com"] = request["nodes"].pop(name)
    found = lines(request)
    assert "Answer: node1 with node2 as secondary, in group default" in found
    assert "(Names above without .example.com)" in found
    assert found[-1] == "(Names above without .example.com)"
    assert any("for node(s) node1/node2" in line for line in found)


def test_explain_control_characters_do_not_reach_the_terminal() -> None:
    """`explain` prints control characters of names as codes."""
    done = run(allocate(cluster(), name="bad\x1b[31m\nname"))
    assert "\x1b" not in done.stdout
    assert r"bad\x1b[31m\nname" in done.stdout


def test_explain_terminal_gets_colours(tmp_path: Path) -> None:
    """`explain` colours the answer on a terminal."""
    assert "\x1b[32m" in on_terminal(allocate(cluster()), tmp_path / "request.json")


def test_explain_no_color_is_respected(tmp_path: Path) -> None:
    """With NO_COLOR, `explain` prints no colours on a terminal."""
    written = on_terminal(allocate(cluster()), tmp_path / "request.json", NO_COLOR="1")
    assert "\x1b" not in written


def test_explain_pipe_gets_plain_text() -> None:
    """`explain` prints no colours to a pipe."""
    assert "\x1b" not in run(allocate(cluster())).stdout


HELD = {"drbd": instance("node1", "node2"), "plain": instance("node1")}

REQUESTS: dict[str, dict[str, Any]] = {
    "multi-allocate": {"instances": [allocate(cluster())["request"]]},
    "allocate-secondary": {"name": "plain"},
    "relocate": {"name": "drbd", "required_nodes": 1, "relocate_from": ["node2"]},
    "node-evacuate": {"instances": ["drbd", "plain"], "evac_mode": "all"},
    "change-group": {"instances": ["drbd"], "target_groups": []},
    "multi-evacuate": {"evac_nodes": ["node2"]},
}


def request_of(kind: str, nodes: dict[str, int]) -> dict[str, Any]:
    """Return a request of type `kind` on a cluster with the groups of `nodes`."""
    request = {"type": kind, "disk_space_total": 1152, **REQUESTS[kind]}
    return {**cluster(nodes, instances=HELD), "request": request}


@pytest.mark.parametrize("kind", REQUESTS)
def test_explain_every_type_names_instance_and_answer(kind: str) -> None:
    """`explain` names the instance, the answer and the nodes for every type of request."""
    found = lines(request_of(kind, {"default": 4, "spare": 3}))
    assert found[0].startswith(f"{kind} ")
    assert any(line.startswith("Answer: node") for line in found)
    assert any(line.startswith("Nodes of group ") for line in found)
    assert "Response" in found


@pytest.mark.parametrize("kind", REQUESTS)
def test_explain_every_type_without_capacity_ends_with_success(kind: str) -> None:
    """`explain` gives a reason for an impossible request of any type, with exit status 0."""
    request = request_of(kind, {"default": 2})
    request["nodes"]["node2"] |= {"free_memory": 10, "free_disk": 10}
    text = " ".join(lines(request))
    assert "Answer: no place" in text or "Answer: it cannot be moved: " in text
    found = json.loads(run(request, "--json").stdout)
    assert found["decisions"][0]["answer"] is None


def test_explain_move_lists_its_steps_in_order() -> None:
    """`explain` numbers the steps of a move."""
    found = " ".join(lines(request_of("node-evacuate", {"default": 4})))
    assert ("Steps: 1. new secondary node3; 2. migrate to node3; 3. new secondary node4") in found
    assert "Disks of type plain are on node1 only" in found


def test_explain_move_has_headings_for_choice_and_offer() -> None:
    """`explain` has headings for the choice of the group and for the offer of another group."""
    found = lines(request_of("node-evacuate", {"default": 2, "spare": 2}))
    assert "Other groups for drbd" in found
    assert "Choice of the group for drbd" in found
    assert "Offer: node3 with node4 as secondary, in group spare" in found


SCARCE = allocate(
    cluster(nodes={"default": 3, "spare": 2}, changes={"node3": {"free_memory": 3120}}), memory=4096
)
"""A request for a new instance that fits on two of three nodes of the first group."""


def test_explain_node_has_the_reason_against_that_node() -> None:
    """`explain --node` names the missing resource in each role, and no other node."""
    found = lines(SCARCE, "--node", "node3")
    assert found[0] == "Warning: cluster has inconsistent data:"
    rows = [line.split(maxsplit=2) for line in found[: found.index("Response")]
            if line.startswith("node")]  # fmt: skip
    assert [row[:2] for row in rows] == [["node", "result"], ["node3", "rejected"]]
    assert rows[1][2].startswith("FailMem as primary: needs 4096 MiB memory, 3120 free")
    (group,) = json.loads(run(SCARCE, "--node=node3", "--json").stdout)["decisions"][0]["groups"]
    (node,) = group["candidates"]
    assert (node["node"], node["result"]) == ("node3", "refused")


def test_explain_node_of_a_later_group_has_the_decision_between_groups() -> None:
    """`explain --node` says that a node in a group of lower rank could host the instance."""
    found = lines(SCARCE, "--node=node4")
    assert any(line.startswith("node4  possible  score ") for line in found)
    assert any(line.startswith("Its group comes later: ") for line in found)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("home1", "not asked  is to be evacuated"),
        (
            "home2",
            "rejected  FailMem: needs 4000 MiB memory, 3000 free, and 1 MiB must remain",
        ),
        ("away1", r"answer  score [0-9.]+"),
    ],
)
def test_explain_node_where_another_group_is_offered_has_one_row(name: str, row: str) -> None:
    """If an answer offers another group, `explain --node` has exactly one row about the node."""
    case = ROOT / "fixtures" / "node-evacuate" / "remote-offer" / "request.json"
    found = lines(case.read_bytes(), f"--node={name}")
    (line,) = [line for line in found if line.startswith((f"{name} ", "Out:"))]
    assert re.fullmatch(f"{name}  {row}", line)


def test_explain_node_of_a_group_that_was_not_queried_reports_it() -> None:
    """`explain --node` reports that the group of the node was not searched, and why."""
    named = {**SCARCE, "request": {**SCARCE["request"], "group_name": "default"}}
    assert "Out: only group default is asked for" in lines(named, "--node=node4")
    found = lines(request_of("relocate", {"default": 4, "spare": 3}), "--node=node6")
    assert "Out: node6 is in group spare, which was not asked" in found


def test_explain_instance_prints_only_its_decision() -> None:
    """`explain --instance` prints the decision on one of several instances only."""
    request = request_of("node-evacuate", {"default": 4})
    found = lines(request, "--instance", "plain")
    assert [line for line in found if line.startswith("node-evacuate ")] == ["node-evacuate plain"]
    document = json.loads(run(request, "--instance=drbd", "--json").stdout)
    assert [decision["instance"] for decision in document["decisions"]] == ["drbd"]


def test_explain_brief_has_only_the_decision() -> None:
    """`explain --brief` prints the answer or the nearest candidate, and no tables."""
    found = lines(SCARCE, "--brief")
    assert "Answer: node1 with node2 as secondary, in group default" in found
    assert not any(line.startswith(("Nodes of", "Groups", "Answer node1")) for line in found)
    scarcer = allocate(cluster(memory=1000), memory=4096)
    (decision,) = json.loads(run(scarcer, "--brief", "--json").stdout)["decisions"]
    assert (decision["answer"], list(decision["closest_by_group"])) == (None, ["default"])


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--node", "x"], "--node: unknown node x"),
        (["--node="], "--node: unknown node "),
        (["--instance=x"], "--instance: the request is not about x, but about new"),
        (
            ["--brief", "--node=node1"],
            "--brief and --node exclude each other",
        ),
    ],
)
def test_explain_of_unknown_names_ends_with_two(words: list[str], output: str) -> None:
    """`explain` rejects unknown names in one line, with exit status 2."""
    done = run(SCARCE, *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"iallocator: {output}\n")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (SCARCE, ("--strategy=pacemaker-balanced",)),
        (allocate_rbd(cluster(1), memory=64), ("--n1=off",)),
    ],
)
def test_explain_omits_scores_that_did_not_decide(
    request_: dict[str, Any], words: tuple[str, ...]
) -> None:
    """`explain` omits scores if a strategy decided, or if there was one candidate only."""
    found = lines(request_, *words)
    end = found.index("Response")
    assert not any("lower is better" in line or "statistic" in line for line in found[:end])
    (decision,) = json.loads(run(request_, "--json", *words).stdout)["decisions"]
    reported = [decision["answer"], *decision["comparisons"]]
    assert not {"score", "terms", "statistics", "difference"} & {
        key for one in reported for key in one
    }


def test_explain_node_that_only_n1_rejects_names_the_failure() -> None:
    """`explain --node` names the failure and the instance if only N+1 rejects the node."""
    request = allocate_rbd(
        cluster(2, memory=4096, changes={"node2": {"free_memory": 2000}}),
        memory=3000,
    )
    (row,) = [line for line in lines(request) if line.startswith("node1 ")]
    assert "rejected  FailN1: if node1 failed, the instance itself could not be restarted" in row
