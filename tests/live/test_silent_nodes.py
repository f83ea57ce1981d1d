"""A node that does not answer and is not marked offline counts as offline, with a warning."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from tests.builders import Json
from tests.command import Done, run

from .fakes import fake_luxi
from .test_faulty_servers import COMMANDS, words_of
from .worlds import luxi_answer, rapi_answers, write_answers

WARNING = (
    "Warning: node node3.example.com does not answer and is not marked offline: it counts as "
    "offline (gnt-node modify --offline=yes node3.example.com marks it)"
)

AMOUNTS = ("mtotal", "mnode", "mfree", "dtotal", "dfree", "ctotal", "cnos", "spfree", "sptotal")


def with_dead_node(answers: Json, number: int, **marked: bool) -> Json:
    """`answers` where a node reports nothing; its instances are as Ganeti reports them."""
    node = answers["nodes"][number]
    node |= {**dict.fromkeys(AMOUNTS), **marked}
    for one in answers["instances"]:
        if one["pnode"] == node["name"]:
            one |= {"status": "ERROR_nodedown", "oper_ram": None}
    return answers


def parts(done: Done) -> tuple[int, bytes, list[str]]:
    """Status, stdout where the source is always called the same, and the lines of stderr."""
    out = re.sub(rb"-L\S*", b"-L", done.stdout)
    return done.returncode, out, done.stderr.decode().splitlines()


@pytest.mark.parametrize("command", COMMANDS)
def test_dead_node_counts_as_offline_in_every_command(command: str, tmp_path: Path) -> None:
    """Through both doors: the output is that where it is marked offline, and a warning."""
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
    """Ganeti shows nothing else of what a plugin says."""
    address = write_answers(tmp_path / "dead", with_dead_node(rapi_answers(), 2))
    reply = json.loads(run(*words_of("request", tmp_path), "-m", address).stdout)
    assert "gnt-node modify --offline=yes node3.example.com" in reply["info"]


def test_any_missing_amount_means_a_dead_node(tmp_path: Path) -> None:
    """A hypervisor that does not answer reports no memory."""
    answers = rapi_answers()
    answers["nodes"][2]["mfree"] = None
    done = run("show", "-m", write_answers(tmp_path / "dead", answers))
    assert (done.returncode, done.stderr.decode().splitlines()) == (0, [WARNING])
