"""Test that options and commands have one name and meaning, and that old names work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance
from tests.command import printed, without_identity


def rbd(*nodes: str) -> Json:
    """Return an instance on shared storage on the node in `nodes`."""
    return instance(*nodes, disk_template="rbd", memory=512)


TWO_GROUPS = cluster(
    {"east": 2, "west": 2}, instances={"a": rbd("node1"), "b": rbd("node1"), "c": rbd("node3")}
)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    file.write_bytes(as_bytes(TWO_GROUPS))
    return str(file)


@pytest.mark.parametrize(("form", "old"), [("--settings", "config"), ("--rules", "constraints")])
@pytest.mark.parametrize("words", [(), ("--json",), ("--help",), ("--validate",)])
def test_option_of_show_equals_its_old_command(
    form: str, old: str, words: tuple[str, ...], path: str
) -> None:
    """An option of `show` has the output of the old command."""
    assert printed("show", form, *words, path) == printed(old, *words, path)


def test_page_of_show_is_that_of_report(path: str, tmp_path: Path) -> None:
    """`show --html` writes the page of `report`, and prints its own text."""
    page = tmp_path / "page.html"
    text = printed("show", f"--html={page}", path)
    assert text == printed("show", path)
    report = printed("report", path).removesuffix("\n")
    assert without_identity(page.read_text()) == without_identity(report)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--settings", "--rules"), "--rules and --settings exclude each other"),
        (("--rules", "--top=3"), "show --rules takes no --top: nothing is ranked there"),
        (("--n1=off",), "--n1 needs --html FILE"),
    ],
)
def test_option_of_another_form_of_show_is_rejected(
    words: tuple[str, ...], expected: str, path: str, capsys: Capture
) -> None:
    """`show` rejects an option without effect on the chosen form, and names the form."""
    assert main(["show", *words, path]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("command", ["squeeze", "reboot"])
def test_master_as_the_name_of_a_node_is_a_clear_error(
    command: str, path: str, tmp_path: Path, capsys: Capture
) -> None:
    """If `--master` is used for the name of the master node, the error names `--master-node`."""
    assert main([command, "--master", "node1", path]) == 2
    assert "for the master node, write --master-node node1" in capsys.readouterr().err
    assert main([command, "--master", "localhost:1"]) == 2
    assert "the master node is --master-node" in capsys.readouterr().err
    file = tmp_path / "conf"
    file.write_text(f'[{command}]\nmaster = "node1"\n')
    assert main([command, f"--config={file}", path]) == 2
    assert "write master-node for the master node" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("5G", 5), ("512m", 0.5), ("1TiB", 1024), ("2gb", 2)]
)
def test_cost_accepts_units(text: str, value: float, path: str) -> None:
    """`--cost` accepts a unit; without one it is in GiB."""
    shown = json.loads(printed("show", "--settings", "--json", f"--cost={text}", path))
    assert {one["name"]: one["value"] for one in shown["settings"]}["cost"] == value


def test_memory_of_nodes_accepts_units(path: str) -> None:
    """`--static-kvm-node-memory` accepts a unit; without one it is in MiB."""
    words = ("show", "--settings", "--json", path)
    assert printed(*words, "--static-kvm-node-memory=2g") == printed(
        *words, "--static-kvm-node-memory=2048"
    )


def test_dry_run_shows_the_jobs_of_a_plan_for_a_file(path: str) -> None:
    """`--dry-run` shows the jobs of a plan for a file as LUXI would get them."""
    assert "\njob 1: migrate " in printed("balance", "--dry-run", path)
    assert "job 1" not in printed("balance", path)
    document = json.loads(printed("balance", "--dry-run", "--json", path))
    (job,) = document["execution"]["jobs"]
    assert job["state"] == "not begun"


@pytest.mark.parametrize("words", [(), ("--quiet",), ("-G", "west"), ("--all-groups",)])
def test_balance_says_that_it_plans_for_one_group(
    words: tuple[str, ...], path: str, capsys: Capture
) -> None:
    """`balance` notes that it plans for one group of several, unless one is chosen."""
    assert main(["balance", *words, path]) == 0
    output = "Plan for group east only, of 2 groups.\n--all-groups plans for every group"
    assert (output in capsys.readouterr().err) == (not words)


def test_place_uses_the_default_strategy_of_pacemaker(path: str, capsys: Capture) -> None:
    """`place` uses pacemaker-default by default, and rejects a strategy that is not Pacemaker's."""
    expected = printed("place", "--json", "--strategy=pacemaker-default", path)
    assert printed("place", "--json", path) == expected
    assert main(["place", "--strategy=affinity", path]) == 2
    assert "place follows Pacemaker's rules" in capsys.readouterr().err


def test_disk_template_has_one_name(path: str) -> None:
    """The old name of the option for the disk template has the same meaning."""
    words = ("ask", "allocate", "--memory=1G", path)
    assert printed(*words, "--disk-template=diskless") == printed(*words, "--template=diskless")
