"""Test `repair` on documents and on a simulated running cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.tags.autorepair import AUTOREPAIR_PREFIX
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance, rbd
from tests.command import complaint, json_of, printed, run
from tests.execution.running import Running, running
from tests.execution.test_rapi import RapiResources
from tests.live.cluster_answers import instance as live_instance
from tests.live.cluster_answers import node as live_node
from tests.live.cluster_answers import rapi_answers
from tests.live.fakes import fake_rapi
from tests.schemas import conforms


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep locks in the folder of the test."""
    monkeypatch.setattr("iallocator.execution.lock.run_directory", lambda: str(tmp_path / "run"))
    monkeypatch.setattr("iallocator.execution.session.wait", lambda _: None)
    monkeypatch.setattr("iallocator.execution.queue_access.pause", lambda seconds: None)


def _of_document(document: Json) -> tuple[int, Json]:
    """Return the exit status of `repair`, and the repairs in its output."""
    done = run("repair", "--json", stdin=as_bytes(document))
    found: Json = json.loads(done.stdout)
    conforms(found, "repair")
    return done.returncode, found


def _kinds(entry: Json) -> list[str]:
    return [code["OP_ID"].removeprefix("OP_INSTANCE_") for code in entry["opcodes"]]


def test_every_kind_of_damage_gets_its_repair_and_a_place() -> None:
    """`repair` chooses a repair for each kind of damage, and online nodes for the instance."""
    document = cluster(5, instances={
        "both": instance("node1", "node2"),
        "secondary": instance("node3", "node1"),
        "primary": instance("node2", "node3"),
        "plain": instance("node1", disk_template="plain"),
        "well": instance("node3", "node4"),
    })  # fmt: skip
    document["cluster_tags"].append(AUTOREPAIR_PREFIX + "reinstall")
    for name in ("node1", "node2"):
        document["nodes"][name]["offline"] = True
    status, found = _of_document(document)
    entries = {entry["instance"]: entry for entry in found["instances"]}
    assert status == 0
    assert found["state_counts"] == {"Healthy": 1, "Pending repair": 4}
    assert _kinds(entries["secondary"]) == ["REPLACE_DISKS"]
    assert _kinds(entries["primary"]) == ["FAILOVER", "REPLACE_DISKS"]
    anew = ["SHUTDOWN", "RECREATE_DISKS", "REINSTALL", "STARTUP"]
    assert _kinds(entries["both"]) == _kinds(entries["plain"]) == anew
    for entry in entries.values():
        assert not {"node1", "node2"} & set(entry["to"])
        assert len(set(entry["to"])) == (1 if entry["instance"] == "plain" else 2)


@pytest.mark.parametrize("parted", [False, True])
def test_repair_of_a_violated_spread_stays_in_its_group(parted: bool) -> None:
    """An instance that must not be in one group with `b` is repaired in the group of its disks.

    `b` is in this group, too; with `parted`, it is in another group.
    """
    document = cluster({"default": 4, "far": 3})
    spread = "iallocator:separate:must:web:group"
    other = ("node5", "node6") if parted else ("node3", "node4")
    document["instances"] = {
        "a": instance("node1", "node2", tags=[spread, AUTOREPAIR_PREFIX + "failover"]),
        "b": instance(*other, tags=[spread]),
    }
    document["nodes"]["node1"]["offline"] = True
    status, found = _of_document(document)
    (entry,) = (entry for entry in found["instances"] if entry["instance"] == "a")
    assert (status, found["state_counts"]) == (0, {"Healthy": 1, "Pending repair": 1})
    assert _kinds(entry) == ["FAILOVER", "REPLACE_DISKS"]
    assert entry["to"][0] == "node2"
    assert entry["to"][1] in ("node3", "node4")


