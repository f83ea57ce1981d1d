"""Test executions with faults: each step runs at most once, and none after a failed one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.execution.cluster_check import Places, expectations
from iallocator.execution.jobs import ExecutionError, jobs_of
from iallocator.execution.journal import Journal, read_journal
from iallocator.execution.queue import UnknownOutcomeError
from iallocator.execution.records import DONE, FAILED, PENDING, REJECTED, Records
from iallocator.execution.report import execution_document
from iallocator.execution.runner import carry_out
from iallocator.execution.session import Clock, Orders, Session
from tests.builders import Json

from .fake import FakeCluster, FakeClusterCheck, FakeQueue, Killed
from .plans import NODES, random_plan

CASES = 250


class Scenario:
    """A plan with its simulated cluster and its journal."""

    def __init__(self, path: Path, rng: Random, depends: bool, **faults: Any) -> None:
        self.path, self.rng, self.depends = path, rng, depends
        self.transition, self.places = random_plan(rng, faults.pop("by_hand", False))
        self.steps = {step["number"]: step for step in self.transition["steps"]}
        self.cluster = FakeCluster(self.places, self.steps, rng, **faults)
        self.jobs = jobs_of(self.transition, lambda code: True, singly=not depends)
        self.head: Json = {
            "run": "run-1",
            "command": "balance",
            "cluster": "made-up",
            "singly": not depends,
            "unable": [],
            "expected": expectations(self.transition, self.places),
            "reason": "",
            "priority": None,
            "transition": self.transition,
        }
        self.before = dict(self.places.instances)
        self.records = Records(self.jobs)
        self.ahead = 2

    def run(
        self,
        trip: Callable[[str], None] = lambda where: None,
        stopping: Callable[[], bool] = lambda: False,
        sync: Callable[[int], None] = lambda handle: None,
        again: bool = False,
    ) -> Records:
        """Start or resume the execution, in which `trip` may end the process at any call.

        With `again`, failed steps are retried, too.
        """
        self.records = Records(self.jobs)
        if self.path.exists():
            journal = Journal.reopen(str(self.path), sync)
            for event in read_journal(str(self.path))[1]:
                self.records.apply(event)
        else:
            journal = Journal.create(str(self.path), self.head, lambda handle: None)
        session = Session(
            self.head["run"],
            self.records,
            FakeQueue(self.cluster, not self.depends, trip),
            FakeClusterCheck(self.cluster, self.head["expected"]),
            journal,
            Orders(
                stopping=stopping,
                clock=Clock(pause=lambda seconds: None),
                ahead=self.ahead,
            ),
        )
        try:
            carry_out(session, again)
        finally:
            journal.close()
        return self.records

    def check(self) -> None:
        """Assert the conditions that must hold after the end of the execution."""
        executed, records = self.cluster.executed, self.records
        assert len(executed) == len(set(executed)), f"done twice: {executed}"
        for position, number in enumerate(executed):
            by_hand = [n for n in self.steps[number]["after"] if not self.steps[n]["opcodes"]]
            assert not by_hand, "began before the manual step"
            assert set(self.steps[number]["after"]) <= set(executed[:position])
        blocked = records.blocked()
        for job in self.jobs:
            state = records.of[job.number].state
            numbers = {step["number"] for step in job.steps}
            if state == DONE:
                assert numbers <= set(executed)
            elif state == FAILED:
                unknown = records.of[job.number].why == "vanished from the queue"
                assert unknown or not numbers <= set(executed)
            else:
                assert not numbers & set(executed)
                assert state in (PENDING, REJECTED)
                if state == PENDING:
                    assert job.by_hand or job.number in blocked or self._behind_a_hand(job.number)
        self._check_report()

    def _behind_a_hand(self, number: int) -> bool:
        jobs = self.records.jobs
        return any(
            jobs[other].by_hand or self._behind_a_hand(other)
            for other in jobs[number].after
            if self.records.of[other].state != DONE
        )

    def _check_report(self) -> None:
        """Assert that every instance is on the nodes that the report has for it."""
        found = execution_document(self.head, self.records, self.places)
        for one in found["instances"]:
            now = self.places.instances.get(one["instance"], ())
            assert tuple(one["now"]) == now
            if now not in (tuple(one["from"]), tuple(one["to"])):
                assert one["state"] in ("half moved", "elsewhere")
            else:
                assert one["state"] in ("as planned", "not moved")


def _trips(rng: Random, chance: float) -> Callable[[str], None]:
    """Return a function that ends the process at random calls, or loses a reply."""

    def trip(where: str) -> None:
        if rng.random() < chance:
            if where == "after submission" and rng.random() < 0.5:
                raise UnknownOutcomeError("no answer")
            raise Killed

    return trip


def _full_disk(rng: Random, chance: float) -> Callable[[int], None]:
    """Return a function that raises an error for some writes, as on a full disk."""

    def sync(handle: int) -> None:
        if rng.random() < chance:
            raise OSError(28, "No space left on device")

    return sync


@pytest.mark.parametrize("depends", [True, False], ids=["luxi", "rapi"])
def test_execution_killed_at_any_moment_and_resumed_does_everything_once(
    tmp_path: Path, depends: bool
) -> None:
    """An execution that is killed at any moment and resumed runs each step once."""
    for seed in range(CASES):
        rng = Random(seed)
        scenario = Scenario(tmp_path / str(seed), rng, depends)
        for _ in range(6):
            try:
                scenario.run(_trips(rng, 0.15), sync=_full_disk(rng, 0.05))
            except (Killed, ExecutionError):
                continue
            break
        scenario.run()
        scenario.check()
        assert sorted(scenario.cluster.executed) == sorted(scenario.steps)


@pytest.mark.parametrize("depends", [True, False], ids=["luxi", "rapi"])
def test_execution_with_faults_stops_only_steps_that_wait(tmp_path: Path, depends: bool) -> None:
    """With faults of all kinds, only steps that depend on a failed one are not executed.

    Opcodes fail, jobs are cancelled or vanish, steps need a person, the process is killed.
    """
    for seed in range(CASES):
        rng = Random(seed)
        scenario = Scenario(
            tmp_path / str(seed),
            rng,
            depends,
            fails=frozenset(n for n in range(1, 15) if rng.random() < 0.15),
            cancels=rng.choice([0.0, 0.05]),
            vanishes=rng.choice([0.0, 0.1]),
            by_hand=rng.random() < 0.3,
        )
        stop_after = rng.choice([None, rng.randint(0, 6)])
        calls = [0]

        def stopping(calls: list[int] = calls, limit: int | None = stop_after) -> bool:
            calls[0] += 1
            return limit is not None and calls[0] > limit

        with suppress(Killed, ExecutionError):
            scenario.run(_trips(rng, rng.choice([0.0, 0.1])), stopping)
        scenario.run()
        scenario.check()
        failed = [n for n in scenario.records.of if scenario.records.of[n].state == FAILED]
        most = scenario.cluster.cancelled + len(scenario.cluster.fails) + scenario.cluster.vanished
        assert len(failed) <= most


@pytest.mark.parametrize("depends", [True, False], ids=["luxi", "rapi"])
def test_execution_on_a_changing_cluster_rejects_jobs_with_changed_conditions(
    tmp_path: Path, depends: bool
) -> None:
    """If instances are moved meanwhile, no job starts from a wrong node.

    No step is executed twice, and only blocked steps remain.
    """
    for seed in range(CASES):
        rng = Random(seed)
        scenario = Scenario(tmp_path / str(seed), rng, depends)

        def interfere(where: str, rng: Random = rng, scenario: Scenario = scenario) -> None:
            idle = not any(job.status == "running" for job in scenario.cluster.jobs.values())
            if where == "before submission" or not idle or rng.random() > 0.1:
                return  # what happens between the look and the start is Ganeti's to reject
            if any(job.status == "queued" for job in scenario.cluster.jobs.values()):
                return
            name = rng.choice(sorted(scenario.places.instances))
            scenario.places.instances[name] = (rng.choice(NODES),)

        scenario.run(interfere)
        executed = scenario.cluster.executed
        assert len(executed) == len(set(executed))
        for job in scenario.jobs:
            if scenario.records.of[job.number].state == PENDING:
                assert job.number in scenario.records.blocked()


def test_job_that_waits_is_cancelled_when_its_target_goes_offline(tmp_path: Path) -> None:
    """A waiting job is cancelled when its target node goes offline; the report names it."""
    scenario = Scenario(tmp_path / "journal", Random(1), depends=True)
    scenario.transition["steps"] = []
    step = {"kind": "migrate", "after": [], "instance": "i", "from": ["a"], "to": ["b"]}
    steps = [
        {**step, "number": 1, "opcodes": [{"OP_ID": "OP_TEST", "step": 1}]},
        {
            **step,
            "number": 2,
            "instance": "j",
            "to": ["c"],
            "opcodes": [{"OP_ID": "OP_TEST", "step": 2}],
        },
    ]
    transition = {"steps": steps, "jobs": [{"steps": [1]}, {"steps": [2]}]}
    places = Places({"i": ("a",), "j": ("a",)}, set(), set(), set(NODES))
    scenario.places, scenario.steps = places, {1: steps[0], 2: steps[1]}
    scenario.cluster = FakeCluster(places, scenario.steps, Random(1))
    scenario.jobs = jobs_of(transition, lambda code: True)

    def fail_node(where: str) -> None:
        scenario.cluster.held = [job for k, job in scenario.cluster.jobs.items() if k == 101]
        if scenario.cluster.executed:
            places.offline.add("c")

    records = scenario.run(fail_node)
    assert scenario.cluster.executed == [1]
    assert (records.of[2].state, records.of[2].why) == (REJECTED, "c is offline")
    assert scenario.cluster.jobs[101].status == "canceled"


def test_job_without_effect_is_reported_with_the_failed_job(tmp_path: Path) -> None:
    """A job that depends on a failed one counts as blocked, not as rejected."""
    for seed in range(20):
        scenario = Scenario(tmp_path / str(seed), Random(seed), depends=True)
        scenario.cluster.fails = frozenset(scenario.steps)
        records = scenario.run()
        assert not records.in_state(REJECTED)


STOPPED = [
    {"kind": "stop", "instance": "i", "from": ["a"], "to": ["a"]},
    {"kind": "failover", "instance": "i", "from": ["a"], "to": ["b"]},
    {"kind": "start", "instance": "i", "from": ["b"], "to": ["b"]},
]


@pytest.mark.parametrize(
    ("node", "runs", "state"),
    [
        ("a", True, "not moved"),
        ("a", False, "half moved"),
        ("b", False, "half moved"),
        ("b", True, "as planned"),
        ("c", True, "elsewhere"),
    ],
)
def test_instance_that_stays_stopped_is_named(node: str, runs: bool, state: str) -> None:
    """The report names an instance that was stopped for a move and does not run again."""
    steps = [
        {**step, "number": k, "after": [k - 1] if k > 1 else [], "opcodes": [{"OP_ID": "OP_TEST"}]}
        for k, step in enumerate(STOPPED, start=1)
    ]
    jobs = jobs_of({"steps": steps, "jobs": [{"steps": [1, 2, 3]}]}, lambda code: True)
    places = Places({"i": (node,)}, set(), set(), {"a", "b", "c"}, {"i"} if runs else set())
    found = execution_document({"run": "r", "cluster": "c"}, Records(jobs), places)
    assert found["instances"][0]["state"] == state


def test_jobs_wait_in_the_queue_no_further_ahead_than_asked(tmp_path: Path) -> None:
    """At most `ahead` jobs wait in the queue, and all jobs are executed."""
    for seed in range(60):
        scenario = Scenario(tmp_path / str(seed), Random(seed), depends=seed % 2 == 0)
        scenario.ahead = 1 + seed % 3
        scenario.run()
        assert scenario.cluster.most_waiting <= scenario.ahead
        assert sorted(scenario.cluster.executed) == sorted(scenario.steps)


@pytest.mark.parametrize("depends", [True, False], ids=["luxi", "rapi"])
def test_stopped_execution_completes_moves_in_progress_only(tmp_path: Path, depends: bool) -> None:
    """After Ctrl-C, moves in progress are completed, and waiting jobs are cancelled."""
    cancelled = 0
    for seed in range(CASES):
        rng = Random(seed)
        scenario = Scenario(tmp_path / str(seed), rng, depends)
        calls, limit, begun = [0], rng.randint(2, 8), set[str]()

        def stopping(
            scenario: Scenario = scenario,
            calls: list[int] = calls,
            limit: int = limit,
            begun: set[str] = begun,
        ) -> bool:
            calls[0] += 1
            if calls[0] == limit:
                begun |= {scenario.steps[n].get("instance", "") for n in scenario.cluster.executed}
            return calls[0] >= limit

        scenario.run(stopping=stopping)
        assert not [j for j in scenario.cluster.jobs.values() if j.status in ("queued", "running")]
        ends = {}
        for step in scenario.transition["steps"]:
            if "instance" in step:
                ends[step["instance"]] = tuple(step["to"])
        for name, end in ends.items():
            assert scenario.places.instances[name] in (scenario.before[name], end)
            if name in begun:
                assert scenario.places.instances[name] == end
        cancelled += sum(job.status == "canceled" for job in scenario.cluster.jobs.values())
        scenario.run()
        assert sorted(scenario.cluster.executed) == sorted(scenario.steps)
    assert cancelled > CASES / 10


@pytest.mark.parametrize("depends", [True, False], ids=["luxi", "rapi"])
def test_failed_jobs_are_retried_from_the_present_nodes(tmp_path: Path, depends: bool) -> None:
    """When the causes are gone, each failed step is executed once, unless a person has done it."""
    for seed in range(CASES):
        rng = Random(seed)
        helped = False
        fails = frozenset(n for n in range(1, 15) if rng.random() < 0.3)
        scenario = Scenario(tmp_path / str(seed), rng, depends, fails=fails)
        scenario.run()
        scenario.cluster.fails = frozenset()
        for number in sorted(set(scenario.steps) - set(scenario.cluster.executed)):
            step = scenario.steps[number]  # an administrator does some of it by hand
            here = scenario.places.instances.get(step.get("instance", ""))
            if rng.random() < 0.2 and here == tuple(step.get("from", ())):
                scenario.places.carry_out(step)
                helped = True
        records = scenario.run(again=True)
        assert not records.in_state(PENDING, FAILED, REJECTED)
        found = execution_document(scenario.head, records, scenario.places)
        assert all(one["state"] == "as planned" for one in found["instances"])
        assert helped or sorted(scenario.cluster.executed) == sorted(scenario.steps)


def test_failed_job_of_an_instance_that_went_elsewhere_is_not_retried(tmp_path: Path) -> None:
    """A failed move of an instance that is on another node now is reported, not retried."""
    scenario = Scenario(tmp_path / "journal", Random(3), depends=True)
    first = next(step for step in scenario.transition["steps"] if "instance" in step)
    scenario.cluster.fails = frozenset([first["number"]])
    scenario.run()
    scenario.cluster.fails = frozenset()
    scenario.places.instances[first["instance"]] = ("x",)
    records = scenario.run(again=True)
    found = execution_document(scenario.head, records, scenario.places)
    assert any(
        f"{first['instance']} is on x, not on its planned route" in line for line in found["to_do"]
    )
