"""Test the printed output: width, decimals, long lists, steps, warnings, scores."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance, rbd
from tests.command import json_of, printed, run

Shown = Callable[..., str]

ROWS = 20
"""Number of rows that a long list has on a terminal."""

DOMAIN = ".example.com"


@pytest.fixture
def shown(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return a function that runs a command on a terminal and returns what it prints."""

    def run(*words: str, document: Json, width: int = 120, expected: int = 0) -> str:
        path = tmp_path / "document.json"
        path.write_bytes(as_bytes(document))
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(sys.stdout, "fileno", lambda: 1)
        monkeypatch.setattr("posix.get_terminal_size", lambda _: os.terminal_size((width, 40)))
        assert main([*words, str(path)]) == expected
        return capsys.readouterr().out

    return run


def unbalanced(count: int = 60, nodes: int = 10) -> Json:
    """Return a cluster with all instances on its first two nodes, on shared storage."""
    held = {f"web{n:03}{DOMAIN}": rbd(f"node{n % 2 + 1}", memory=100) for n in range(count)}
    return cluster(nodes, instances=held)


def inconsistent(nodes: int = 10) -> Json:
    """Return a cluster in which nodes report less free memory than instances leave."""
    document = cluster(nodes)
    for node in document["nodes"].values():
        node["free_memory"] -= 3000
    return document