def test_repair_that_creates_disks_anew_stays_in_the_group_of_a_violated_spread() -> None:
    """An instance without any disk left is created again in the group that it was in.

    Another instance that must not be in one group with it is there, too.
    """
    document = cluster({"default": 3, "far": 3})
    spread = "iallocator:separate:must:web:group"
    document["instances"] = {
        "a": instance(
            "node1", disk_template="plain", tags=[spread, AUTOREPAIR_PREFIX + "reinstall"]
        ),
        "b": instance("node2", disk_template="plain", tags=[spread]),
    }
    document["nodes"]["node1"]["offline"] = True
    status, found = _of_document(document)
    (entry,) = (entry for entry in found["instances"] if entry["instance"] == "a")
    assert status == 0
    assert entry["to"] in (["node2"], ["node3"])


def test_repair_that_is_not_allowed_is_reported_and_marked() -> None:
    """`repair` reports a repair that is not permitted, and records that in a tag.

    An instance without tags for repairs gets none.
    """
    document = cluster(3, instances={"a": instance("node1", "node2")})
    document["nodes"]["node1"]["offline"] = True
    status, found = _of_document(document)
    assert status == 1
    assert "tag_changes" not in found["instances"][0]
    document["instances"]["a"]["tags"] = [AUTOREPAIR_PREFIX + "fix-storage"]
    status, found = _of_document(document)
    (tag,) = found["instances"][0]["tag_changes"]["add"]
    assert (status, found["state_counts"]) == (1, {"Needs repair": 1})
    assert tag.startswith(AUTOREPAIR_PREFIX + "result:failover:")
    assert ":enoperm:" in tag


@pytest.mark.parametrize("option", ["--undo=journal", "--und=journal"])
def test_repair_rejects_undo_and_names_the_command_that_does_it(option: str) -> None:
    """`repair --undo` is rejected, and the message names the command for it."""
    text = complaint(run("repair", "-L", option))
    assert text == (
        "repair takes no --undo: a journal of repair is undone by "
        "iallocator balance -L --undo JOURNAL"
    )


def test_repair_without_a_place_has_the_reason() -> None:
    """If a repair has no target node, `repair` gives the reason."""
    document = cluster(
        2, instances={"a": instance("node1", "node2", tags=[AUTOREPAIR_PREFIX + "reinstall"])}
    )
    document["nodes"]["node2"]["offline"] = True
    status, found = _of_document(document)
    assert status == 1
    assert "no nodes available" in found["instances"][0]["note"]


def _sick(kind: str) -> Json:
    answers = rapi_answers()
    answers["nodes"] = [live_node(f"node{n}") for n in (1, 2, 3)]
    answers["nodes"][1]["offline"] = True
    answers["instances"] = [
        {
            **live_instance("a", "node1", "node2"),
            "tags": [AUTOREPAIR_PREFIX + kind],
            "nic.networks": [],
        }
    ]
    answers["networks"] = []
    answers["info"]["master"] = "node1"
    return answers


def _results(scenario: Running) -> list[str]:
    """Return the states of repairs in tags of the cluster: ``pending`` or a result."""
    words = [tag[len(AUTOREPAIR_PREFIX) :].split(":") for tag in scenario.found("a")["tags"]]
    return [word[0] if word[0] == "pending" else word[4] for word in words if len(word) > 1]


