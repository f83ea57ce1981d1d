"""Test the simulation of clusters: its rankings, its records, and its analysis of rejections.

A life is one simulation: a scenario of events, answered by one policy of placement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.life import __main__ as program
from benchmarks.life import rejections, trace
from benchmarks.life.life import Outcome, live
from benchmarks.life.policies import POLICIES
from benchmarks.life.rankings import RANKINGS, install
from benchmarks.life.records import Job, Records
from benchmarks.life.rejections import FULL, LITERAL, MISPLACED, MISSED
from benchmarks.life.report import drawn, interval, table
from benchmarks.life.safety import all_failures_tolerated, packs
from benchmarks.life.simulated_cluster import SCENARIOS, SimulatedCluster
from benchmarks.life.trace import ARRIVAL, trace_of
from iallocator.cli import answer
from iallocator.ranking import STRATEGIES
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd

FEW = 8
"""Number of requests of a life in the tests."""


def test_trace_of_a_seed_is_deterministic_and_in_order() -> None:
    """Equal seeds give equal events in order; another seed gives other events."""
    events = trace_of(SCENARIOS["shared"], 3, 50)
    assert events == trace_of(SCENARIOS["shared"], 3, 50) == sorted(events)
    assert events != trace_of(SCENARIOS["shared"], 4, 50)
    assert sum(event.kind == ARRIVAL for event in events) == 50


@pytest.mark.parametrize("scenario", ["drbd", "groups"])
def test_life_repeated_has_the_same_outcome(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A life that is repeated has the same results."""
    monkeypatch.setattr(trace, "BALANCES", 2)
    monkeypatch.setattr(trace, "FAILURES", 2)
    first, second = (live(SCENARIOS[scenario], POLICIES["no-worse"], 1, FEW) for _ in range(2))
    assert first == second
    assert first.asked == FEW
    assert 0 <= first.kept <= 1


def test_simulated_life_rejects_instances_that_never_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every policy rejects instances larger than every node, and loses no instance."""
    small = SCENARIOS["shared"]._replace(memory=(1700,) * 3, load=5.0)
    monkeypatch.setattr(trace, "BALANCES", 2)
    outcome = live(small, POLICIES["off"], 2, FEW)
    large = sum(e.memory >= 768 for e in trace_of(small, 2, FEW) if e.kind == ARRIVAL)
    assert outcome.rejected == large == FEW
    assert outcome.lost == 0


@pytest.mark.parametrize("seed", range(20))
def test_packs_equals_brute_force(seed: int) -> None:
    """The check of whether instances fit equals brute force on small problems."""
    rng = Random(f"packs/{seed}")
    sizes = [rng.randrange(1, 9) for _ in range(5)]
    room = [rng.randrange(2, 14) for _ in range(3)]
    possible = any(
        all(sum(s for s, place in zip(sizes, places) if place == k) <= room[k] for k in range(3))
        for places in product(range(3), repeat=5)
    )
    assert packs(sizes, room) is possible


def test_failures_are_checked_by_permitted_nodes() -> None:
    """A failed drbd instance restarts on its secondary, a shared one in its group."""
    for name, nodes in (("drbd", ["node00", "node01"]), ("groups", ["node00"])):
        simulated = SimulatedCluster(SCENARIOS[name])
        simulated.add("large", 60000, nodes)
        assert all_failures_tolerated(simulated)
        for other in ("node01", "node04", "node07", "node10")[: 1 if name == "drbd" else 4]:
            simulated.add(f"on {other}", 10000, [other, "node02"] if name == "drbd" else [other])
        kept = name == "groups"  # node03, node06 and node09 are in the same group
        assert all_failures_tolerated(simulated) is kept
        if kept:
            for other in ("node03", "node06", "node09"):
                simulated.add(f"on {other}", 10000, [other])
            assert not all_failures_tolerated(simulated)


def test_table_and_picture_name_every_policy() -> None:
    """The table and the picture of results name every policy, relative to the first one."""
    lives = {
        "hail": [Outcome(10, 4, 1, 1024, 0.9, 5.0), Outcome(10, 6, 1, 1024, 0.9, 5.0)],
        "ours": [Outcome(10, 1, 0, 0, 1.0, 4.0), Outcome(10, 3, 0, 0, 1.0, 4.0)],
    }
    reported = table({"drbd": lives})
    assert "| drbd | ours | 10 | 2.0 | -3.0 ± 0.0 | 0.0 | -1.0 ± 0.0 |" in reported
    assert drawn({"drbd": lives}).count("<circle") == 4
    middle, half = interval([1, 2, 3], [0, 0, 0])
    assert (middle, round(half, 2)) == (2, 2.48)


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the rankings of the simulation as strategies for one test."""
    before = dict(STRATEGIES)
    install()
    yield
    STRATEGIES.clear()
    STRATEGIES.update(before)


