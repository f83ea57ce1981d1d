"""Test recorded answers of Ganeti 3.0: LUXI and RAPI give equal clusters, and hbal's results."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.command import json_of, run

from .fakes import FakeLuxi, fake_luxi

RECORDED = Path(__file__).parent / "recorded"
GROUPS = ("default", "rack2")

PUBLISHED = Path(__file__).parents[3] / "shared" / "peer-data" / "rapi"
"""Folder of answers published with Ganeti, if it exists beside this project."""

needs_hbal = pytest.mark.skipif(not shutil.which("hbal"), reason="hbal is not installed")


def recorded_luxi(method: str, arguments: list[Any]) -> Any:
    """Return the recorded answer of the daemons with the requested fields."""
    answers = json.loads((RECORDED / "luxi.json").read_text())
    if method == "QueryClusterInfo":
        return answers[method]
    what, fields, _ = arguments
    names = [field["name"] for field in answers[what]["fields"]]
    where = [names.index(field) for field in fields]
    rows = [[row[at] for at in where] for row in answers[what]["data"]]
    return {"fields": answers[what]["fields"], "data": rows}


def ours(*words: str) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Return the tables of iallocator by their first words, and its moves with their scores."""
    shown = run("balance", "--compat=hail", "-p", "--print-instances", *words)
    assert shown.returncode == 0
    moves = json_of("balance", "--compat=hail", *words)["moves"]
    names = [[short(m["instance"]), f"{m['score']:.8f}"] for m in moves]
    return rows(shown.stderr.decode()), names


def theirs(*words: str) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Return hbal's tables by their first words, and its moves with their scores."""
    command = ["hbal", "-p", "--print-instances", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    moves = [line.split() for line in done.stdout.splitlines() if " => " in line]
    return rows(done.stderr), [[m[1], m[m.index("=>") + 2]] for m in moves]


def short(name: str) -> str:
    """Return the name in the short form of hbal's plans."""
    return name.removesuffix(".vc.example.com")


def rows(text: str) -> dict[str, list[str]]:
    """Return the lines about nodes and instances in tables, by name."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        name = next((word for word in words if word[:2] in ("li", "no", "in")), "")
        if name and "Name" not in words and "map" not in line:
            found.setdefault(name, []).append(" ".join(words))
    return found


@needs_hbal
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    "more", [(), ("--exclusion-tags=srv",), ("--mond", f"--mond-data={RECORDED}/mond.json")]
)
def test_recorded_cluster_has_the_tables_and_moves_of_hbal(
    group: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    """For the recorded cluster, the commands print hbal's tables and moves with RAPI and LUXI."""
    with fake_luxi(tmp_path, recorded_luxi) as server:
        for connection in (f"-mfile://{RECORDED}", f"-L{server.path}"):
            tables, moves = theirs(connection, "-G", group, *more)
            own, own_moves = ours(connection, "-G", group, *more)
            assert moves
            assert own_moves == moves
            assert {name: own[name] for name in tables} == tables


@needs_hbal
@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published answers are not here")
def test_published_answers_have_the_tables_and_moves_of_hbal() -> None:
    """Published answers of another Ganeti version give hbal's tables and moves."""
    assert ours(f"-mfile://{PUBLISHED}") == theirs(f"-mfile://{PUBLISHED}")


def test_recorded_answers_of_luxi_and_rapi_are_equal_clusters(
    tmp_path: Path, capsys: Capture
) -> None:
    """Recorded answers of LUXI and RAPI give equal nodes, instances and plans."""
    output, errors = [], []
    with fake_luxi(tmp_path, recorded_luxi) as server:
        assert isinstance(server, FakeLuxi)
        for connection in (f"-mfile://{RECORDED}", f"-L{server.path}"):
            assert (
                main(["balance", "--all-groups", "--json", "-p", "--print-instances", connection])
                == 0
            )
            out, err = capsys.readouterr()
            output.append({k: value for k, value in json.loads(out).items() if k != "source"})
            errors.append(err)
    assert (output[0], errors[0]) == (output[1], errors[1])
