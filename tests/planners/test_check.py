"""Test ``iallocator check``: every kind of finding, with its names and numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from iallocator.cli import main
from iallocator.deadline import TIME_IS_UP, Deadline, Stopped
from iallocator.planners.check import joint_failures
from iallocator.planners.check.health import FINDING_KINDS
from tests import builders
from tests.aliases import Capture
from tests.builders import Json
from tests.command import json_of, printed, run
from tests.schemas import conforms

HEAD = "default|uuid-default|preferred||\nrack|uuid-rack|preferred||\n"
POLICY = "|128,1,1024,1,1,1|128,1,1024,1,1,1;8192,8,1048576,16,8,12|drbd,plain,rbd|4.0|32.0\n"


def node(
    name: str, *, memory: int = 16384, offline: str = "N", tags: str = "", group: str = "default"
) -> str:
    """Return the line of a node in a text file; `stored` corrects its amounts."""
    return f"{name}|16384|512|{memory}|409600|307200|4|{offline}|uuid-{group}|4|{tags}|N|0|1|1.0"


def instance(
    name: str, primary: str, secondary: str = "", *, memory: int = 512, tags: str = ""
) -> str:
    """Return the line of an instance for `stored`; it is drbd if it has a secondary."""
    kind = "drbd" if secondary else "rbd"
    return f"{name}|{memory}|1024|1|running|Y|{primary}|{secondary}|{kind}|{tags}|1|1|N"


def stored(folder: Path, nodes: list[str], instances: list[str], tags: str = "") -> str:
    """Write a cluster to a text file in `folder`, and return the path of the file.

    The nodes' memory and free disk are computed so that they agree with the instances.
    """
    path = folder / "cluster.data"
    nodes = [_explained(line.split("|"), instances) for line in nodes]
    parts = [HEAD, "\n".join(nodes) + "\n", "\n".join(instances) + "\n", tags, POLICY]
    path.write_text("\n".join(parts))
    return str(path)


def _explained(fields: list[str], instances: list[str]) -> str:
    """Return the line of a node with amounts that agree with its instances."""
    held = [line.split("|") for line in instances]
    used = sum(int(one[1]) for one in held if one[6] == fields[0])
    stored = sum(int(one[2]) + 128 for one in held if one[8] == "drbd" and fields[0] in one[6:8])
    if fields[3] != "16384":
        fields[2] = str(int(fields[1]) - used - int(fields[3]))
    fields[5] = str(int(fields[4]) - stored)
    return "|".join(fields)


def check(path: str, *options: str) -> tuple[int, Json]:
    """Return the exit status and the document of `check --json`; the document fits its schema."""
    done = run("check", "--json", "-t", path, *options)
    document: Json = json.loads(done.stdout)
    conforms(document, "plan")
    assert document["command"] == "check"
    assert done.returncode == (not document["healthy"])
    return done.returncode, document


def findings(document: Json) -> list[tuple[str, str | None, str | None]]:
    """Return kind, node and instance of every finding in the document."""
    return [
        (found["kind"], found["node"], found["instance"])
        for group in document["groups"]
        for found in group["findings"]
    ]


def test_check_of_a_healthy_cluster_finds_nothing(tmp_path: Path) -> None:
    """`check` of a healthy cluster has no findings, and ends with exit status 0."""
    path = stored(tmp_path, [node("n1"), node("n2")], [instance("a", "n1", "n2")])
    status, document = check(path)
    assert (status, document["healthy"], findings(document)) == (0, True, [])
    assert document["problems"] == dict.fromkeys(FINDING_KINDS, 0)


SICK: dict[str, tuple[list[str], list[str], str, list[tuple[str, str, str | None]], str]] = {
    "n1": (
        [node("n1", memory=15000), node("n2", memory=400)],
        [instance("a", "n1", "n2", memory=512)],
        "",
        [("n1", "n2", None), ("global_n1", "n1", "a")],
        "400 MiB memory free, 512 MiB reserved for failovers",
    ),
    "global_n1": (
        [node("n1", memory=8000), node("n2", memory=3000)],
        [instance("a", "n1", memory=4000)],
        "",
        [("global_n1", "n1", "a")],
        "if it fails, a cannot be restarted: no node has the memory for it",
    ),
    "conflicts": (
        [node("n1"), node("n2")],
        [instance("a", "n1", tags="service:web"), instance("b", "n1", tags="service:web")],
        "htools:iextags:service\n",
        [("conflicts", "n1", None)],
        "exclusion tag service:web on several instances: a, b",
    ),
    "offline": (
        [node("n1", offline="Y"), node("n2"), node("n3", offline="Y")],
        [instance("a", "n1"), instance("b", "n2", "n3")],
        "",
        [("global_n1", "n2", "b"), ("offline_primary", "n1", "a"),
         ("offline_secondary", "n3", "b")],
        "primary on n1, which is offline",
    ),
    "policy": (
        [node("n1"), node("n2")],
        [instance("a", "n1", memory=64)],
        "",
        [("policy", "n1", "a")],
        "outside the policy of the group: 64 MiB memory, at least 128 allowed",
    ),
    "ratio": (
        [node("n1"), node("n2")],
        [instance(f"i{k}", "n1") for k in range(17)],
        "",
        [("policy", "n1", None)],
        "18 virtual cpus in use, 4 cpus at ratio 4 allow 16",
    ),
    "split": (
        [node("n1"), node("n2", group="rack")],
        [instance("a", "n1", "n2")],
        "",
        [("split", "n1", "a")],
        "primary on n1 in group default, secondary on n2 in group rack",
    ),
    "location": (
        [node("n1", tags="power:1"), node("n2", tags="power:1"), node("n3", tags="power:2")],
        [instance("a", "n1", "n2")],
        "htools:nlocation:power\n",
        [("location", "n1", "a")],
        "n1 and n2 are both in power:1",
    ),
    "desired": (
        [node("n1", tags="power:1"), node("n2", tags="power:2")],
        [instance("a", "n1", tags="power:2")],
        "htools:nlocation:power\nhtools:desiredlocation:power\n",
        [("location", "n1", "a")],
        "prefers power:2, which n1 does not have",
    ),
    "together": (
        [node("n1"), node("n2")],
        [instance("a", "n1", tags="iallocator:colocate:must:web"),
         instance("b", "n2", tags="iallocator:colocate:must:web")],
        "",
        [("musts", "n1", "a"), ("musts", "n2", "b")],
        "must be together with b (tag iallocator:colocate:must:web), which is on n2",
    ),
    "apart": (
        [node("n1", tags="rack:1"), node("n2", tags="rack:1"), node("n3", tags="rack:2")],
        [instance("a", "n1", tags="iallocator:separate:must:db:rack"),
         instance("b", "n2", tags="iallocator:separate:must:db:rack")],
        "",
        [("musts", "n1", "a"), ("musts", "n2", "b")],
        "must be apart from b (rack) (tag iallocator:separate:must:db:rack), which is on n2",
    ),
    "never": (
        [node("n1"), node("n2")],
        [instance("a", "n1", tags="iallocator:score:n1:-INFINITY")],
        "",
        [("musts", "n1", "a")],
        "must be not on n1 (tag iallocator:score:n1:-INFINITY)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SICK)
def test_check_names_each_problem(kind: str, tmp_path: Path) -> None:
    """`check` names node, instance and amount of each kind of problem; its exit status is 1."""
    nodes, instances, tags, expected, text = SICK[kind]
    path = stored(tmp_path, nodes, instances, tags)
    status, document = check(path)
    assert (status, findings(document)) == (1, expected)
    assert text in [f["text"] for group in document["groups"] for f in group["findings"]]
    shown = " ".join(printed("check", "-t", path, status=1).split())
    assert text in shown
    assert all((node or "") in shown and (name or "") in shown for _, node, name in expected)


def test_text_of_check_names_up_to_five_instances_with_one_problem(tmp_path: Path) -> None:
    """A row of the text of check names up to five instances, and the number of further ones."""
    for count, line in ((5, "a, b, c, d, e:"), (6, "6 instances, a, b, c, d, e, ...:")):
        instances = [instance(name, "n1") for name in "abcdef"[:count]]
        path = stored(tmp_path, [node("n1", offline="Y"), node("n2")], instances)
        assert f"{line} primary on n1" in run("check", "-t", path).stdout.decode()


def test_check_reports_what_balancing_would_repair(tmp_path: Path) -> None:
    """`check` reports which problems balancing would repair, unless --no-simulation is given."""
    nodes, instances, tags, *_ = SICK["conflicts"]
    path = stored(tmp_path, nodes, instances, tags)
    document = check(path)[1]
    assert document["balancing"] == {"tried": True, "helps": True, "move_count": 1}
    assert document["problems"]["conflicts"] == 1
    assert document["problems_after"]["conflicts"] == 0
    assert document["scores"]["after"] < document["scores"]["before"]
    document = check(path, "--no-simulation")[1]
    assert document["problems"]["conflicts"] == 1
    assert not {"balancing", "problems_after", "moves"} & set(document)


def test_check_with_no_capacity_checks_leaves_failures_out(tmp_path: Path) -> None:
    """With --no-capacity-checks, `check` neither checks nor reports global N+1."""
    nodes, instances, *_ = SICK["global_n1"]
    path = stored(tmp_path, nodes, instances)
    assert check(path, "--no-capacity-checks")[0] == 0


def test_check_like_hcheck_accepts_an_instance_in_two_groups(tmp_path: Path) -> None:
    """`check` accepts an instance with nodes in two groups, for which hcheck ends with an error."""
    nodes, instances, *_ = SICK["split"]
    path = stored(tmp_path, nodes, instances)
    lines = printed("check", "--machine-readable", "-t", path).splitlines()
    assert lines[-1] == "HCHECK_OK=1"
    assert "HCHECK_FINAL_CLUSTER_NEED_REBALANCE=0" in lines


def test_check_with_compat_hail_ignores_hard_constraints(tmp_path: Path) -> None:
    """With --compat hail or another tag prefix, `check` ignores the constraints in tags."""
    nodes, instances, *_ = SICK["together"]
    path = stored(tmp_path, nodes, instances)
    assert check(path, "--compat=hail")[0] == 0
    assert check(path, "--tag-prefix=other:")[0] == 0


def test_check_reads_simulated_clusters() -> None:
    """`check` reads simulated clusters, and reports an empty one as healthy."""
    assert printed("check", "--simulate", "p,4,100G,16g,4,2").startswith("Healthy; balancing ")


def test_check_without_simulation_scans_no_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --no-simulation, `check` does not compute any moves."""

    def scanned(*arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr("iallocator.planners.balance.scan.scan.MoveScan.__init__", scanned)
    residents = {"i": builders.instance("node1", "node2")}
    found = json_of("check", "--no-simulation", document=builders.cluster(3, instances=residents))
    assert "moves" not in found


def test_check_like_hcheck_scans_no_moves_of_a_healthy_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With --compat hail, `check` computes no moves for a healthy cluster, as hcheck."""

    def scanned(*arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr("iallocator.planners.balance.scan.scan.MoveScan.__init__", scanned)
    residents = {f"i{k}": builders.instance("node1", "node2") for k in range(3)}
    assert "HCHECK_INIT_CLUSTER_NEED_REBALANCE=0" in printed(
        "check", "--machine-readable", document=builders.cluster(3, instances=residents)
    )


def test_check_without_simulation_loads_no_array_library(tmp_path: Path) -> None:
    """With --no-simulation, `check` does not import NumPy, to start faster."""
    path = tmp_path / "cluster.json"
    residents = {"i": builders.instance("node1", "node2")}
    path.write_bytes(builders.as_bytes(builders.cluster(5, instances=residents)))
    script = (
        "import sys; from iallocator.cli import main; main(sys.argv[1:]); "
        "sys.exit('numpy' in sys.modules)"
    )
    arguments = ["check", "--no-simulation", str(path)]
    done = subprocess.run([sys.executable, "-c", script, *arguments], check=False)
    assert done.returncode == 0


def test_check_out_of_time_before_balancing_reports_problems(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If time ends before balancing begins, `check` reports the problems and why it has no plan."""
    monkeypatch.setattr(
        "iallocator.planners.balance.balance.worst_first", Mock(side_effect=Stopped(TIME_IS_UP))
    )
    path = stored(tmp_path, [node("n1", offline="Y"), node("n2")], [instance("i", "n1", "n2")])
    assert main(["check", "--json", "-t", path]) == 1
    output = capsys.readouterr()
    assert findings(json.loads(output.out))
    assert json.loads(output.out)["moves"] == []
    assert output.err.startswith("iallocator: balancing ended early: the time limit of 600 s was")
    assert json.loads(output.out)["balancing"]["reason"] == TIME_IS_UP
    assert main(["check", "-t", path]) == 1
    output = capsys.readouterr()
    assert "balancing found nothing to move before it ended early (time is up)" in output.out
    assert len(output.err.splitlines()) == 1


def test_check_analysed_in_spite_of_a_limit_of_nothing_reports_no_limit(
    tmp_path: Path, capsys: Capture
) -> None:
    """With --time-limit 0, `check` still analyses a small cluster, and reports no limit."""
    path = stored(tmp_path, [node("n1"), node("n2")], [instance("i", "n1", "n2")])
    assert main(["check", "--time-limit=0", "-t", path]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("Healthy;")
    assert not output.err


def test_check_without_time_for_pairs_of_nodes_does_not_claim_health(
    tmp_path: Path, capsys: Capture
) -> None:
    """If the pairs of nodes are not analysed in time, `check` reports that, with status 3."""
    path = stored(tmp_path, [node("n1"), node("n2")], [instance("i", "n1", "n2")])
    assert main(["check", "--failures=2", "--time-limit=0", "-t", path]) == 3
    output = capsys.readouterr().out
    assert output.startswith(
        "Nothing wrong was found, but not all failures of several nodes were analysed"
    )


def tight() -> Json:
    """Return a healthy cluster in which only simulations show that each failure is tolerated."""
    sizes = {"node1": (1500, 700, 1700, 700), "node2": (1500, 1500, 1000, 1700),
             "node3": (1500, 1000, 1500, 1000), "node4": (1500, 1700, 1500, 700, 1000)}  # fmt: skip
    residents = {
        f"{home}-{number}": builders.instance(home, memory=size, disk_template="ext")
        for home, some in sizes.items()
        for number, size in enumerate(some)
    }
    return builders.cluster(4, memory=8192, instances=residents)


def test_check_out_of_time_lists_what_is_not_analysed() -> None:
    """If time ends during analysis, `check` lists the unchecked nodes and ends with status 3."""
    assert json_of("check", document=tight())["healthy"] is True
    found = json_of("check", "--time-limit=0", document=tight(), status=3)
    conforms(found, "plan")
    names = [f"node{k}" for k in range(1, 5)]
    assert (found["healthy"], found["not_analysed"], findings(found)) == (None, names, [])
    assert found["problems"] == dict.fromkeys(FINDING_KINDS, 0)
    assert found["groups"][0]["not_analysed"] == names
    text = printed("check", "--time-limit=0", document=tight(), status=3)
    assert "Not analysed; balancing was not tried" in text
    assert "nodes with a failure that was not analysed: the check ended early    4" in text
    assert "nothing wrong was found" in text
    lines = printed("check", "--machine-readable", "--time-limit=0", document=tight(), status=3)
    assert "HCHECK_INIT_CLUSTER_GN1_FAIL=0" in lines


@pytest.mark.parametrize(("command", "status"), [("check", 3), ("report", 0)])
def test_page_out_of_time_reports_nothing_as_healthy(command: str, status: int) -> None:
    """If time ends, the page of check reports no group that was not analysed as healthy."""
    page = printed(command, "--html=-", "--time-limit=0", document=tight(), status=status)
    assert "Healthy: nothing is wrong" not in page
    assert "4 nodes with a failure that was not analysed: the check ended early" in page
    assert "<dt>Node failures tolerated</dt><dd>not analysed</dd>" in page
    assert "Nothing is wrong." not in page


def test_check_out_of_time_with_a_problem_ends_with_status_1() -> None:
    """If time ends and a problem is known, `check` ends with status 1."""
    document = tight()
    document["nodes"]["node4"]["offline"] = True
    found = json_of("check", "--time-limit=0", document=document, status=1)
    assert (found["healthy"], found["not_analysed"]) == (False, ["node1", "node2", "node3"])


def test_pairs_that_are_not_analysed_end_check_with_status_3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If pairs of nodes are not analysed, `check` ends with status 3 though no node fails N+1."""
    examined: Any = joint_failures.examine_failures

    def late(*asked: Any) -> Any:
        return examined(*asked[:-1], Deadline(0))

    monkeypatch.setattr(joint_failures, "examine_failures", late)
    residents = {"i": builders.instance("node1", "node2")}
    document = builders.cluster(3, instances=residents)
    found = json_of("check", "--failures=2", document=document, status=3)
    assert (found["healthy"], found["node_failures"]["sets"]["unknown"]) == (True, 3)


def test_check_counts_failures_of_online_nodes_by_default() -> None:
    """`check` counts failures of online nodes by default; with ``strict``, of all nodes."""
    residents = {"i": builders.instance("node1", memory=6000, disk_template="ext")}
    document = builders.cluster(3, memory=8192, instances=residents)
    document["nodes"]["node1"]["drained"] = True
    document["nodes"]["node2"]["free_memory"] = document["nodes"]["node3"]["free_memory"] = 1000
    counts = {
        mode: json_of("check", *options, document=document, status=1)["problems"]["global_n1"]
        for mode, options in {
            "default": (), "no-worse": ("--n1=no-worse",), "strict": ("--n1=strict",)
        }.items()
    }  # fmt: skip
    assert counts == {"default": 0, "no-worse": 0, "strict": 1}


@pytest.mark.parametrize(
    ("template", "kind", "count"), [("rbd", "external", 1), ("drbd", "internal", 2)]
)
def test_instance_outside_its_storage_pool_is_a_finding(
    template: str, kind: str, count: int
) -> None:
    """`check` names each node that has no access to the storage pool of its instance."""
    tag = f"iallocator:pool:{kind}:ssd"
    changes = {name: {"tags": [tag]} for name in ("node3", "node4")}

    def on(*homes: str) -> Json:
        web = builders.instance(*homes[:count], disk_template=template, tags=[tag])
        return builders.cluster(4, instances={"web": web}, changes=changes)

    found = json_of("check", document=on("node1", "node2"), status=1)
    assert found["problems"]["musts"] == 1
    (text,) = [one["text"] for group in found["groups"] for one in group["findings"]]
    assert text == "; ".join(
        f"{name} does not have access to storage pool {kind}/ssd"
        for name in ("node1", "node2")[:count]
    )
    assert json_of("check", document=on("node3", "node4"))["problems"]["musts"] == 0
