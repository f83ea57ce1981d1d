"""Test that `place` leaves out as few instances as possible."""

from __future__ import annotations

import json
import subprocess
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from iallocator.commands.start import run_command
from iallocator.deadline import LISTED, PER_SECOND
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import json_of

from .pacemaker import KINDS, document


def place(given: Json, kind: str = "utilization", *options: str) -> Json:
    """Return the plan of `place` for a document; the plan passes verification."""
    words = ("place", "--verify-plan", f"--strategy=pacemaker-{kind}", *options)
    return json_of(*words, document=given)


def contrived(**members: Any) -> Json:
    """Return the example of Pacemaker's documentation, with `members` in each instance."""
    sizes = {"small": 1, "medium": 2, "large": 3}
    return {
        "nodes": {
            "node1": {"capacity": {"cpu": 2, "memory": 2048}},
            "node2": {"capacity": {"cpu": 4, "memory": 4096}},
        },
        "instances": {
            name: {"needs": {"cpu": size, "memory": 1024 * size}, **members.get(name, {})}
            for name, size in sizes.items()
        },
    }


@pytest.mark.parametrize("kind", KINDS)
def test_place_places_all_where_the_rules_leave_one_out(kind: str) -> None:
    """`place` places all instances where Pacemaker's rules leave out a large one."""
    given = document(contrived())
    assert None not in place(given, kind)["placement"].values()
    greedy = place(given, kind, "--exact-search=no")["placement"]
    assert (greedy["large"] is None) == (kind != "default")
    if kind != "default":
        expected = {"small": "node2", "medium": "node1", "large": "node2"}
        assert place(given, kind)["placement"] == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "default"])
