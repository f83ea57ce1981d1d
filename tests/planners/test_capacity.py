"""Test `iallocator capacity`: its counts, its output, and its limits."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import clusters
from iallocator.commands.planner_options import Capacity
from iallocator.deadline import SIGNALLED, Stopped
from iallocator.model.state import State
from iallocator.n1.counting import CountedTolerance
from iallocator.planners.capacity import fill
from iallocator.planners.capacity.fill import Rejections
from iallocator.planners.capacity.site import CapacityState, Size
from iallocator.render import text_of
from iallocator.sources.writer import write_text
from iallocator.wire.document import cluster_policy, read_cluster
from iallocator.wire.reading import Reading
from tests import builders
from tests.builders import Json
from tests.command import json_of, run
from tests.conformance.documents import KINDS, document
from tests.planners.capacities import cluster, options
from tests.schemas import conforms
from tests.seeds import seeds

SIMULATED = ("--simulate", "preferred,3,100G,16g,4,2")

FAILING = """\
g1|u1|preferred||
g2|u2|preferred||

a1|4096|0|1096|204800|200000|4|N|u1|4
a2|4096|0|500|204800|200000|4|N|u1|4
a3|4096|0|4096|204800|200000|4|N|u1|4
b1|4096|0|4096|204800|200000|4|N|u2|4
b2|4096|0|4096|204800|200000|4|N|u2|4

i1|3000|1000|1|running|Y|a1|a2|drbd||1

"""
"""A text file in which a2 cannot restart i1 if a1 fails; group g2 has no instances."""

HALF_RESERVED = """\
g1|u1|preferred||

c1.example.com|4096|0|96|204800|200000|4|N|u1|4
c2.example.com|4096|0|4096|204800|200000|4|N|u1|4

i1|3000|1000|1|running|Y|c1.example.com|c2.example.com|drbd||1

