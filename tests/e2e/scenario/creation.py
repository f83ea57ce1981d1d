"""Create instances, one at a time and in batches."""

from __future__ import annotations

import json
from collections.abc import Iterator

from vcluster.layout import FIRST_GROUP, SECOND_GROUP, STORE, instance

from scenario.expectations import Expect, Outcome
from scenario.runner import Runner

ADD = ("gnt-instance", "add", "--os-type=noop", "--no-name-check", "--no-ip-check")
ALLOCATE = Expect(calls=("allocate",))

# More than the largest node has.
_TOO_MUCH = 48 * 1024
_N1 = "sees no disk for this template, hence an N+1 failure for the drbd instances"


def add(name: str, template: str, *more: str, memory: int = 512) -> tuple[str, ...]:
    """Return the command that creates an instance.

    Parameters
    ----------
    name : str
        Short name of the instance.
    template : str
        Disk template.
    *more : str
        Further options.
    memory : int, optional
        MiB.

    Returns
    -------
    tuple of str
        The command.
    """
    disk = () if template == "diskless" or "--disk" in more else ("--os-size=1G",)
    return (
        *ADD,
        f"--disk-template={template}",
        f"--backend-parameters=memory={memory}",
        *disk,
        *more,
        instance(name),
    )


def single(run: Runner) -> None:
    """Create instances of all templates.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("create")
    run.step("create diskless", *add("dl1", "diskless"), expect=ALLOCATE)
    run.step("create sharedfile", *add("sf1", "sharedfile"), expect=ALLOCATE)
    annex = f"--node-group={SECOND_GROUP}"
    run.step(
        "create sharedfile in a named group",
        *add("sf2", "sharedfile", annex),
        expect=_in_group("sf2"),
    )
    run.step("create drbd", *add("dr1", "drbd"), expect=ALLOCATE)
    run.step("create drbd in a named group", *add("dr2", "drbd", annex), expect=_in_group("dr2"))
    disks = ("--disk", "0:size=2G", "--disk", "1:size=512M", "--tags=e2e:a,e2e:b", "--no-nics")
    run.step(
        "create drbd with two disks and tags, no nic", *add("dr3", "drbd", *disks), expect=ALLOCATE
    )
    run.step("create plain", *add("pl1", "plain"), expect=ALLOCATE)
    whitelist = Expect(calls=("allocate",), check=_whitelist)
    run.step(
        "create plain on nodes not busy",
        *add("pl2", "plain", "--opportunistic-locking"),
        expect=whitelist,
    )
    run.step("create file", *add("fi1", "file"), expect=ALLOCATE)
    run.step("create drbd, not started", *add("dn1", "drbd", "--no-start"), expect=ALLOCATE)
    run.step("create drbd, forthcoming", *add("fc1", "drbd", "--forthcoming"), expect=ALLOCATE)
    run.step("commit the forthcoming instance", *add("fc1", "drbd", "--commit"), expect=Expect())
    run.step("create sharedfile beside drbd", *add("sf3", "sharedfile"), expect=ALLOCATE, hail=_N1)
    run.step("create diskless beside drbd", *add("dl2", "diskless"), expect=ALLOCATE, hail=_N1)
    rejected = Expect(calls=("allocate",), rejected=True)
    run.step(
        "create with more memory than there is",
        *add("no1", "plain", memory=_TOO_MUCH),
        expect=rejected,
    )


def batches(run: Runner) -> None:
    """Create several instances with one request.

    Parameters
    ----------
    run : Runner
        Runs the steps.
    """
    run.section("batch-create")
    several = ("multi-allocate",)
    _batch(
        run,
        "batch that fits",
        ["ma1 drbd 256", "ma2 plain 256", "ma3 drbd 256"],
        Expect(calls=several),
    )
    # Ganeti creates the others, and reports success without a word about the failed one.
    partly = Expect(calls=several, leaves_out=(instance("mb2"),), check=_says_why)
    rows = ["mb1 drbd 256", f"mb2 plain {_TOO_MUCH}"]
    _batch(run, "batch of which one cannot fit", rows, partly, hail="refuses the whole batch")
    groups = Expect(calls=several, check=_named_groups)
    rows = [
        f"mc1 drbd 256 {SECOND_GROUP}",
        f"mc2 plain 256 {FIRST_GROUP}",
        f"mc3 drbd 256 {FIRST_GROUP}",
    ]
    _batch(
        run,
        "batch with named groups",
        rows,
        groups,
        hail="takes no notice of an instance's own group",
    )


def _batch(run: Runner, label: str, rows: list[str], expect: Expect, hail: str = "") -> None:
    definitions = []
    for row in rows:
        name, template, memory, *group = row.split()
        definition = {
            "mode": "create",
            "hypervisor": "fake",
            "instance_name": instance(name),
            "disk_template": template,
            "disks": [{"size": 1024}],
            "beparams": {"memory": int(memory)},
            "nics": [{}],
            "os_type": "noop",
            "name_check": False,
            "ip_check": False,
        }
        definitions.append(definition | ({"group_name": group[0]} if group else {}))
    file = STORE / "batch.json"
    file.write_text(json.dumps(definitions), encoding="utf-8")
    run.step(label, "gnt-instance", "batch-create", str(file), expect=expect, hail=hail)


def _in_group(name: str) -> Expect:
    def check(outcome: Outcome) -> Iterator[str]:
        if outcome.group_of(instance(name)) != SECOND_GROUP:
            yield f"{name} is not in group {SECOND_GROUP}"

    return Expect(calls=("allocate",), check=check)


def _whitelist(outcome: Outcome) -> Iterator[str]:
    for call in outcome.calls:
        allowed = call.request["request"].get("restrict-to-nodes")
        if not allowed:
            yield "the request does not say restrict-to-nodes"
        elif not set(call.response["result"]) <= set(allowed):
            yield "a node outside restrict-to-nodes was chosen"


def _says_why(outcome: Outcome) -> Iterator[str]:
    for call in outcome.calls:
        if instance("mb2") not in call.response["info"]:
            yield f"info does not name the instance that has no place: {call.response['info']}"


def _named_groups(outcome: Outcome) -> Iterator[str]:
    for name, group in (("mc1", SECOND_GROUP), ("mc2", FIRST_GROUP), ("mc3", FIRST_GROUP)):
        if outcome.group_of(instance(name)) != group:
            yield f"{name} should be in group {group}, is in {outcome.group_of(instance(name))}"
