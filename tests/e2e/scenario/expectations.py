"""Compare the effect of a command with the expectation and with the allocator's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from vcluster.calls import Call, CallError, Promise
from vcluster.state import Instance


@dataclass(frozen=True)
class Outcome:
    """The observed effects of a command that has ended.

    Attributes
    ----------
    status : int
        Exit status of the command.
    output : str
        Output of the command.
    calls : list of Call
        Runs of the allocator during the command.
    before, after : dict of str to Instance
        The instances.
    groups : dict of str to str
        Group of each node.
    failed_jobs : dict of int to str
        Error of each job that failed during the command.
    """

    status: int
    output: str
    calls: list[Call]
    before: dict[str, Instance]
    after: dict[str, Instance]
    groups: dict[str, str]
    failed_jobs: dict[int, str]

    def group_of(self, name: str) -> str | None:
        """Return the group of an instance's primary node, if the instance exists.

        Parameters
        ----------
        name : str
            The instance.
        """
        instance = self.after.get(name)
        return self.groups[instance.nodes[0]] if instance else None


Check = Callable[[Outcome], Iterator[str]]


def no_check(_: Outcome) -> Iterator[str]:
    """Yield no problem."""
    yield from ()


@dataclass(frozen=True)
class Expect:
    """The expected effects of a step.

    Attributes
    ----------
    calls : tuple of str
        Types of the requests that the allocator should get.
    rejected : bool
        The allocator should find no solution, and Ganeti should report that.
    performed : bool
        Ganeti should execute the answer; if false, nothing should change.
    leaves_out : tuple of str
        Instances that a partly successful answer should name as failed.
    check : callable
        Yields further problems.
    """

    calls: tuple[str, ...] = ()
    rejected: bool = False
    performed: bool = True
    leaves_out: tuple[str, ...] = ()
    check: Check = field(default=no_check)


def problems(expect: Expect, outcome: Outcome) -> list[str]:
    """Return the differences between outcome and expectation.

    Parameters
    ----------
    expect : Expect
        The expectation.
    outcome : Outcome
        The outcome.

    Returns
    -------
    list of str
        Empty if all is well.
    """
    found = [*_command(expect, outcome)]
    kinds = tuple(call.kind for call in outcome.calls)
    if kinds != expect.calls:
        found.append(
            f"the allocator was asked for {_words(kinds)}, expected {_words(expect.calls)}"
        )
    try:
        for call in outcome.calls:
            found += _answer(expect, call)
        if not found and outcome.calls:
            found += _state(expect, outcome)
        found += expect.check(outcome)
    except CallError as error:
        found.append(str(error))
    return found


def _words(names: tuple[str, ...]) -> str:
    return " and ".join(names) or "nothing"


def _command(expect: Expect, outcome: Outcome) -> Iterator[str]:
    if expect.rejected:
        if outcome.status == 0:
            yield "the command ended well, but should not have"
        return
    if outcome.status != 0:
        yield f"the command ended with status {outcome.status}"
    for number, summary in outcome.failed_jobs.items():
        yield f"job {number} failed: {summary}"


def _answer(expect: Expect, call: Call) -> Iterator[str]:
    if call.status != 0:
        errors = call.errors.strip()[:300]
        yield f"{call.stem}: the allocator ended with status {call.status}: {errors}"
        return
    response = call.response
    left_out = set(call.failed) if call.success else set()
    if not response["info"]:
        yield f"{call.stem}: the answer has no info"
    if expect.rejected:
        if call.success and not left_out:
            yield f"{call.stem}: a solution, where there should be none"
    elif not call.success:
        yield f"{call.stem}: no solution: {response['info']}"
    elif left_out != set(expect.leaves_out):
        yield f"{call.stem}: {sorted(left_out)} failed, expected {sorted(expect.leaves_out)}"


def _state(expect: Expect, outcome: Outcome) -> Iterator[str]:
    """Yield the instances that are not where the answers placed them."""
    promised: Promise = {}
    if expect.performed and not expect.rejected:
        for call in outcome.calls:
            promised |= call.promise()
            for name, group in call.promised_groups().items():
                if outcome.group_of(name) != group:
                    yield f"{name} was promised to group {group}, is in {outcome.group_of(name)}"
    for name, nodes in promised.items():
        instance = outcome.after.get(name)
        if instance is None:
            yield f"{name} was promised on {_nodes(nodes)}, does not exist"
        elif instance.nodes != nodes:
            yield f"{name} was promised on {_nodes(nodes)}, is on {_nodes(instance.nodes)}"
        elif len({outcome.groups[node] for node in nodes}) != 1:
            yield f"{name} is in two groups: {_nodes(nodes)}"
    for name in (outcome.before.keys() | outcome.after.keys()) - promised.keys():
        old, new = outcome.before.get(name), outcome.after.get(name)
        was, now = old.nodes if old else (), new.nodes if new else ()
        if was != now:
            yield f"{name} was not to change, but went from {_nodes(was)} to {_nodes(now)}"


def _nodes(nodes: tuple[str, ...]) -> str:
    return "+".join(node.split(".")[0] for node in nodes) or "nowhere"
