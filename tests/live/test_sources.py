"""Test that LUXI, RAPI and documents give equal clusters, and errors in answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json
from tests.command import Done, run, without_identity
from tests.paths import ROOT

from .cluster_answers import luxi_answer, node, rapi_answers, write_answers
from .fakes import Raw, fake_luxi, fake_rapi
from .test_faulty_servers import COMMANDS, words_of

LISTS = ("-p", "--print-instances", "--json")


def output_of(*words: str) -> tuple[int, str, str]:
    """Return exit status and both streams, without the name of the source."""
    done = run(*words)
    lines = done.stdout.decode().splitlines(keepends=True)
    out = "".join(line for line in lines if not line.startswith('  "source": '))
    return done.returncode, without_identity(out), done.stderr.decode()


def through_luxi(answers: Json, folder: Path, *words: str) -> tuple[int, str, str]:
    """Return the output of a command for a cluster at a LUXI socket."""
    with fake_luxi(folder, lambda method, args: luxi_answer(answers, method, args)) as server:
        return output_of(*words, f"-L{server.path}")


@pytest.mark.parametrize(
    "words",
    [
        ("balance", *LISTS), ("check", "--json"), ("capacity", "--json"),
        ("squeeze", *LISTS), ("redistribute", *LISTS), ("compress", *LISTS),
        ("balance-groups", *LISTS), ("place", "--strategy=balanced", *LISTS),
        ("constraints", "--json"), ("reboot", *LISTS), ("maintain", *LISTS),
        ("repair", "--json"), ("show", "--json"),
        ("report",), ("snapshot", "--form=text"), ("ask", "evacuate", "node1", "--json"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_cluster_through_luxi_rapi_or_as_a_document_gives_the_same_output(
    words: Sequence[str], tmp_path: Path
) -> None:
    """Each command has equal output for LUXI, RAPI and a document."""
    answers = rapi_answers()
    stored = output_of(*words, "-m", write_answers(tmp_path / "rapi", answers))
    assert stored[0] in (0, 1)
    assert through_luxi(answers, tmp_path, *words) == stored

    def reply(method: str, path: str, body: Any) -> Any:
        return answers[path.removeprefix("/2/").partition("?")[0]]

    with fake_rapi(tmp_path, reply) as server:
        https = output_of(*words, "-m", server.address, "--cacert", server.cacert)
        insecure = output_of(*words, "-m", server.address, "--insecure")
        assert {method for method, *_ in server.asked} == {"GET"}
    assert https == insecure == stored


AT_THE_USUAL_SOCKET = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import iallocator.live.luxi as luxi; "
    "luxi.DEFAULT_SOCKETS = (sys.argv.pop(1),); "
    "from iallocator.process import run; run()"
)
"""Code that runs a command; its first arguments are the folder of the program, and the socket."""


@pytest.mark.parametrize(
    "words",
    [
        ("htools", "hbal", "-L"), ("htools", "hinfo", "--luxi"), ("htools", "hcheck", "-L"),
        ("htools", "hspace", "-L"), ("htools", "hroller", "--luxi"), ("htools", "hsqueeze", "-L"),
        ("htools", "hscan", "-L"), ("htools", "harep", "--luxi"), ("check", "-L"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_cluster_is_read_at_the_usual_socket_without_a_path(
    words: Sequence[str], tmp_path: Path
) -> None:
    """`-L` and `--luxi` without a value connect to the usual socket of Ganeti."""
    asked: list[str] = []

    def answer(method: str, arguments: list[Any]) -> Any:
        asked.append(method)
        return luxi_answer(rapi_answers(), method, arguments)

    with fake_luxi(tmp_path, answer) as server:
        done = subprocess.run(
            [sys.executable, "-c", AT_THE_USUAL_SOCKET, str(ROOT), server.path, *words],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert "Query" in asked, done.stderr
    assert "connect" not in done.stderr


def test_networks_of_groups_are_read_and_count(tmp_path: Path) -> None:
    """An instance with a network is placed only in a group that has this network."""
    answers = rapi_answers()
    request = {"type": "change-group", "instances": ["inst5.example.com"],
               "target_groups": ["uuid-two"]}  # fmt: skip
    (tmp_path / "request.json").write_text(json.dumps({"request": request}))
    words = (str(tmp_path / "request.json"), "--n1=off")
    moved, failed, _ = json.loads(through_luxi(answers, tmp_path, *words)[1])["result"]
    assert (moved, [name for name, _ in failed]) == ([], ["inst5.example.com"])
    answers["networks"][0]["group_list"].append(["two", "bridged", "br0", ""])
    address = write_answers(tmp_path / "rapi", answers)
    moved, failed, _ = json.loads(output_of(*words, "-m", address)[1])["result"]
    assert ([name for name, *_ in moved], failed) == (["inst5.example.com"], [])


def test_node_that_is_offline_needs_no_amounts(tmp_path: Path) -> None:
    """Missing amounts of an offline node are 0, as are disks without a volume group."""
    answers = rapi_answers()
    dark = dict.fromkeys(("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos"))
    answers["nodes"][4] |= {"offline": True, **dark}
    answers["nodes"][3] |= {"dtotal": None, "dfree": None, "spfree": None}
    answers["instances"].pop()
    words = ("balance", "-p")
    stored = output_of(*words, "-m", write_answers(tmp_path / "rapi", answers))
    assert stored[0] == 0
    assert through_luxi(answers, tmp_path, *words) == stored


Change = Callable[[Json], object]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda a: a["nodes"][4].update(name=None), "nodes: expected a name for each"),
        (lambda a: a["instances"][0].update(status="odd"), 'inst1.example.com/status: .* "odd"'),
        (lambda a: a["instances"][0].update(disk_usage="x"), "disk_space_total: expected"),
        (lambda a: a["instances"][0].update(pnode="gone"), "inst1.* the unknown node gone"),
        (lambda a: a["nodes"][0].update({"group.uuid": "gone"}), "node1.*unknown group gone"),
        (lambda a: a["info"].update(master="gone"), "the master is the unknown node gone"),
        (lambda a: a["info"].update(ipolicy=3), "ipolicy"),
        (lambda a: a["networks"][0].update(group_list=[["gone"]]), "expected a group of the"),
        (lambda a: a.update(nodes=3), "expected a list of objects"),
        (lambda a: a.update(info=[]), "info"),
    ],
)
def test_invalid_answers_are_reported_in_one_line_with_the_place(
    change: Change, problem: str, tmp_path: Path
) -> None:
    """An invalid answer is reported in one line with source and position, status 2."""
    answers = rapi_answers()
    change(answers)
    address = write_answers(tmp_path / "rapi", answers)
    status, out, err = output_of("balance", "-m", address)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert address in err
    assert re.search(problem, err), err


def test_cluster_that_changes_between_queries_is_queried_again(tmp_path: Path) -> None:
    """If the answers are inconsistent, the cluster is read again."""
    answers = rapi_answers()
    late = answers["nodes"].pop(1)
    asked: list[str] = []

    def answer(method: str, arguments: list[Any]) -> Any:
        asked.append(method)
        if len(asked) == 6:  # the first of the second round
            answers["nodes"].insert(1, late)
        return luxi_answer(answers, method, arguments)

    with fake_luxi(tmp_path, answer) as server:
        status, _, err = output_of("balance", "--all-groups", f"-L{server.path}")
    assert (status, err, len(asked)) == (0, "", 10)


def test_cluster_that_is_never_consistent_is_queried_four_times(tmp_path: Path) -> None:
    """A cluster that stays inconsistent is read four times, then reported."""
    answers = rapi_answers()
    del answers["nodes"][1]
    asked: list[str] = []

    def answer(method: str, arguments: list[Any]) -> Any:
        asked.append(method)
        return luxi_answer(answers, method, arguments)

    with fake_luxi(tmp_path, answer) as server:
        status, out, err = output_of("balance", f"-L{server.path}")
    assert (status, out, len(asked)) == (2, "", 20)
    assert "asked 4 times" in err
    assert "instance inst1.example.com is on the unknown node node2.example.com" in err


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"success": true, "result": {"data": [[[0, "a"]]]}}\x03', "expected rows of"),
        (b'{"success": true, "result": []}\x03', "expected an object|expected rows"),
        (b'{"success": true', "closed after"),
    ],
)
def test_luxi_answer_of_another_form_is_reported_in_one_line(
    raw: bytes, problem: str, tmp_path: Path
) -> None:
    """A LUXI answer of another form is reported in one line that names the query."""

    def answer(method: str, arguments: list[Any]) -> Any:
        return luxi_answer(rapi_answers(), method, arguments) if "Info" in method else raw

    with fake_luxi(tmp_path, answer) as server:
        status, out, err = output_of("check", f"-L{server.path}")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"{server.path}: Query" in err
    assert re.search(problem, err), err


def test_wrong_password_certificate_or_host_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong password, certificate or host is reported in one line without the password."""
    monkeypatch.setenv("IALLOCATOR_RAPI_USER", "me")
    monkeypatch.setenv("IALLOCATOR_RAPI_PASSWORD", "hidden")
    with fake_rapi(tmp_path, lambda *_: Raw(401, b"")) as server:
        wrong = output_of("check", "-m", server.address, "--cacert", server.cacert)
        strange = output_of("check", "-m", server.address)
    absent = output_of("check", "-m", server.address)
    for (status, out, err), problem in (
        (wrong, "user or password is wrong"),
        (strange, "certificate is not trusted"),
        (absent, "Connection refused"),
    ):
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert problem in err
        assert "hidden" not in err