def chosen(document: Json, strategy: str) -> list[str]:
    """Return the nodes that a strategy chooses for the request in `document`."""
    reported = json.loads(answer(as_bytes(document), [f"--strategy={strategy}", "--n1=off"]))
    assert reported["success"], reported["info"]
    nodes: list[str] = reported["result"]
    return nodes


def cluster_document(*used: int, cpus: tuple[int, ...] = (), **request: Any) -> Json:
    """Return nodes of 10000 MiB with `used` MiB in use, and a request on shared storage."""
    residents = {
        f"i{k}": rbd(f"node{k + 1}", memory=memory,
                          vcpus=cpus[k] if cpus else 1)
        for k, memory in enumerate(used) if memory
    }  # fmt: skip
    made = cluster(len(used), memory=10000, cpus=16, instances=residents)
    return allocate_rbd(made, **request)


def test_best_fit_chooses_the_fullest_node_with_capacity() -> None:
    """The ranking best fit chooses the fullest node with capacity for the instance."""
    assert chosen(cluster_document(1000, 8000, 4000, memory=1500), "best-fit") == ["node2"]
    assert chosen(cluster_document(1000, 8000, 4000, memory=2500), "best-fit") == ["node3"]


def test_dot_product_multiplies_requested_and_free_amounts() -> None:
    """The ranking by dot product chooses the node with free amounts like those requested."""
    cpus = (40, 2)
    assert chosen(cluster_document(2000, 6000, cpus=cpus, memory=3000, vcpus=1), "dot-product") == [
        "node1"
    ]
    assert chosen(cluster_document(2000, 6000, cpus=cpus, memory=100, vcpus=16), "dot-product") == [
        "node2"
    ]


def test_fgd_leaves_no_memory_that_fits_no_instance() -> None:
    """The ranking fgd avoids leaving memory that is too small for any instance.

    50 MiB on node2 leave capacity for an instance of 4000 MiB; 150 MiB would leave too little.
    """
    assert chosen(cluster_document(3000, 5900, 4000, memory=150), "fgd") == ["node1"]
    assert chosen(cluster_document(3000, 5900, 4000, memory=50), "fgd") == ["node2"]
    assert chosen(cluster_document(3000, 5900, 4000, memory=150), "best-fit") == ["node2"]


def test_headroom_excludes_the_failed_node() -> None:
    """The ranking `headroom` ignores the capacity of the node that it assumes to fail."""
    assert chosen(cluster_document(0, 9300, 9000, memory=600), "headroom") == ["node1"]


def test_rankings_of_secondaries_choose_primary_and_secondary() -> None:
    """Each ranking chooses a primary and another node as secondary."""
    residents = {"a": instance("node1", "node2", memory=3000)}
    made = allocate(cluster(3, memory=10000, instances=residents), memory=1000)
    for strategy in RANKINGS:
        nodes = chosen(made, strategy)
        assert len(set(nodes)) == 2, strategy
    assert chosen(made, "best-fit")[0] == "node1"


ONE = Job("drbd", "hail", 0, 800, False)
LIVED = Outcome(800, 108, 2, 3584, 0.875, 3734.25, 0.5, 3)


def test_records_kept_in_a_file_are_read_from_it(tmp_path: Path) -> None:
    """Results of simulations in a file are read back; other simulations have no result there."""
    path = tmp_path / "lives.jsonl"
    Records(path).add(ONE, LIVED)
    Records(path).add(ONE._replace(seed=1), LIVED._replace(rejected=9))
    again = Records(path)
    assert ONE in again
    assert again.results([ONE, ONE._replace(seed=1)]) == {
        "drbd": {"hail": [LIVED, LIVED._replace(rejected=9)]}
    }
    for other in ({"seed": 2}, {"mends": True}, {"requests": 10}, {"policy": "off"}):
        assert ONE._replace(**other) not in again


def test_records_without_a_file_are_kept_in_memory() -> None:
    """Results that are kept in memory are sorted by policy and seed, as they are requested."""
    records = Records(None)
    jobs = [ONE._replace(policy=policy, seed=seed) for seed in (1, 0) for policy in ("b", "a")]
    for number, job in enumerate(jobs):
        records.add(job, LIVED._replace(lost=number))
    found = records.results(jobs)["drbd"]
    assert list(found) == ["b", "a"]
    assert [one.lost for one in found["b"]] == [0, 2]