def plain(text: str) -> str:
    """Return `text` without the codes for colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(("width", "used"), [(40, 60), (75, 75), (130, 130), (400, 200)])
def test_tables_fit_the_terminal(width: int, used: int, shown: Shown) -> None:
    """Tables are as wide as the terminal, from 60 to 200 columns."""
    text = plain(shown("constraints", "--all", document=unbalanced(4), width=width))
    assert max(map(len, text.splitlines())) <= used
    document = inconsistent()
    document["nodes"]["node1"]["free_memory"] = 0
    prose = plain(shown("check", document=document, width=width, expected=1))
    assert max(map(len, prose.splitlines())) <= used
    assert max(map(len, prose.splitlines())) > used - 20 or used > 130


@pytest.mark.parametrize("command", ["balance", "config", "constraints", "squeeze"])
def test_long_lists_are_cut_on_a_terminal_and_complete_with_the_named_option(
    command: str, shown: Shown
) -> None:
    """On a terminal, a long list is cut, with the number of further rows and the option for all."""
    document = unbalanced()
    if command == "constraints":
        for one in document["instances"].values():
            one["tags"] = ["iallocator:separate:must:web"]
    words = {"constraints": ["--kind=capacity"], "squeeze": ["--all"]}.get(command, [])
    text = plain(shown(command, *words, document=document))
    more = re.findall(r"^ *(\d+) more \((--all|--all-rows) or --json\)$", text, re.MULTILINE)
    assert more, text
    option = more[0][1]
    assert option == ("--all-rows" if command == "squeeze" else "--all")
    complete = plain(shown(command, *words, option, document=document))
    assert "more (" not in complete
    hidden = sum(int(number) for number, _ in more)
    assert len(complete.splitlines()) >= len(text.splitlines()) + hidden - len(more)
    piped = printed(command, *words, document=document)
    assert "more (" not in piped


def test_moves_that_are_cut_are_the_last_ones_and_the_summary_is_first(shown: Shown) -> None:
    """A long list of moves is cut at its end; the summary counts all moves."""
    lines = plain(shown("balance", document=unbalanced())).splitlines()
    count = int(re.match(r"(\d+) moves, ", lines[0])[1])  # type: ignore[index]
    assert count > ROWS
    assert lines[1].startswith("Score: ")
    first = lines.index("Moves") + 2
    assert [int(line.split()[0]) for line in lines[first : first + ROWS]] == [*range(1, ROWS + 1)]
    assert lines[first + ROWS].strip() == f"{count - ROWS} more (--all or --json)"


def test_nodes_of_a_campaign_are_cut_on_a_terminal(shown: Shown) -> None:
    """On a terminal, `maintain` shortens the list of nodes in a group, unless --all is given."""
    document = cluster(60)
    text = plain(shown("maintain", "--force", document=document))
    assert len(text.splitlines()) < 25
    assert "more" in text
    assert "node60" in plain(shown("maintain", "--force", "--all", document=document))


def test_no_color_is_respected(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR, no colours are printed on a terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in shown("check", document=unbalanced())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in shown("check", document=unbalanced())


@pytest.mark.parametrize("command", ["balance", "show", "capacity", "check"])
def test_scores_have_four_decimals_and_all_with_verbose(command: str) -> None:
    """Scores have four decimals; with --verbose, all."""
    document = unbalanced(10)
    assert not re.search(r"\d\.\d{8}\b", printed(command, document=document))
    assert re.search(r"\d\.\d{8}\b", printed(command, "-v", document=document))
    if command != "check":
        compat = printed(command, "--compat", "hail", document=document)
        assert re.search(r"\d\.\d{8}\b", compat)


def test_scores_that_differ_late_have_the_decimals_that_show_it() -> None:
    """Two different scores are printed with as many decimals as show the difference."""
    from iallocator.render.table import Page

    page = Page()
    assert page.scores(1.25, 1.5) == ("1.2500", "1.5000")
    assert page.scores(1.2500001, 1.2500002) == ("1.2500001", "1.2500002")
    assert page.score(0.00000312) == "3.1e-06"


def test_notation_of_hbal_for_steps_is_used_only_with_compat_hail() -> None:
    """Moves have step numbers; the notation of hbal is printed with --compat hail only."""
    document = unbalanced(4)
    text = printed("balance", document=document)
    assert "a=" not in text
    assert "hbal" not in text
    assert "how (as hbal)" in printed("balance", "--compat=hail", document=document)
    row = next(line for line in text.splitlines() if line.strip().startswith("1  web"))
    number = row.split()[-1]
    steps = text.partition("\nTransition: ")[2]
    assert re.search(rf"^ +{number}  migrate +web", steps, re.MULTILINE)


def test_reboot_is_a_table_and_without_titles_lines_for_scripts() -> None:
    """`reboot` prints a table of groups; with --no-headers, it prints plain lines for scripts."""
    document = unbalanced(4, nodes=4)
    text = printed("reboot", "--force", "--n1=off", document=document)
    assert re.match(r"4 nodes to reboot in \d groups?, \d+ moves? away from them\n", text)
    assert re.search(r"^  group  nodes  moves  names$", text, re.MULTILINE)
    scripts = printed("reboot", "--force", "--n1=off", "--no-headers", document=document)
    names = sorted(name for line in scripts.splitlines() for name in line.split(","))
    assert names == [f"node{n}" for n in range(1, 5)]


def test_repair_is_a_table() -> None:
    """`repair` prints a table of instances with their states and repairs."""
    document = cluster(3, instances={"web": instance("node1", "node2")})
    document["nodes"]["node1"]["offline"] = True
    text = printed("repair", document=document, status=1)
    assert text.startswith("Instances: Broken: 1\n")
    assert re.search(r"^  instance  state   what is done$", text, re.MULTILINE)
    assert "---" not in text


def too_large(nodes: int = 30) -> Json:
    """Return a request for an instance that is larger than the group's policy permits."""
    document = cluster(nodes)
    (group,) = document["nodegroups"].values()
    for limits in group["ipolicy"]["minmax"]:
        limits["max"]["memory-size"] = 512
    document["request"] = {
        "type": "allocate", "name": "new", "memory": 1024, "vcpus": 1, "spindle_use": 1,
        "disk_template": "rbd", "disks": [{"size": 1024, "mode": "rw"}], "disk_space_total": 1024,
        "nics": [], "tags": [], "required_nodes": 1, "hypervisor": "kvm", "os": "x",
    }  # fmt: skip
    return document


def test_rejection_by_the_policy_of_the_group_is_stated_once() -> None:
    """A rejection by the policy of a group is printed once, not for each node."""
    text = printed("explain", document=too_large())
    assert text.count("outside the policy of the group: 1024 MiB memory, at most 512 allowed") == 2
    assert "FailPolicy on 30 of 30 nodes: " in text
    assert not re.search(r"^  node\d+ ", text, re.MULTILINE)