def _replaced(scenario: Running) -> list[int]:
    """Return the numbers of the jobs that replace disks."""
    return [
        number
        for number, job in scenario.jobs.items()
        for code in job["ops"]
        if code["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS"
    ]


@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
def test_repair_is_executed_and_recorded_in_tags(fails: bool, tmp_path: Path) -> None:
    """`repair -X` executes repairs and records them in tags.

    A failed repair is not repeated until its tag is removed.
    """
    with running(tmp_path, _sick("fix-storage")) as scenario:
        carry_out = scenario._carry_out

        def broken(job: Json) -> None:
            if job["ops"][0]["OP_ID"] == "OP_INSTANCE_REPLACE_DISKS" and fails:
                job["status"] = "error"
                return
            carry_out(job)

        scenario._carry_out = broken  # type: ignore[method-assign]
        assert _repaired(scenario, tmp_path) == int(fails)
        assert _results(scenario) == ["failure" if fails else "success"]
        assert scenario.places()["a"] == ["node1", "node2" if fails else "node3"]
        submitted = len(scenario.submitted)
        assert _repaired(scenario, tmp_path, "second") == int(fails)
        assert len(scenario.submitted) == submitted


def _repaired(scenario: Running, folder: Path, journal: str = "first") -> int:
    return main(["repair", f"-L{scenario.path}", "-X", "--journal", str(folder / journal)])


class Killed(BaseException):
    """Raised to simulate that the process which executes repairs is killed."""


@pytest.mark.parametrize("tagged", [0, 1], ids=["before its tag is written", "afterwards"])
def test_repair_that_was_killed_is_not_repaired_twice(
    tagged: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A repair is not repeated by another call after its process was killed.

    After the repair is resumed, the tags have the result.
    """
    from iallocator.execution.repairs import RepairJobs

    retag, calls = RepairJobs.retag, [0]

    def killed(*arguments: Any) -> None:
        calls[0] += 1
        if calls[0] > tagged:
            raise Killed
        retag(*arguments)

    with running(tmp_path, _sick("fix-storage")) as scenario:
        monkeypatch.setattr(RepairJobs, "retag", killed)
        scenario.held = not tagged
        with pytest.raises(Killed):
            _repaired(scenario, tmp_path)
        monkeypatch.setattr(RepairJobs, "retag", retag)
        assert _results(scenario) == ["pending"] * tagged
        if not tagged:
            assert _repaired(scenario, tmp_path, "second") == 1
            assert "job 1 is about it" in capsys.readouterr().out
        scenario.held = False
        resumed = ["repair", f"-L{scenario.path}", "-X", "--resume", str(tmp_path / "first")]
        assert main(resumed) == 0
        assert len(_replaced(scenario)) == 1
        assert _results(scenario) == ["success"]


def test_repair_through_rapi_executes_every_step(tmp_path: Path) -> None:
    """Through RAPI, `repair` fails the instance over, then adds a secondary.

    The tag of the repair names both jobs.
    """
    answers = _sick("failover")
    answers["instances"][0] |= {"pnode": "node2", "snodes": ["node1"]}
    cluster = Running(answers)
    with fake_rapi(tmp_path, RapiResources(cluster).reply) as server:
        connection = [f"-m{server.address}", f"--cacert={server.cacert}"]
        assert main(["repair", *connection, "-X", "--journal", str(tmp_path / "journal")]) == 0
    kinds = [job["ops"][0]["OP_ID"] for job in cluster.jobs.values()]
    moves = [n for n, kind in enumerate(kinds, 1) if kind.startswith("OP_INSTANCE")]
    assert [kinds[n - 1] for n in moves] == ["OP_INSTANCE_FAILOVER", "OP_INSTANCE_REPLACE_DISKS"]
    assert cluster.places()["a"] == ["node1", "node3"]
    (tag,) = [t for t in cluster.found("a")["tags"] if ":result:" in t]
    assert tag.endswith(f":success:{moves[0]}+{moves[1]}")


def test_journal_of_a_repair_is_of_repair_only(tmp_path: Path, capsys: Capture) -> None:
    """The journal of `repair` is rejected by other commands, and theirs by `repair`."""
    with running(tmp_path, _sick("fix-storage")) as scenario:
        _repaired(scenario, tmp_path)
        journal = f"--resume={tmp_path / 'first'}"
        assert main(["balance", f"-L{scenario.path}", "-X", journal]) == 2
        assert "of iallocator repair" in capsys.readouterr().err
        assert "1 done" in printed("repair", f"-L{scenario.path}", journal)


def test_dry_run_changes_nothing(tmp_path: Path) -> None:
    """`repair` with --dry-run and -X shows the jobs, and changes no tags."""
    with running(tmp_path, _sick("fix-storage")) as scenario:
        assert "job 1: replace-disks a (node1:node2 -> node1:node3)" in printed(
            "repair", f"-L{scenario.path}", "-X", "--dry-run"
        )
        assert "adds the tag" in printed("repair", f"-L{scenario.path}", "--dry-run")
        assert not scenario.submitted


def test_reinstallation_is_executed_in_order(tmp_path: Path) -> None:
    """`repair` reinstalls an instance on the chosen node, and reports every step."""
    answers = _sick("reinstall")
    answers["instances"][0] |= {"pnode": "node2", "snodes": [], "disk_template": "plain"}
    with running(tmp_path, answers) as scenario:
        do = scenario._do

        def made_anew(code: Json) -> None:
            if code["OP_ID"] == "OP_INSTANCE_RECREATE_DISKS":
                scenario.found("a")["pnode"] = code["nodes"][0]
            do(code)

        scenario._do = made_anew  # type: ignore[method-assign]
        found = json_of("repair", f"-L{scenario.path}", "-X", f"--journal={tmp_path / 'j'}")
        assert "tag_changes" not in found["instances"][0]
        (job,) = found["execution"]["jobs"]
        assert job["description"].startswith("stop, recreate-disks, reinstall, start a (node2 -> ")
        assert found["execution"]["instances"][0]["state"] == "as planned"
        assert _results(scenario) == ["success"]


def test_page_of_repairs_shows_all_instances_and_both_ends(tmp_path: Path) -> None:
    """The page of repair has all instances with reasons, nodes and steps."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    evil = "<img src=x>"
    document = cluster(4, instances={
        evil: instance("node1", "node2", tags=[AUTOREPAIR_PREFIX + "failover"]),
        "alone": instance("node1", disk_template="plain", tags=[AUTOREPAIR_PREFIX + "failover"]),
        "failed": instance(
            "node3", "node1", tags=[AUTOREPAIR_PREFIX + "result:failover:a:20:failure:7"]
        ),
        "well": instance("node3", "node4"),
    })  # fmt: skip
    document["nodes"]["node1"]["offline"] = True
    (tmp_path / "doc").write_bytes(as_bytes(document))
    assert main(["repair", f"--html={tmp_path / 'page'}", str(tmp_path / "doc")]) == 1
    page = (tmp_path / "page").read_text()
    assert "1 repair of 3 instances: some need manual work" in page
    assert "only repairs up to failover are allowed" in page
    assert "a repair failed: left alone as long as it has" in page
    assert "instance failover, instance replace disks" in page
    assert 'href="#step-1"' in page
    assert page.count("&lt;img") > 1
    assert evil not in page


@pytest.mark.parametrize(
    ("homes", "kinds", "together"),
    [
        ({"a": "node1 node2", "b": "node1 node2"}, "failover failover", True),
        ({"a": "node1", "b": "node1"}, "reinstall reinstall", True),
        ({"a": "node1 node2", "b": "node1"}, "failover reinstall", True),
        ({"a": "node1 node2", "b": "node1 node3"}, "failover failover", False),
        ({"a": "node1 node2", "b": "node1 node2"}, "failover fix-storage", False),
    ],
)
def test_colocated_instances_are_repaired_as_one(
    homes: dict[str, str], kinds: str, together: bool
) -> None:
    """`repair` repairs all members of a colocation group to one node, or none of them."""
    constraint = "iallocator:colocate:must:pair"
    held = {
        name: instance(*nodes.split(), tags=[constraint, AUTOREPAIR_PREFIX + kind])
        for (name, nodes), kind in zip(homes.items(), kinds.split())
    }
    document = cluster(4, instances=held, changes={"node1": {"offline": True}})
    _, found = _of_document(document)
    notes = [one["note"] for one in found["instances"]]
    ends = {note.partition("goes to ")[2].partition(":")[0] for note in notes}
    assert (ends == {""}, len(ends)) == (not together, 1)
    assert (
        together
        or f"must be together with {'ab'[kinds.endswith('storage')]} (tag {constraint})" in notes[0]
    )


def broken_cluster() -> Json:
    """Return one offline node with an instance of each kind, without tags."""
    document = cluster(4, instances={
        **{f"web{n}": instance("node1", disk_template="sharedfile") for n in (1, 2, 3)},
        "primary": instance("node1", "node2"),
        "secondary": instance("node2", "node1"),
        "plain": instance("node1", disk_template="plain"),
        "file": instance("node1", disk_template="file"),
        "well": rbd("node2"),
    })  # fmt: skip
    document["nodes"]["node1"]["offline"] = True
    return document


@pytest.mark.parametrize("limit", [[], ["--time-limit=0"]])
def test_text_calls_no_instance_healthy_that_needs_a_repair(limit: list[str]) -> None:
    """The text of repair calls an instance broken although its tags call it healthy."""
    text = printed("repair", *limit, document=broken_cluster(), status=1)
    assert text.startswith("Instances: Healthy: 1, Broken: 7\n")
    rows = text.partition("Repairs\n")[2].partition("\n\n")[0]
    assert "Healthy" not in rows


def test_damaged_instances_are_listed_with_the_command_that_repairs_them() -> None:
    """Without permission, `repair` lists each damaged instance with the command to repair it."""
    status, found = _of_document(broken_cluster())
    entries = {entry["instance"]: entry for entry in found["instances"]}
    assert status == 1
    assert found["state_counts"] == {"Healthy": 8}
    assert found["unrepaired_count"] == len(entries) == 7
    kinds = {name: entry.get("repair") for name, entry in entries.items()}
    assert kinds == {
        "web1": "failover", "web2": "failover", "web3": "failover", "primary": "failover",
        "secondary": "fix-storage", "plain": "reinstall", "file": None,
    }  # fmt: skip
    for name, entry in entries.items():
        assert entry["damage"] == "node1 offline"
        assert not {"to", "opcodes", "tag_changes"} & set(entry)
        if name != "file":
            assert entry["shell_command"] == f"iallocator repair -L -X --allow {kinds[name]}"
            assert f"--allow {kinds[name]} would repair it: it goes to node" in entry["note"]
    text = run("repair", stdin=as_bytes(broken_cluster())).stdout.decode()
    assert "Broken, and not repaired now: 7" in text
    assert "primary, web1, web2, web3: iallocator repair -L -X --allow failover" in text


@pytest.mark.parametrize(
    ("allow", "repaired"),
    [
        ("fix-storage", {"secondary"}),
        ("failover", {"secondary", "primary", "web1", "web2", "web3"}),
        ("reinstall", {"secondary", "primary", "web1", "web2", "web3", "plain"}),
    ],
)
def test_option_allows_repairs_up_to_a_type_for_one_call(allow: str, repaired: set[str]) -> None:
    """--allow permits repairs up to a type for one call; other instances lack permission."""
    done = run("repair", "--json", f"--allow={allow}", stdin=as_bytes(broken_cluster()))
    found: Json = json.loads(done.stdout)
    conforms(found, "repair")
    places = {one["instance"]: one["to"] for one in found["instances"] if "to" in one}
    assert set(places) == repaired
    assert not any("node1" in nodes for nodes in places.values())
    assert found["unrepaired_count"] == 7 - len(repaired)


def test_option_does_not_lift_a_suspension() -> None:
    """--allow does not lift a suspension of repairs."""
    document = broken_cluster()
    document["cluster_tags"].append(AUTOREPAIR_PREFIX + "suspend")
    done = run("repair", "--json", "--allow=reinstall", stdin=as_bytes(document))
    found: Json = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["unrepaired_count"] == 7
    assert not any("shell_command" in one or "to" in one for one in found["instances"])


def test_instances_on_shared_storage_fail_over_once_allowed(
    tmp_path: Path, capsys: Capture
) -> None:
    """The command that `repair` prints fails instances on shared storage over."""
    answers = _sick("suspend:1")
    answers["nodes"][1]["offline"] = True
    answers["instances"] = [
        {**live_instance(f"w{n}", "node2", disk_template="rbd"), "nic.networks": []} for n in (1, 2)
    ]
    with running(tmp_path, answers) as scenario:
        live = f"-L{scenario.path}"
        assert main(["repair", live]) == 1
        assert f"w1, w2: iallocator repair {live} -X --allow failover" in capsys.readouterr().out
        words = ["--allow", "failover", "--journal", str(tmp_path / "journal")]
        assert main(["repair", live, "-X", *words]) == 0
        assert all(nodes[0] != "node2" for nodes in scenario.places().values())
        assert main(["repair", live]) == 0
        assert "Broken" not in capsys.readouterr().out.split("Now:")[-1]
        assert (
            main(["repair", live, "--resume", str(tmp_path / "journal"), "--allow=failover"]) == 2
        )