"""
"""A text file in which most of the free memory of c2 is reserved for a failover of i1."""


def ask(*words: str) -> tuple[int, str, str]:
    """Return the exit status, stdout and stderr of `capacity`."""
    done = run("capacity", *words)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def answer(*words: str) -> Json:
    """Return the document that `capacity --json` prints."""
    return json_of("capacity", *words)


@pytest.mark.parametrize("seed", seeds(4, 8, 100))
def test_capacity_json_keeps_its_schema(seed: int, tmp_path: Path) -> None:
    """`capacity --json` prints a document that fits its schema, with consistent counts."""
    path = tmp_path / "cluster.data"
    path.write_text(cluster(seed))
    found = answer("-t", str(path), *options(seed))
    conforms(found, "capacity")
    for kind in ("tiered", "standard"):
        filled = found[kind]
        assert sum(size["count"] for size in filled["sizes"]) == filled["count"]
        assert len(filled["instances"]) == filled["count"]
        assert (
            filled["usage_after"]["instance_count"]
            == found["usage"]["instance_count"] + filled["count"]
        )


@pytest.mark.parametrize("seed", seeds(4, 8, 108))
def test_capacity_of_a_full_cluster_is_zero(seed: int, tmp_path: Path) -> None:
    """`capacity` places no further instance in the full cluster that it saved with -S."""
    path, saved = tmp_path / "cluster.data", tmp_path / "saved"
    path.write_text(cluster(seed))
    first = answer("-t", str(path), "-S", str(saved), *options(seed))
    again = answer("-t", f"{saved}.standard", *options(seed))
    scores = [
        found.pop("cluster_score") for found in (again["usage"], first["standard"]["usage_after"])
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-8)
    assert again["usage"] == first["standard"]["usage_after"]
    assert again["standard"]["count"] == 0
    assert again["standard"]["failures"] == first["standard"]["failures"]


@pytest.mark.parametrize("seed", seeds(3, 6, 116))
def test_capacity_does_not_depend_on_the_order_of_lines(seed: int, tmp_path: Path) -> None:
    """`capacity` places the same instances if the lines of the text file are in another order."""
    path = tmp_path / "cluster.data"
    sections = cluster(seed).split("\n\n")
    path.write_text("\n\n".join(sections))
    first = ask("-t", str(path), "--json", *options(seed))
    sections[1] = "\n".join(reversed(sections[1].splitlines()))
    path.write_text("\n\n".join(sections))
    assert ask("-t", str(path), "--json", *options(seed)) == first


def test_capacity_of_a_captured_document_is_that_of_its_cluster(tmp_path: Path) -> None:
    """`capacity` fills the cluster of a captured document, whatever the document's request.

    The text file of the cluster gives equal results except for global N+1: the file has only the
    sum of the disks of each instance.
    """
    placed = 0
    for seed in range(200, 206):
        raw = document(seed, "relocate")
        path, text = tmp_path / "request.json", tmp_path / "cluster.data"
        path.write_text(json.dumps(raw))
        read = read_cluster(raw, Reading(static_kvm_memory=0))
        text.write_text(write_text(read, State(read), policy=cluster_policy(raw)))
        words = ["--disk-template=rbd", "--standard-alloc=1g,512,1", "--no-capacity-checks"]
        words.append("--static-kvm-node-memory=0")
        statuses, found = [], []
        for source in ([str(path)], ["-t", str(text)]):
            status, out, _ = ask("--json", *source, *words)
            statuses.append(status)
            found.append(json.loads(out))
        assert statuses[0] == statuses[1]
        first, second = found
        assert first["standard"]["count"] == second["standard"]["count"], seed
        assert first["usage"]["cluster_score"] == pytest.approx(
            second["usage"]["cluster_score"], abs=1e-8
        )
        placed += first["standard"]["count"]
    assert placed


def both_ways(patch: pytest.MonkeyPatch, *words: str) -> int:
    """Assert that kept values do not change the output; return the number of placed instances."""
    patch.setattr(fill, "INSTANCES_WORTH_KEEPING", 0)
    quick = ask(*words, "--json")
    with patch.context() as plainly:
        plainly.setattr(fill, "INSTANCES_WORTH_KEEPING", -1)
        plainly.setattr(CountedTolerance, "tolerates", lambda *_: None)
        plainly.setattr(CountedTolerance, "allows", lambda *_: None)
        plainly.setattr(CountedTolerance, "prepare", lambda *_: None)
        plainly.setattr(Rejections, "exceeds_capacity", lambda *_, **__: False)
        plainly.setattr(Rejections, "alike", lambda *_, **__: 0)
        assert ask(*words, "--json") == quick, words
    found = json.loads(quick[1])
    return sum(found[kind]["count"] for kind in ("tiered", "standard"))


@pytest.mark.parametrize("template", ["drbd", "plain", "rbd"])
def test_capacity_with_kept_values_equals_the_plain_computation(
    template: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values that `capacity` keeps from instance to instance do not change its output."""
    path, placed = tmp_path / "cluster.data", 0
    for seed in range(130, 138):
        path.write_text(cluster(seed))
        words = ["-t", str(path), f"--disk-template={template}", "--standard-alloc=10g,1g,1"]
        words.append("--tiered-alloc=20g,3g,2")
        words += ([], ["--n1=no-new"], ["--compat=hail"], ["-l", "9"])[seed % 4]
        placed += both_ways(monkeypatch, *words)
    assert placed > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 300, 10))