@pytest.mark.parametrize(
    "words",
    [
        ("-L", "-m", "file:///nowhere"), ("-L", "-t", "x"), ("-m", "file:///x", "FILE"),
        ("-L", "-I", "FILE"), ("-I", "FILE", "FILE"), ("-L", "--simulate=p,1,1g,1g,1"),
        ("--insecure", "FILE"), ("-m", "file:///x", "--cacert=ca.pem"),
        ("-L", "--credentials=x"), ("-m", "https://me:secret@host"), ("-m", "file:///nowhere"),
    ],
)  # fmt: skip
def test_sources_that_exclude_each_other_are_a_usage_error(words: Sequence[str]) -> None:
    """Sources that exclude each other are rejected before any query."""
    status, out, err = output_of("balance", *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "secret" not in err


def test_request_is_answered_on_the_running_cluster(tmp_path: Path) -> None:
    """A request from a file is answered on the running cluster of an option, also with -I."""
    from tests.builders import allocate, cluster

    document = tmp_path / "request.json"
    document.write_text(json.dumps(allocate(cluster(2), disk_template="plain", memory=512)))
    answers = rapi_answers()
    status, out, _ = through_luxi(answers, tmp_path, "-I", str(document))
    assert status == 0
    assert json.loads(out)["result"][0].endswith(".example.com")


def test_static_node_memory_counts_where_the_default_hypervisor_is_kvm(tmp_path: Path) -> None:
    """A node's own memory is static if the default hypervisor is kvm, as in htools."""
    answers = rapi_answers()
    answers["info"] |= {"default_hypervisor": "kvm", "enabled_hypervisors": ["xen-pvm", "kvm"]}
    address = write_answers(tmp_path / "rapi", answers)
    shown = {
        words: output_of("balance", "-pname,nmem", "-m", address, *words)[2].split()[-1]
        for words in ((), ("--static-kvm-node-memory=77",), ("--static-kvm-node-memory=0",))
    }
    assert list(shown.values()) == ["4096", "77", "1024"]


def test_parameters_of_nodes_are_where_rapi_has_them() -> None:
    """Parameters of nodes are read from where RAPI has them."""
    assert node("a", cpu_speed=2.0, mfree=1)["ndparams"]["cpu_speed"] == 2.0


WARNING = (
    "Warning: node node3.example.com does not answer and is not marked offline: it counts as "
    "offline (gnt-node modify --offline=yes node3.example.com marks it)"
)

AMOUNTS = ("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "spfree", "sptotal")


def with_dead_node(answers: Json, number: int, **marked: bool) -> Json:
    """Return `answers` with a node that reports no amounts."""
    node = answers["nodes"][number]
    node |= {**dict.fromkeys(AMOUNTS), **marked}
    for one in answers["instances"]:
        if one["pnode"] == node["name"]:
            one |= {"status": "ERROR_nodedown", "oper_ram": None}
    return answers


def parts(done: Done) -> tuple[int, bytes, list[str]]:
    """Return the status, stdout without the name of the source, and the lines of stderr."""
    out = re.sub(r"-L\S*", "-L", without_identity(done.stdout.decode()))
    return done.returncode, out.encode(), done.stderr.decode().splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_dead_node_counts_as_offline_in_every_command(command: str, tmp_path: Path) -> None:
    """A node that does not answer counts as offline in every command, with a warning."""
    words = words_of(command, tmp_path)
    marked = with_dead_node(rapi_answers(), 2, offline=True)
    expected = run(*words, "-m", write_answers(tmp_path / "marked", marked))
    assert expected.returncode in (0, 1)
    dead = with_dead_node(rapi_answers(), 2)
    found = [run(*words, "-m", write_answers(tmp_path / "dead", dead))]
    with fake_luxi(tmp_path, partial(luxi_answer, dead)) as server:
        found.append(run(*words, f"-L{server.path}"))
    for done in found:
        status, out, lines = parts(done)
        assert status == expected.returncode
        if command in ("request", "explain", "ask"):
            assert "does not answer" in " ".join(out.decode().split())
        else:
            assert out == parts(expected)[1] or command == "config"  # which shows the source
            assert lines.count(WARNING) == 1
            lines.remove(WARNING)
        assert [line for line in lines if line != WARNING] == parts(expected)[2]


def test_dead_node_is_in_info_of_a_request(tmp_path: Path) -> None:
    """The `info` of a request warns of a node that does not answer."""
    address = write_answers(tmp_path / "dead", with_dead_node(rapi_answers(), 2))
    reply = json.loads(run(*words_of("request", tmp_path), "-m", address).stdout)
    assert "gnt-node modify --offline=yes node3.example.com" in reply["info"]


def test_any_missing_amount_means_a_dead_node(tmp_path: Path) -> None:
    """A node with any missing amount counts as one that does not answer."""
    answers = rapi_answers()
    answers["nodes"][2]["mfree"] = None
    done = run("show", "-m", write_answers(tmp_path / "dead", answers))
    assert (done.returncode, done.stderr.decode().splitlines()) == (0, [WARNING])