def test_records_of_lives_without_later_members_have_their_defaults(tmp_path: Path) -> None:
    """A stored result of a simulation that lacks newer members is read with default values."""
    path = tmp_path / "lives.jsonl"
    outcome = {k: v for k, v in LIVED._asdict().items() if k not in ("calm", "broken")}
    path.write_text(json.dumps({"life": list(ONE), "outcome": outcome}) + "\n")
    assert Records(path).results([ONE])["drbd"]["hail"] == [LIVED._replace(calm=1.0, broken=0)]


def test_program_simulates_only_missing_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m benchmarks.life` runs only simulations that have no stored result."""
    lived: list[Job] = []

    def lives(job: Job) -> Outcome:
        lived.append(job)
        return LIVED._replace(rejected=job.seed)

    monkeypatch.setattr(program, "_live", lives)
    out = tmp_path / "not" / "there"
    words = ["--only=shared", "--policies=no-new", "--requests=10", "--jobs=1", f"--out={out}"]
    assert program.main(["--seeds=1", *words]) == 0
    assert program.main(["--seeds=2", *words]) == 0
    assert [job.seed for job in lived] == [0, 1]
    assert "| shared | no-new | 800 | 0.5 |" in capsys.readouterr().out
    assert "| shared | no-new | 800 | 0.5 |" in (out / "life-table.md").read_text()
    assert (out / "life.svg").read_text().count("<circle") == 2


@pytest.mark.parametrize(
    ("word", "reported"),
    [
        ("--only=shard", "'shard' is none of drbd, shared, mixed, groups"),
        ("--policies=no-new,", "'' is none of hail, strict, no-new"),
        ("--seeds=0", "'0' is no whole number from 1 on"),
        ("--first=-1", "'-1' is no whole number from 0 on"),
    ],
)
def test_program_reports_an_invalid_argument_with_the_valid_ones(
    word: str, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m benchmarks.life` rejects an invalid argument, and names the valid ones."""
    with pytest.raises(SystemExit) as ended:
        program.main([word])
    assert ended.value.code == 2
    assert reported in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(40))
def test_loss_equals_the_best_of_all_assignments(seed: int) -> None:
    """The loss of a failure is the least over all assignments of instances.

    Count and memory are minimized separately.
    """
    rng = Random(f"loss/{seed}")
    sizes = [rng.choice((2, 3, 3, 5, 8)) for _ in range(4)]
    room = [rng.randrange(10) for _ in range(2)]
    left_out = [
        [size for size, node in zip(sizes, places) if node == len(room)]
        for places in product(range(len(room) + 1), repeat=len(sizes))
        if all(
            sum(size for size, node in zip(sizes, places) if node == k) <= free
            for k, free in enumerate(room)
        )
    ]
    assert rejections._loss(sizes, room) == (min(map(len, left_out)), min(map(sum, left_out)))


def _simulated(*nodes: tuple[int, ...], free: int) -> SimulatedCluster:
    """Return a cluster with instances of the given MiB, and `free` MiB on each node."""
    simulated = SimulatedCluster(SCENARIOS["shared"]._replace(memory=(65536,) * len(nodes)))
    for node in simulated.nodes.values():
        node["free_memory"] = free + 1
    for k, sizes in enumerate(nodes):
        for size in sizes:
            simulated.add(f"i{len(simulated.instances)}", size, [simulated.names[k]])
    return simulated


@pytest.mark.parametrize(
    ("nodes", "memory", "cause"),
    [
        pytest.param([(4,), (4,), ()], 2, MISSED, id="the empty node takes it"),
        pytest.param([(7,), (5, 1), (4,)], 1, LITERAL, id="7 are lost if node 1 fails"),
        pytest.param([(6,), (2, 2, 2), (2,)], 6, MISPLACED, id="three twos belong on one node"),
        pytest.param([(8,), (8,), ()], 4, FULL, id="20 do not fit into two nodes of 10"),
    ],
)
def test_rejection_is_counted_under_its_cause(
    nodes: list[tuple[int, ...]], memory: int, cause: str
) -> None:
    """Each rejected request is counted under its cause."""
    assert rejections._cause(_simulated(*nodes, free=10), memory) == cause


def test_report_counts_each_rejection_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The causes in the report add up to the number of rejections."""
    rejections.main(["--seeds", "1", "--first", "3", "--requests", "150", "--outage", "0.1"])
    heading, _, *rows = capsys.readouterr().out.splitlines()
    cells = [int(cell) for row in rows[2:] for cell in row.split("|")[2:4]]
    assert sum(cells) == int(heading.split()[2]) > 0