def test_warnings_about_inconsistent_data_come_first_and_are_few() -> None:
    """Warnings about inconsistent data name three nodes first; with ``-v``, all."""
    document = inconsistent()
    words = ("ask", "allocate", "--memory=128", "--template=rbd", "--disk=1g")
    lines = printed(*words, document=document).splitlines()
    assert lines[0] == "Warning: cluster has inconsistent data:"
    assert all(" is missing 3000 MB ram" in line for line in lines[1:4])
    assert lines[4].strip() == "- 7 more (-v)"
    text = printed(*words, "-v", document=document).partition("allocate new")[0]
    assert text.count(" is missing 3000 MB ram") == len(document["nodes"])
    assert len(json_of(*words, document=document)["remarks"]) == 1 + len(document["nodes"])


def test_check_reports_inconsistent_data(shown: Shown) -> None:
    """`check` reports inconsistent data, for which no move is a remedy."""
    document = inconsistent()
    text = printed("check", document=document, status=1)
    assert text.startswith(
        "The data are inconsistent; nothing else is wrong; balancing was not tried\n"
    )
    assert "ealthy" not in text
    assert "nothing is wrong" not in text
    assert text.count("3000 MiB memory and 0 MiB disk are neither free nor explained") == 3
    assert "explain: 7 more (-v, --all or --json)" in " ".join(text.split())
    for option in ("-v", "--all"):
        whole = printed("check", option, document=document, status=1)
        assert whole.count("are neither free nor explained") == len(document["nodes"])
    found = json_of("check", document=document, status=1)
    assert (found["healthy"], found["problems"]["inconsistent"]) == (False, 10)
    assert json_of("check", "--compat=hail", document=document)["healthy"] is True


def test_check_reports_if_the_score_is_high_and_why() -> None:
    """`check` assesses a high score relative to the nodes and instances of the group."""
    document = unbalanced()
    text = " ".join(printed("check", document=document).split())
    assert "The score is high for this cluster: if nodes differed by one instance at most" in text
    (group,) = json_of("check", document=document)["groups"]
    assert group["score_level"] == "high"
    assert group["score"] > group["score_reference"]
    assert sum(term["term"] for term in group["score_terms"]) == pytest.approx(group["score"])
    largest = max(group["score_terms"], key=lambda term: float(term["term"]))
    share = 100 * largest["term"] / group["score"]
    assert f"{largest['name']} is {share:.0f} % of it: " in text
    plan = json_of("balance", document=document)
    for move in plan["moves"]:
        document["instances"][move["instance"]]["nodes"] = move["to"]
    balanced = json.loads(printed("check", "--json", document=_consistent(document)))
    assert balanced["groups"][0]["score_level"] == "low"


def _consistent(document: Json) -> Json:
    """Return `document` with free memory that is consistent with its instances."""
    for name, node in document["nodes"].items():
        used = sum(i["memory"] for i in document["instances"].values() if i["nodes"][0] == name)
        node["free_memory"] = node["total_memory"] - node["reserved_memory"] - used
    return document


def test_score_of_the_cluster_and_sum_of_the_groups_have_two_names() -> None:
    """`show` has different names for the score of the cluster and the sum of the groups."""
    document = cluster({"east": 2, "west": 2}, instances={"web": instance("node1", "node2")})
    text = printed("show", document=document)
    shown = json_of("show", document=document)
    assert f"Cluster score, of all nodes together: {shown['cluster_score']:.4f}" in text
    total = sum(group["score"] for group in shown["groups"])
    assert f"Sum of the groups' scores: {total:.4f}" in text


@pytest.mark.parametrize("option", ["--print-nodes", "--print-nodes=name,fmem"])
def test_lists_of_a_request_are_complete_on_a_terminal(
    option: str, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, lists of a request are complete, as it has no option for all rows."""
    document = too_large(nodes=30)
    plain_reply = shown(document=document)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert shown(option, document=document) == plain_reply
    for words in ((), ("show",)):
        done = run(*words, option, stdin=as_bytes(document))
        assert done.returncode == 0, done.stderr
        assert (done.stdout + done.stderr).count(b"node3") >= 1