def test_place_with_too_many_candidates_for_a_search_reports_it_and_keeps_the_answer_of_the_rules(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`place` reports a search that is too large, and keeps the answer of the rules.

    Three instances have two nodes each, and a search may list five.
    """
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(document(contrived())))
    command = ["place", "--json", "--verify-plan", f"--strategy=pacemaker-{kind}"]
    answers = {}
    for each_second, options in ((1, ()), (2, ()), (2, ("--exact-search=no",))):
        monkeypatch.setitem(PER_SECOND, LISTED, each_second)
        assert run_command("place", [*command, *options, str(path)]) == 0
        output = capsys.readouterr()
        answers[each_second, *options] = json.loads(output.out), output.err
    (cut, reported), (whole, _), (greedy, _) = answers.values()
    assert "exact search was not begun: 3 instances have 5 places or more" in reported
    assert cut["instances"] == greedy["instances"] != whole["instances"]
    assert cut["transition"] == greedy["transition"]


def test_place_leaves_out_the_lowest_priority_where_not_all_fit() -> None:
    """If not all instances fit, `place` leaves out the one with the lowest priority."""
    given = contrived(small={"priority": 5}, medium={"priority": 5}, large={"priority": 5})
    given["instances"] |= {
        "other": {"needs": {"cpu": 3, "memory": 3072}, "priority": 9},
        "least": {"needs": {"cpu": 1, "memory": 1024}},
    }
    found = place(document(given))["placement"]
    assert found["other"] == "node2"
    assert [name for name, node in found.items() if node is None] == ["large", "least"]


def test_place_keeps_colocation_groups_together() -> None:
    """`place` puts the members of a colocation group on one node, with and without search."""
    given = contrived(small={"group": "g"}, medium={"group": "g"})
    found = place(document(given))["placement"]
    assert found["small"] == found["medium"] != found["large"] is None


def _full(*tags: str) -> Json:
    """Return one node that two instances of 1024 MiB fill; the first has a higher priority."""
    capacity = "iallocator:utilization:memory:1024"
    instances = {
        "first": rbd(
            "node1", admin_state="down",
            tags=[capacity, "iallocator:priority:5"],
        ),
        "second": rbd("node1", tags=[capacity, *tags]),
    }  # fmt: skip
    given = cluster(1, instances=instances)
    given["nodes"]["node1"]["tags"] = [capacity]
    return given


def test_place_never_leaves_out_an_instance_that_must_keep_running() -> None:
    """`place` never stops an instance that must keep running for a more important one."""
    assert place(_full())["placement"] == {"first": "node1", "second": None}
    found = place(_full("iallocator:keep-running"))
    assert found["placement"] == {"first": None, "second": "node1"}
    assert not found["transition"]["steps"]


def _stopping(**members: Any) -> Json:
    """Return nodes with disks filled by "old", which place stops for lack of other capacity.

    "new" has a higher priority and prefers the node with these disks.
    """
    rather = ["iallocator:score:node1:5", "iallocator:score:node2:5", "iallocator:priority:9"]
    small, large = (f"iallocator:utilization:memory:{amount}" for amount in (512, 9000))
    disk = {"disk_template": "drbd", "disk": 60000}
    instances = {
        "old": instance("node1", "node2", tags=[large], **disk),
        "new": instance("node3", "node4", tags=[small, *rather], **disk),
    }
    given = cluster(4, instances=instances)
    for node in given["nodes"].values():
        node["tags"] = ["iallocator:utilization:memory:1024"]
    return given


@pytest.mark.parametrize("search", ["yes", "no"])
def test_place_counts_the_disks_of_instances_that_it_stops(search: str) -> None:
    """`place` gives no instance the disk space of an instance that it stops."""
    found = place(_stopping(), "utilization", f"--exact-search={search}")
    homes = {entry["instance"]: entry["to"] for entry in found["instances"]}
    assert homes == {"old": [], "new": ["node3", "node4"]}


def test_exact_search_counts_the_disks_of_instances_that_it_leaves_out() -> None:
    """Exact search of `place` counts the disks of instances that it leaves out.

    The rules leave out two instances, the search one, which keeps its disk space.
    """
    given = _stopping()
    for name, size in (("small", 256), ("medium", 512)):
        given["instances"][name] = rbd("node3", tags=[f"iallocator:utilization:memory:{size}"])
    found = place(given, "utilization")
    homes = {entry["instance"]: entry["to"] for entry in found["instances"]}
    assert homes["old"] == []
    assert homes["new"] == ["node3", "node4"]


def test_place_leaves_a_forthcoming_instance_where_it_will_be_created() -> None:
    """`place` does not move a forthcoming instance; its exclusion tag applies to its node."""
    instances = {
        name: rbd("node1", tags=["role:a", "iallocator:score:node2:5"]) for name in ("web", "later")
    }
    instances["later"] |= {"forthcoming": True, "nodes": ["node2"]}
    given = cluster(3, instances=instances, tags=("htools:iextags:role",))
    found = place(given)
    assert found["placement"] == {"web": "node1", "later": "node2"}
    assert found["moves"] == []
    assert (
        "it does not exist yet" in found["instances"][1]["reason"] + found["instances"][0]["reason"]
    )


def test_place_creates_no_instance_that_must_start_after_one_left_out() -> None:
    """`place` creates no instance that must start after one that is not placed."""
    given = allocate_rbd(cluster(2, memory=4096), memory=8192, name="base")
    base = given["request"]
    wanted = [
        base,
        base | {"name": "app", "memory": 512, "tags": ["iallocator:order:after:base"]},
        base | {"name": "web", "memory": 512, "tags": ["iallocator:order:after:app"]},
        base | {"name": "other", "memory": 512},
        base | {"name": "lost", "memory": 512, "tags": ["iallocator:order:after:absent"]},
    ]
    given["request"] = {"type": "multi-allocate", "instances": wanted}
    found = place(given)
    created = {name for name, node in found["placement"].items() if node}
    assert created == {"other"}
    why = {entry["instance"]: entry["reason"] for entry in found["instances"]}
    assert "starts after base" in why["app"]
    assert "starts after app" in why["web"]
    assert "absent" in why["lost"]


def test_place_stops_no_instance_because_its_node_is_overcommitted() -> None:
    """`place` stops no instance because its node is overfull."""
    instances = {f"i{k}": rbd("node1", memory=1024, vcpus=1) for k in range(4)}
    given = cluster(1, memory=4096, instances=instances)
    found = place(given, "default")
    assert set(found["placement"].values()) == {"node1"}


def test_place_ignores_soft_limits_only_for_instances_without_another_node() -> None:
    """`place` ignores an exclusion tag only for an evacuated instance without another node."""
    instances = {
        name: rbd(home, tags=["role:a"]) for name, home in (("old", "node2"), ("web", "node1"))
    }
    given = cluster(3, instances=instances, tags=("htools:iextags:role",))
    given["nodes"]["node1"]["offline"] = True
    assert place(given, "minimal")["placement"] == {"old": "node2", "web": "node3"}
    given["nodes"]["node3"]["drained"] = True
    assert place(given, "minimal")["placement"] == {"old": "node2", "web": "node2"}


def test_place_keeps_both_copies_of_a_new_instance_on_the_nodes_named() -> None:
    """`place` restricts both nodes of a new drbd instance to the named nodes."""
    given = allocate(cluster(4), disk_template="drbd", name="new")
    given["request"]["restrict-to-nodes"] = ["node2", "node4"]
    (new,) = place(given)["instances"]
    assert sorted(new["to"]) == ["node2", "node4"]


def test_creation_has_all_parameters_that_ganeti_requires() -> None:
    """The opcode of a creation has all parameters that Ganeti requires.

    Interfaces, operating system and tags are those of the request; Ganeti's own code loads it.
    """
    given = allocate_rbd(cluster(2), tags=["iallocator:keep-running"])
    nic = {
        "mac": "aa:00:00:11:22:33",
        "ip": None,
        "mode": "bridged",
        "link": "br0",
        "bridge": "br0",
    }
    given["request"] |= {"nics": [nic], "os": "debian", "hypervisor": "kvm"}
    (step,) = place(given)["transition"]["steps"]
    (opcode,) = step["opcodes"]
    assert opcode["nics"] == [{"mac": "aa:00:00:11:22:33", "mode": "bridged", "link": "br0"}]
    assert (opcode["os_type"], opcode["hypervisor"]) == ("debian", "kvm")
    assert opcode["tags"] == ["iallocator:keep-running"]
    _load(opcode)


def _load(opcode: Json) -> None:
    """Load an opcode with Ganeti's own code, which checks its parameters."""
    code = (
        "import glob, json, sys; sys.path[:0] = glob.glob('/usr/share/ganeti/[23]*')[-1:];"
        "from ganeti import opcodes;"
        "opcodes.OpCode.LoadOpCode(json.load(sys.stdin)).Validate(True)"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", code], input=json.dumps(opcode), text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    if "No module named" in done.stderr:
        pytest.skip("Ganeti's Python code is not installed")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_place_does_not_depend_on_the_order_of_nodes_and_groups(kind: str) -> None:
    """The plan of `place` does not depend on the order of nodes and groups in the document."""
    sizes = {"node1": (3, 2, 1), "node2": (2, 1, 3), "node3": (1, 3, 2)}
    instances = {f"i{k}": rbd("node1") for k in range(4)}
    given = cluster({"default": 3, "second": 2}, instances=instances)
    for name, amounts in sizes.items():
        tags = [f"iallocator:utilization:{key}:{n}" for key, n in zip("abc", amounts)]
        given["nodes"][name]["tags"] = tags
    answers = []
    for order in permutations(sizes):
        nodes = {name: given["nodes"][name] for name in ("node5", *order, "node4")}
        groups = dict(reversed(given["nodegroups"].items()))
        answers.append(place(given | {"nodes": nodes, "nodegroups": groups}, kind))
    assert all(answer == answers[0] for answer in answers)
    assert place(given, kind) == answers[0]


def test_place_handles_instances_of_equal_priority_in_the_order_of_the_document() -> None:
    """Instances of equal priority are placed in the order of the document, as in Pacemaker."""
    needs = ["iallocator:utilization:memory:1024"]
    instances = {name: rbd("node1", admin_state="down", tags=needs) for name in ("b", "a")}
    given = cluster(1, instances=instances)
    given["nodes"]["node1"]["tags"] = needs
    assert place(given)["placement"] == {"b": "node1", "a": None}
    given["instances"] = dict(sorted(instances.items()))
    assert place(given)["placement"] == {"a": "node1", "b": None}


def test_place_omits_a_search_that_found_nothing_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`place` reports no search that found nothing better than the rules."""
    after = ["iallocator:order:after:base"]
    held = {"base": instance("node1"), "x": rbd("node1", tags=after)}
    path = tmp_path / "document.json"
    path.write_bytes(as_bytes(cluster(3, instances=held, changes={"node1": {"offline": True}})))
    assert run_command("place", ["place", "--json", "--strategy=balanced", str(path)]) == 0
    output = capsys.readouterr()
    assert (json.loads(output.out)["placement"]["x"], output.err) == (None, "")


def test_place_stops_no_instance_for_a_stopped_one_that_cannot_move() -> None:
    """`place` stops no running instance for a stopped one that cannot move."""
    apart = ["iallocator:separate:must:db"]
    down = {
        f"p{k}": instance(f"node{k}", tags=apart, admin_state="down", disk=60000) for k in (1, 2)
    }
    runs = {"x": rbd("node1", tags=apart)}
    given = cluster(2, disk=102400, instances=down | runs)
    assert place(given, "balanced")["placement"] == {"p1": None, "p2": None, "x": "node1"}
    wanted = allocate(given, disk_template="plain", disk=60000)
    assert place(wanted, "balanced", "--n1=off")["placement"]["new"] is None
