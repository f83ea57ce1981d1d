"""Move instances from one group to another."""

from __future__ import annotations

from collections.abc import Iterator

from vcluster.layout import FIRST_GROUP, SECOND_GROUP, instance

from scenario.expectations import Expect, Outcome
from scenario.runner import Runner

CHANGE = ("change-group",)


def change(run: Runner) -> None:
    """Change the group of instances, and empty a group.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("change groups")
    for label, name in (("sharedfile", "sf2"), ("drbd", "dr1")):
        target = _other(run.group_of(name))
        words = ("gnt-instance", "change-group", f"--to={target}", instance(name))
        run.step(f"change the group of a {label} instance", *words, expect=_arrives([name], target))
    target = _other(run.group_of("dr1"))
    anywhere = ("gnt-instance", "change-group", instance("dr1"))
    run.step("change to any other group", *anywhere, expect=_arrives(["dr1"], target))
    names = [name.split(".")[0] for name in run.instances]
    inside = [name for name in names if run.group_of(name) == SECOND_GROUP]
    words = ("gnt-group", "evacuate", f"--to={FIRST_GROUP}", SECOND_GROUP)
    run.step(
        f"empty a group of {len(inside)} instances", *words, expect=_arrives(inside, FIRST_GROUP)
    )


def _other(group: str) -> str:
    return SECOND_GROUP if group == FIRST_GROUP else FIRST_GROUP


def _arrives(names: list[str], group: str) -> Expect:
    def check(outcome: Outcome) -> Iterator[str]:
        for name in names:
            if outcome.group_of(instance(name)) != group:
                yield f"{name} should be in group {group}, is in {outcome.group_of(instance(name))}"

    return Expect(calls=CHANGE, check=check)