def test_capacity_of_documents_with_kept_values_equals_the_plain_computation(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that `capacity` keeps do not change its output for documents with many features.

    The documents have pools, exclusive storage, locations, tags and soft limits.
    """
    path = tmp_path / "request.json"
    for number in range(seed, seed + 10):
        chance = Random(number)
        path.write_text(json.dumps(document(number, chance.choice(KINDS))))
        template = chance.choice(("drbd", "drbd", "plain", "rbd", "file", "diskless"))
        words = [str(path), f"--disk-template={template}", "--standard-alloc=2g,512,1"]
        words += ["--tiered-alloc=10g,2g,2,2", "--accept-existing-errors"]
        words += chance.choice(([], [], ["--n1=strict"], ["--n1=no-new"], ["--n1=off"]))
        words += chance.choice(([], [], ["--compat=hail"], ["--ignore-soft-errors"], ["-l", "17"]))
        both_ways(monkeypatch, *words)


ASKED = 40
"""Number of sizes at each end of a sequence that the test requests one by one."""


def test_sizes_rejected_alike_are_rejected_when_each_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`capacity` skips a sequence of sizes only if each of them is rejected for one reason."""
    found_by_n1: Counter[bool] = Counter()
    plain = Rejections.alike

    def checked(self: Rejections, size: Size, reason: str, every: bool) -> int:
        found = plain(self, size, reason, every)
        expected = self.of(size, every)
        for number in {*range(1, found + 1)[:ASKED], *range(1, found + 1)[-ASKED:]}:
            one = size.smaller(reason, number)
            assert one is not None
            rejected = self._site.probe(self.probe(one), every)
            assert rejected == ((), expected), one.amounts()
        found_by_n1["FailN1" in (expected or {})] += found > 1
        return found

    monkeypatch.setattr(Rejections, "alike", checked)
    path = tmp_path / "cluster.data"
    for seed in seeds(2, 30):
        shape = clusters.Shape(
            5 + seed % 4, "plain", per_node=4, fullness=0.5, seed=seed, crowding=0.3
        )
        path.write_text(clusters.as_text(clusters.document(shape)))
        words = ["--standard-alloc=1m,1m,1", "--tiered-alloc=60g,12g,2"]
        ask("-t", str(path), "--disk-template=plain", *words)
    assert found_by_n1[True], found_by_n1


def test_capacity_explains_the_policy_before_spindles() -> None:
    """`capacity` prints reasons for rejections in a fixed order, which scripts may rely on."""
    amounts = {"used": 0, "free": 0, "available": 0}
    now = {"instances": 0, "score": 0.0, "memory": amounts, "disk": amounts, "cpu": amounts}
    run = {
        "start": {"disk_template": "drbd", "memory": 1, "disk": 1, "vcpus": 1},
        "count": 0, "sizes": [], "after": now, "closest": "",
        "end": "FailSpindles: 2, FailPolicy: 1",
    }  # fmt: skip
    cluster = {"nodes": 1, "memory": 1, "disk": 1, "vcpus": 1, "cpus": 1}
    document = {"cluster": cluster, "before": now, "tiered": run}
    text = text_of("capacity", document, {}, Capacity())
    assert text.index("FailPolicy: rejected") < text.index("FailSpindles: spindles")


def test_capacity_page_has_every_figure() -> None:
    """The page of capacity has used and free amounts, scores, counts by size, and the reason."""
    status, out, err = ask(*SIMULATED, "--disk-template=plain", "--tiered-alloc=10g,2g,2", "-v")
    assert status == 0
    assert "Tiered (plain): 14 more instances" in out
    assert "Standard (plain): 45 more instances" in out
    assert "Ended by: FailN1 (FailN1: 3)" in out
    assert "Ended by: FailCPU (FailCPU: 3)" in out
    assert re.search(r"^ *tiered +14 +[1-9]\.[0-9]{8} +28\.0 ", out, re.MULTILINE)
    assert "Standard allocation map\n  new-0 node-01-001\n" in err


def test_capacity_of_a_cluster_with_a_failing_node(tmp_path: Path) -> None:
    """`capacity` places nothing if a failure is not tolerated, unless options permit it.

    Options ignore existing errors, check N+1 of the new instances only, or fill each group alone.
    """
    path = tmp_path / "cluster.data"
    path.write_text(FAILING)
    words = ["-t", str(path), "--standard-alloc=1g,256,1"]
    rbd, drbd = "--disk-template=rbd", "--disk-template=drbd"
    rejected = answer(*words, rbd)["standard"]
    assert (rejected["count"], rejected["failures"]) == (0, {"FailN1": 1})
    assert "not N+1 compliant (failing nodes: 1, a2)" in rejected["reason"]
    assert "--accept-existing-errors" in rejected["reason"]
    alone = answer(*words, rbd, "--independent-groups")["standard"]
    assert alone["count"] == 15
    assert {node for one in alone["instances"] for node in one["nodes"]} == {"b1", "b2"}
    assert answer(*words, rbd, "--accept-existing-errors")["standard"]["count"] == 0
    assert answer(*words, drbd, "--accept-existing-errors")["standard"]["count"] == 20
    assert answer(*words, rbd, "--n1=no-new")["standard"]["count"] > 15


def test_capacity_stops_at_its_limits() -> None:
    """`capacity` stops at the given number of instances and at the time limit."""
    words = (*SIMULATED, "--disk-template=rbd", "--tiered-alloc=10g,2g,2")
    limited = answer(*words, "-l", "5")
    assert [limited[kind]["count"] for kind in ("tiered", "standard")] == [5, 5]
    assert limited["standard"]["failure_reason"] is None
    late = json_of("capacity", *words, "--time-limit=0", status=3)
    assert late["standard"]["reason"] == "time is up"


def test_capacity_uses_only_permitted_nodes() -> None:
    """`capacity` places no instances on nodes that options exclude or mark as offline."""
    words = (*SIMULATED, "--disk-template=drbd", "--no-capacity-checks")
    for choice in ("--restrict-allocation-to=node-01-001,node-01-002", "-Onode-01-003"):
        placed = answer(*words, choice)["standard"]["instances"]
        assert {node for one in placed for node in one["nodes"]} == {"node-01-001", "node-01-002"}


def test_capacity_interrupted_reports_the_instances_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C, `capacity` prints the instances placed so far."""
    place, left, settled = CapacityState.place, [4], [0]

    def interrupted(site: CapacityState, arrivals: Sequence[Any]) -> None:
        left[0] -= 1
        place(site, arrivals)
        if not left[0]:
            raise Stopped(SIGNALLED)
        settled[0] += len(arrivals)

    monkeypatch.setattr(CapacityState, "place", interrupted)
    status, out, _ = ask(*SIMULATED, "--disk-template=plain", "--json")
    found = json.loads(out)
    assert status == 130
    assert (
        "standard" not in found
        or found["standard"]["count"] == settled[0] - found["tiered"]["count"]
    )
    ended = found.get("standard", found["tiered"])
    assert ended["reason"] == "interrupted"
    assert ended["usage_after"]["instance_count"] == ended["count"]


def test_capacity_without_a_reader_reports_no_progress() -> None:
    """`capacity` prints progress on terminals only."""
    assert ask(*SIMULATED, "--disk-template=plain")[2] == ""


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--standard-alloc=1g,1g"], "--standard-alloc: expected disk,memory,cpus[,spindles]"),
        (["--tiered-alloc=1g,x,1"], "--tiered-alloc: expected disk,memory,cpus[,spindles]"),
        (["--tiered-alloc=1g,1g,-1"], "--tiered-alloc: expected disk,memory,cpus[,spindles]"),
        (["--disk-template=tape"], "--disk-template: expected one of"),
        (["--offline=nowhere"], "--offline: unknown node nowhere"),
        (["--restrict-allocation-to=x,y"], "--restrict-allocation-to: unknown node x"),
        (["file.json"], "one cluster at most"),
    ],
)
def test_capacity_reports_errors_of_the_command_line(words: list[str], problem: str) -> None:
    """`capacity` reports an error of the command line in one line, with exit status 2."""
    status, out, err = ask(*SIMULATED, *words)
    assert (status, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_capacity_without_an_online_node_fails() -> None:
    """If no node is online, `capacity` prints the initial figures and ends with status 1."""
    words = ("--simulate=preferred,1,100G,16g,4,2", "--disk-template=drbd")
    status, out, err = ask(*words, "--machine-readable")
    assert status == 1
    assert err == "iallocator: no online nodes for instances of this kind\n"
    assert out.splitlines()[-1] == "HTS_INI_MNODE_DSK_AVAIL=95367"


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_capacity_out_of_time_reports_it_for_each_mode(template: str) -> None:
    """The time limit of capacity applies to both its counts together: standard and tiered.

    Both report that the time was up.
    """
    spec = "--simulate=p,60,4t,256g,32"
    done = subprocess.run(
        [sys.executable, "-m", "iallocator", "capacity", "--json", "--time-limit=0.05", spec,
         f"--disk-template={template}"],
        capture_output=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert done.returncode == 3, done
    assert found["tiered"]["reason"] == found["standard"]["reason"] == "time is up"
    assert found["tiered"]["count"] == len(found["tiered"]["instances"])


def test_capacity_ended_by_the_failover_reserve_names_it(tmp_path: Path) -> None:
    """If memory reserved for failovers is short, `capacity` names the reserve in its reason."""
    file = tmp_path / "cluster.data"
    file.write_text(HALF_RESERVED)
    size = ("--standard-alloc=1024,1500,1", "--disk-template=plain", "--n1=off")
    found = answer("-t", str(file), *size)["standard"]
    reported = found["closest"]
    assert found["count"] == 0
    assert reported == "c2 lacks 405 MiB memory (failover reserve included)"


ENDLESS = """\
g|u|preferred||

a1|4096|0|4000|204800|200000|4|N|u|1
a2|4096|0|4000|204800|200000|4|N|u|1



|128,1,1024,1,1,1|0,0,0,0,0,0;32768,8,1048576,16,8,12|rbd,plain,drbd,diskless|{ratio}|32.0
g|128,1,1024,1,1,1|0,0,0,0,0,0;32768,8,1048576,16,8,12|rbd,plain,drbd,diskless|{ratio}|32.0
"""
"""A text file of two nodes with a policy that allows empty instances; `ratio` is of cpus."""


@pytest.mark.parametrize("kind", ["standard", "tiered"])
@pytest.mark.parametrize(
    ("template", "size", "ratio"),
    [
        ("rbd", "0,0,0", 4.0),
        ("rbd", "1g,0,0", 4.0),
        ("rbd", "0,0,1", 1e9),
        ("diskless", "0,0,0", 4),
    ],
)
def test_capacity_for_instances_without_resources_is_rejected(
    kind: str,
    template: str,
    size: str,
    ratio: float,
    tmp_path: Path,
) -> None:
    """`capacity` rejects instances that use no memory and no disk, because their number is
    unlimited.

    With a maximum (--max-length), it counts them. Instances that only use cpus have a limit.
    """
    path = tmp_path / "cluster.data"
    path.write_text(ENDLESS.format(ratio=ratio))
    words = ["-t", str(path), f"--disk-template={template}", f"--{kind}-alloc={size}"]
    status, out, err = ask(*words)
    assert (status, out) == (2, "")
    assert "takes no memory" in err
    assert "--max-length" in err
    assert answer(*words, "--max-length=3")[kind]["count"] == 3


@pytest.mark.parametrize("template", ["rbd", "plain", "drbd"])
def test_capacity_for_instances_with_cpus_only_ends_with_cpus(
    template: str, tmp_path: Path
) -> None:
    """`capacity` stops at the cpu ratio for instances that need nothing but cpus."""
    path = tmp_path / "cluster.data"
    path.write_text(ENDLESS.format(ratio=4.0))
    words = ["-t", str(path), f"--disk-template={template}", "--spindle-use=0"]
    words += ["--standard-alloc=0,0,1", "--tiered-alloc=0,0,8"]
    assert answer(*words)["standard"]["count"] == 30


def test_capacity_of_a_simulated_cluster_counts_instances_with_disks() -> None:
    """`capacity` of a simulated cluster counts instances with disks, up to the disk space."""
    words = ("capacity", "--simulate=preferred,3,300g,32g,8")
    found = json_of(*words)
    assert found["usage"]["cpu_usage"]["used"] == 0
    assert found["standard"]["start"]["disk_template"] == "drbd"
    assert all(size["disk"] <= 300 * 1024 for size in found["tiered"]["sizes"])
    assert found["standard"]["usage_after"]["cpu_usage"]["used"] == found["standard"]["count"]
    one = json_of("capacity", "--simulate=preferred,1,300g,32g,8", "--n1=off")
    assert one["standard"]["start"]["disk_template"] == "plain"
    diskless = json_of(*words, "--disk-template=diskless")
    assert {size["disk"] for size in diskless["tiered"]["sizes"]} == {0}
    assert diskless["tiered"]["start"]["disk"] == 0
    hail = json_of(*words, "--compat=hail")
    assert hail["standard"]["start"]["disk_template"] == "diskless"


def test_capacity_leaves_out_disk_templates_that_are_unknown(tmp_path: Path) -> None:
    """`capacity` skips disk templates of the policy that iallocator does not know."""
    raw = clusters.document(clusters.Shape(3))
    path = tmp_path / "cluster.json"

    def with_templates(*templates: str) -> tuple[str, ...]:
        raw["ipolicy"] = {**raw["ipolicy"], "disk-templates": list(templates)}
        path.write_text(json.dumps(raw))
        return "--n1=off", "--max-length=2", str(path)

    known = answer(*with_templates("zfs", "rbd"))
    assert known["standard"]["start"]["disk_template"] == "rbd"
    status, out, err = ask(*with_templates("zfs"))
    assert (status, out) == (2, "")
    assert "the policy has no disk templates but zfs: expected --disk-template" in err
    assert answer("--disk-template=plain", *with_templates("zfs"))["standard"]["count"] == 2


def test_contradicting_simulations_end() -> None:
    """Two nodes with almost equal scores: predictions that contradict each other are given up."""
    document = builders.cluster(4, memory=4000, disk=6000, cpus=64)
    homes = {"i0": ("node1", 900), "i1": ("node1", 500), "i2": ("node1", 500)}
    homes |= {"i3": ("node3", 900), "i4": ("node3", 500)}
    for name, (node, memory) in homes.items():
        document["instances"][name] = builders.instance(node, memory=memory, disk_template="rbd")
    for name, total in {"node1": 4500, "node2": 4000, "node3": 4500, "node4": 4000}.items():
        used = sum(memory for node, memory in homes.values() if node == name)
        raw = document["nodes"][name]
        raw |= {"total_memory": total, "reserved_memory": 0, "free_memory": total - used}
    words = ("capacity", "--tiered-alloc=600,500,1", "--disk-template=rbd", "--time-limit=9")
    found = json_of(*words, "--accept-existing-errors", document=document)["tiered"]
    assert len(found["instances"]) == 17
    assert found["reason"].startswith("FailN1")
