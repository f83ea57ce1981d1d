"""The command, on documents and on a running cluster that this process plays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.tags.autorepair import PREFIX
from tests.builders import as_bytes, cluster, instance
from tests.execution.running import Running, running
from tests.live.worlds import instance as live_instance
from tests.live.worlds import node as live_node
from tests.live.worlds import rapi_answers

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks in the folder of the test."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))


def _told(document: Json, folder: Path, capsys: Capture) -> tuple[int, Json]:
    (folder / "doc").write_bytes(as_bytes(document))
    status = main(["repair", "--json", str(folder / "doc")])
    return status, json.loads(capsys.readouterr().out)


def _kinds(entry: Json) -> list[str]:
    return [code["OP_ID"].removeprefix("OP_INSTANCE_") for code in entry["opcodes"]]


def test_every_kind_of_damage_gets_its_repair_and_a_place(tmp_path: Path, capsys: Capture) -> None:
    """What is offline decides what is done; nobody goes to a node that is not online."""
    document = cluster(5, instances={
        "both": instance("node1", "node2"),
        "mirror": instance("node3", "node1"),
        "primary": instance("node2", "node3"),
        "plain": instance("node1", disk_template="plain"),
        "well": instance("node3", "node4"),
    })  # fmt: skip
    document["cluster_tags"].append(PREFIX + "reinstall")
    for name in ("node1", "node2"):
        document["nodes"][name]["offline"] = True
    status, found = _told(document, tmp_path, capsys)
    entries = {entry["instance"]: entry for entry in found["instances"]}
    assert status == 0
    assert found["counts"] == {"Healthy": 1, "Pending repair": 4}
    assert _kinds(entries["mirror"]) == ["REPLACE_DISKS"]
    assert _kinds(entries["primary"]) == ["FAILOVER", "REPLACE_DISKS"]
    anew = ["SHUTDOWN", "RECREATE_DISKS", "REINSTALL", "STARTUP"]
    assert _kinds(entries["both"]) == _kinds(entries["plain"]) == anew
    for entry in entries.values():
        assert not {"node1", "node2"} & set(entry["to"])
        assert len(set(entry["to"])) == (1 if entry["instance"] == "plain" else 2)


def test_repair_that_is_not_allowed_is_told_and_marked(tmp_path: Path, capsys: Capture) -> None:
    """A tag says that permission lacks; without any tag of ours nothing is written."""
    document = cluster(3, instances={"a": instance("node1", "node2")})
    document["nodes"]["node1"]["offline"] = True
    status, found = _told(document, tmp_path, capsys)
    assert status == 1
    assert "tags" not in found["instances"][0]
    document["instances"]["a"]["tags"] = [PREFIX + "fix-storage"]
    status, found = _told(document, tmp_path, capsys)
    (tag,) = found["instances"][0]["tags"]["add"]
    assert (status, found["counts"]) == (1, {"Needs repair": 1})
    assert tag.startswith(PREFIX + "result:failover:")
    assert ":enoperm:" in tag


def test_repair_without_a_place_says_why(tmp_path: Path, capsys: Capture) -> None:
    """Two nodes are too few for another secondary."""
    document = cluster(2, instances={"a": instance("node1", "node2", tags=[PREFIX + "reinstall"])})
    document["nodes"]["node2"]["offline"] = True
    status, found = _told(document, tmp_path, capsys)
    assert status == 1
    assert "no nodes available" in found["instances"][0]["note"]


class _Tagged(Running):
    """A running cluster whose tags can be changed."""

    def _do(self, code: Json) -> None:
        if code["OP_ID"] in ("OP_TAGS_SET", "OP_TAGS_DEL"):
            tags = self.found(code["name"])["tags"]
            rest = [tag for tag in tags if tag not in code["tags"]]
            self.found(code["name"])["tags"] = (
                rest + code["tags"] if code["OP_ID"] == "OP_TAGS_SET" else rest
            )
            return
        super()._do(code)


def _sick(kind: str) -> Json:
    answers = rapi_answers()
    answers["nodes"] = [live_node(f"node{n}") for n in (1, 2, 3)]
    answers["nodes"][1]["offline"] = True
    answers["instances"] = [
        {**live_instance("a", "node1", "node2"), "tags": [PREFIX + kind], "nic.networks": []}
    ]
    answers["networks"] = []
    answers["info"]["master"] = "node1"
    return answers


def test_repair_is_carried_out_and_remembered_in_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pending, then success; a failure is left alone until somebody removes its tag."""
    monkeypatch.setattr("tests.execution.running.Running", _Tagged)
    for fails, last in ((False, "success"), (True, "failure")):
        folder = tmp_path / last
        folder.mkdir()
        with running(folder, _sick("fix-storage")) as world:
            words = ["repair", f"-L{world.path}", "-X"]
            assert main(words) == 0
            (pending,) = [t for t in world.found("a")["tags"] if ":pending:" in t]
            repair = int(pending.rpartition(":")[2])
            assert world.jobs[repair]["ops"][0]["remote_node"] == "node3"
            if fails:
                world.jobs[repair]["status"] = "error"
            main(words)
            tags = world.found("a")["tags"]
            assert [t.split(":")[-2] for t in tags if ":result:" in t] == [last]
            assert not any(":pending:" in tag for tag in tags)
            submitted = len(world.submitted)
            assert main(words) == (1 if fails else 0)
            assert not fails or len(world.submitted) == submitted
