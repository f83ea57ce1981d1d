"""Set parameters, ask requests that change nothing, and check the whole cluster at the end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from vcluster.calls import Call
from vcluster.host import PYTHON
from vcluster.layout import SECOND_GROUP, instance

from scenario.creation import ALLOCATE, add
from scenario.expectations import Expect, Outcome
from scenario.runner import Runner

VERIFY = ("gnt-cluster", "verify", "--ignore-errors=ENODESETUP")
"""Verifies the cluster. Ganeti needs /proc/sysrq-trigger, which some kernels do not have."""

_VALIDATOR = Path(__file__).resolve().parent.parent / "validate.py"


def set_parameters(run: Runner, options: str) -> None:
    """Set the parameters that Ganeti passes to the default allocator.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    options : str
        ``name=value,...``; may be empty.
    """
    run.arrange("gnt-cluster", "modify", f"--default-iallocator-params={options}")


def parameters(run: Runner, options: str) -> None:
    """Check that a flag in the parameters reaches the allocator as Ganeti writes it.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    options : str
        The parameters to set after the check.
    """
    run.section("parameters")

    def check(outcome: Outcome) -> Iterator[str]:
        for call in outcome.calls:
            if "--verbose=" not in call.arguments:
                yield f"{call.stem}: --verbose= did not arrive: {call.arguments}"

    # Ganeti writes a flag with an equals sign and nothing behind it.
    set_parameters(run, ",".join(filter(None, [options, "verbose="])))
    expect = Expect(calls=("allocate",), check=check)
    run.step(
        "create with a flag among the parameters",
        *add("pa1", "plain"),
        expect=expect,
        hail="refuses --verbose=",
    )
    set_parameters(run, options)
    run.step("create without it", *add("pa2", "plain"), expect=ALLOCATE)


def questions(run: Runner) -> None:
    """Send requests that no command of Ganeti sends, and check their answers.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("questions without consequences")
    ask = (
        "gnt-debug",
        "iallocator",
        "--dir",
        "out",
        "--iallocator",
        run.cluster.allocator,
        "--mode",
    )
    new = ("--os-type=noop", "--disk-template=drbd", "--memory=512")
    group = run.cluster.ask("gnt-group", "list", "--no-headers", "-o", "uuid", SECOND_GROUP).strip()
    drbd = [instance(name) for name in ("dr1", "dr2", "dr3")]
    for kind, words in (
        ("allocate", (*new, "--disks=1024,2048", "--vcpus=2", "--tags=e2e:a", instance("qu1"))),
        ("multi-allocate", (*new, "--disks=1024", "--count=3", instance("qu2"))),
        ("relocate", (instance("dr1"),)),
        ("node-evacuate", ("--evac-mode=all", instance("sf1"), instance("sf2"))),
        ("change-group", (f"--target-groups={group}", *drbd, instance("sf1"))),
    ):
        expect = Expect(calls=(kind,), performed=False)
        run.step(f"ask: {kind}", *ask, kind, *words, expect=expect)


def last_look(run: Runner) -> None:
    """Verify the cluster, the states of its instances, and each answer by Ganeti's own code.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("afterwards")
    run.step("verify the cluster", *VERIFY, expect=Expect())
    run.record("all instances are in the state they should be in", _states(run))
    run.record(
        "Ganeti's validator takes every answer",
        _validated(run.calls),
        hail="lets instances with re-created disks leave their group",
    )


def _states(run: Runner) -> list[str]:
    stopped = instance("dn1")
    return [
        f"{name} is {its.status}"
        for name, its in sorted(run.instances.items())
        if its.status != ("ADMIN_down" if name == stopped else "running")
    ]


def _validated(calls: list[Call]) -> list[str]:
    ended_well = [call for call in calls if call.status == 0]
    if not ended_well:
        return ["there was no answer to compare"]
    pairs = [{"request": call.request, "response": call.text} for call in ended_well]
    done = subprocess.run(
        [PYTHON, "-B", str(_VALIDATOR)],
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return [f"the validator failed: {done.stderr.strip()[-500:]}"]
    results = zip(ended_well, json.loads(done.stdout), strict=True)
    return [f"{call.stem}: {error}" for call, error in results if error is not None]
