"""Define the paths that are commands on a whole cluster: their scenarios and plans."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from iallocator.cli import main
from tests import builders
from tests import command as program
from tests.builders import Json, as_bytes

from .requests import between_scenario, moving_scenario, new_scenario
from .scenarios import (
    BEST,
    DRBD,
    HELD,
    KEEPER,
    MEMORY,
    NEXT,
    SOURCE,
    SPARE,
    Scenario,
    cluster_document,
    newcomer,
)

Build = Callable[[str, bool], Scenario]


class RejectedError(Exception):
    """Raised if a command rejects its input or its plan, with its message."""


def run(command: str, document: Json, *options: str) -> str:
    """Return the stdout of a command for `document`; raise an error if it is rejected."""
    output, complained = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with (
        tempfile.NamedTemporaryFile("w", suffix=".json") as file,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(complained),
    ):
        json.dump(document, file)
        file.flush()
        status = main([command, *options, file.name])
    if status == 2 or "the plan is rejected" in complained.getvalue():
        raise RejectedError(complained.getvalue())
    left = command == "repair" or " not rebooted: " in complained.getvalue()
    late = status == 3 and "time limit" in complained.getvalue()
    assert status == 0 or left or late, complained.getvalue()
    output.seek(0)
    return output.read()


def asking(command: str, *options: str) -> Callable[[Scenario], Json]:
    """Return a function that returns the verified plan of a command for a scenario."""

    def ask(scenario: Scenario) -> Json:
        always = ("--json", "--verify-plan", *options)
        plan: Json = json.loads(run(command, scenario.finished(), *always, *scenario.options))
        return plan

    return ask


def read_moves(scenario: Scenario, plan: Json) -> list[str]:
    """Return the nodes of the tested instance after the moves of a plan, primary first."""
    moves = [move["to"] for move in plan["moves"] if move["instance"] == "subject"]
    return list(moves[-1]) if moves else list(scenario.subject["nodes"])


# Within a group.


def balance(kind: str, split: bool) -> Scenario:
    """Return a cluster in which the node of the tested instance is overloaded."""
    scenario = moving_scenario(kind, split)
    scenario.subject["memory"] = 1800
    if kind == DRBD:
        scenario.node(KEEPER)["total_memory"] += 1800
        scenario.subject["disk_space_total"] = 50000
        scenario.options.append("--no-instance-moves")
    return scenario


LOADS = {"subject": 2.5, "at-source": 3.0, "at-next": 0.6, "at-keeper": 1.2}
"""The cpu loads that steady balancing measures, in cpus; other instances have 0.1."""


def steady(kind: str, split: bool) -> Scenario:
    """Return a cluster in which the cpus of the node of the tested instance have a high load."""
    return moving_scenario(kind, split)


def ask_steady(scenario: Scenario) -> Json:
    """Return the plan of the first round of steady balancing that may move instances."""
    document = scenario.finished()
    with tempfile.TemporaryDirectory() as folder:
        for hour in range(27):
            moment = f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00:00Z"
            sample = {
                name: {"nodes": one["nodes"], "vcpus": one["vcpus"], "load": [_load(name), 0, 0, 0]}
                for name, one in document["instances"].items()
            }
            line = {"time": moment, "instances": sample, "planned": []}
            with (Path(folder) / f"{moment[:10]}.jsonl").open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(line, separators=(',', ':'))}\n")
        loads = Path(folder) / "loads"
        loads.write_text(
            "".join(f"{name} {_load(name)} 0 0 0\n" for name in document["instances"]),
            encoding="utf-8",
        )
        words = (f"-U{loads}", f"--history={folder}", "--now=2026-01-02T03:10:00Z")
        return asking("balance", "--steady", "--all-groups", *words)(scenario)


def _load(name: str) -> float:
    """Return the measured cpu load of an instance, in cpus."""
    return LOADS.get(name, 0.1)


def swap(kind: str, split: bool) -> Scenario:
    """Return a cluster in which the tested instance should be swapped with another instance."""
    scenario = Scenario(cluster_document([BEST, NEXT, SOURCE, KEEPER]), kind)
    scenario.node(NEXT)["total_memory"] = HELD[NEXT] + 256
    for name in (SOURCE, BEST):
        scenario.node(name)["total_memory"] = 8192
        scenario.instance(f"at-{name}")["memory"] = 2048
    scenario.instance("at-source")["vcpus"] = 6
    scenario.add("subject", SOURCE, memory=3000, vcpus=6)
    scenario.add("partner", BEST, memory=3000, vcpus=1)
    return scenario


def squeeze_down(kind: str, split: bool) -> Scenario:
    """Return a cluster in which squeeze can power down only the node of the tested instance."""
    scenario = moving_scenario(kind, split)
    del scenario.document["instances"]["at-source"]
    scenario.options += ["--target-resources=0", "--minimal-resources=0", "--master-node=best"]
    return scenario


def squeeze_up(kind: str, split: bool) -> Scenario:
    """Return a cluster in which the tested instance's node lacks memory; `best` is on standby."""
    scenario = Scenario(cluster_document([BEST, NEXT, SOURCE, KEEPER]), kind)
    scenario.node(SOURCE)["total_memory"] = 8192
    scenario.node(NEXT)["total_memory"] = 9000
    scenario.node(KEEPER)["total_memory"] = 1024
    scenario.add("subject", SOURCE, memory=7500)
    scenario.asleep = True
    scenario.node(BEST)["offline"] = True
    scenario.tag(scenario.node(BEST), "htools:standby:auto")
    scenario.options += ["--target-resources=0.5", "--minimal-resources=0.5"]
    return scenario


def reboot(kind: str, split: bool) -> Scenario:
    """Return a cluster in which only the node of the tested instance is to be rebooted."""
    scenario = moving_scenario(kind, split)
    del scenario.document["instances"]["at-source"]
    scenario.tag(scenario.node(SOURCE), "now")
    scenario.options += ["--force", "--node-tags=now", "--full-evacuation"]
    return scenario


def ask_reboot(scenario: Scenario) -> Json:
    """Return the moves of `reboot` before the nodes are rebooted."""
    plan = asking("reboot")(scenario)
    return plan | {"moves": plan["moves"][: len(plan["moves"]) // 2]}


def maintain(kind: str, split: bool) -> Scenario:
    """Return a cluster in which the tested instance leaves its node for maintenance for good."""
    scenario = reboot(kind, split)
    scenario.options += ["--after=stay"]
    return scenario


def repair(kind: str, split: bool) -> Scenario:
    """Return a cluster for `repair`, in which the node of the tested instance is offline."""
    scenario = moving_scenario(kind, split)
    del scenario.document["instances"]["at-source"]
    scenario.node(SOURCE)["offline"] = True
    scenario.tag(scenario.subject, "ganeti:watcher:autorepair:reinstall")
    return scenario


def ask_repair(scenario: Scenario) -> Json:
    """Return the repairs that `repair` plans for the scenario."""
    found: Json = json.loads(run("repair", scenario.finished(), "--json", *scenario.options))
    return found


def read_repair(scenario: Scenario, found: Json) -> list[str]:
    """Return the nodes of the tested instance after its repair; [] if it is not repaired."""
    ends = [one.get("to", []) for one in found["instances"] if one["instance"] == "subject"]
    return list(ends[0]) if ends else []


def rescue(kind: str, split: bool) -> Scenario:
    """Return a cluster in which the node of the tested instance is to be rescued."""
    scenario = moving_scenario(kind, split)
    del scenario.document["instances"]["at-source"]
    return scenario


def ask_rescue(scenario: Scenario) -> Json:
    """Return the plan of the rescue of the node of the tested instance."""
    words = ("rescue", SOURCE, "--json", "--verify-plan", *scenario.options)
    done = program.run(*words, stdin=as_bytes(scenario.finished()))
    if done.returncode == 2:
        raise RejectedError(done.stderr.decode())
    plan: Json = json.loads(done.stdout)  # status 1: the subject stays
    return plan


# Between groups.


def redistribute(kind: str, split: bool) -> Scenario:
    """Return a cluster for `redistribute`; the node of the tested instance is offline."""
    scenario = between_scenario(kind, split=True)
    if not split:
        scenario.options.clear()
        scenario.node(KEEPER)["total_memory"] += 1024  # for what is on `best`, if that fails
    scenario.node(SOURCE)["offline"] = True
    del scenario.document["instances"]["at-source"]
    return scenario


def compress(kind: str, split: bool) -> Scenario:
    """Return a cluster in which only the group of the tested instance can be emptied."""
    scenario = between_scenario(kind, split)
    del scenario.document["instances"]["at-source"]
    return scenario


def balance_groups(kind: str, split: bool) -> Scenario:
    """Return a cluster in which the group of the tested instance is overloaded."""
    scenario = between_scenario(kind, split)
    scenario.node(SOURCE)["total_cpus"] = 2
    if split:
        scenario.node(BEST)["total_cpus"] = 32
        for name in (NEXT, SPARE):
            for number in range(3):
                scenario.add(f"more-{name}-{number}", name, disk_template="plain", memory=256)
    return scenario


def place(kind: str, split: bool) -> Scenario:
    """Return a cluster for a full re-placement with the tested instance among others."""
    return moving_scenario(kind, split)


def read_placement(scenario: Scenario, plan: Json) -> list[str]:
    """Return the nodes on which `place` puts the tested instance."""
    home = plan["placement"]["subject"]
    return [home] if home else []


def detour(kind: str, split: bool) -> Scenario:
    """Return a cluster in which a swap of the tested instance needs a temporary move."""
    scenario = Scenario(cluster_document([BEST, NEXT, SOURCE, KEEPER]), kind, ["--n1=off"])
    for name in scenario.document["nodes"]:
        scenario.node(name)["total_memory"] = 3000 if name in (SOURCE, KEEPER) else 2000
        scenario.instance(f"at-{name}")["memory"] = 500
    subject = scenario.add("subject", SOURCE, memory=1200)
    scenario.tag(subject, "iallocator:score:keeper:10")
    scenario.tag(scenario.add("rival", KEEPER, memory=2000), "iallocator:score:source:10")
    return scenario


def read_detour(scenario: Scenario, plan: Json) -> list[str]:
    """Return the node of the tested instance's temporary move; [] if there is none."""
    steps = [step for step in plan["transition"]["steps"] if step.get("instance") == "subject"]
    return [step["to"][0] for step in steps[:1] if step["to"][0] not in (SOURCE, KEEPER)]


# Many at once.


def exact(kind: str, split: bool) -> Scenario:
    """Return a scenario with a batch in which the first instance can take the only node for the
    second.

    The instance on the node `best` could fail over to the node ``spare``.
    """
    scenario = new_scenario(kind, split)
    scenario.node(NEXT)["total_memory"] = HELD[NEXT] + 8000
    home = scenario.group_of(BEST)["name"]
    scenario.document["nodes"]["spare"] = builders.node(
        home, memory=MEMORY[BEST] - HELD[BEST] - 300
    )
    wanted = [newcomer(kind, memory=6000), newcomer(kind, memory=28000)]
    wanted[0]["name"] = "first"
    for one in wanted:
        del one["type"]
        one["restrict-to-nodes"] = [BEST, NEXT, KEEPER]
    scenario.document["request"] = {"type": "multi-allocate", "instances": wanted}
    return scenario


def exact_moves(kind: str, split: bool) -> Scenario:
    """Return a scenario with an evacuation that only exact search completes."""
    scenario = moving_scenario(kind, split)
    scenario.node(NEXT)["total_memory"] = HELD[NEXT] + 8000
    scenario.node(SOURCE)["total_memory"] = 40000
    scenario.subject["memory"] = 28000
    scenario.add("first", SOURCE, memory=6000)
    scenario.document["request"] = {
        "type": "node-evacuate", "instances": ["first", "subject"], "evac_mode": "primary-only",
    }  # fmt: skip
    return scenario


def squeeze_exact(kind: str, split: bool) -> Scenario:
    """Return a cluster in which only exact search frees a node."""
    scenario = exact_moves(kind, split)
    del scenario.document["request"], scenario.document["instances"]["at-source"]
    scenario.options += ["--target-resources=0", "--minimal-resources=0", "--master-node=best"]
    scenario.options.append("--n1=off")  # no other node could take the subject from `best`
    return scenario


def capacity(kind: str, split: bool) -> Scenario:
    """Return a cluster and options for counting instances like the tested instance."""
    names = [BEST, NEXT, KEEPER, SPARE]
    groups = ["default", "second", "default", "second"] if split else ()
    scenario = Scenario(cluster_document(names, groups), kind)
    if split:
        scenario.group_of(NEXT)["alloc_policy"] = "last_resort"
        scenario.options.append("--n1=off")
    scenario.wanted = newcomer(kind)
    return scenario


def ask_capacity(scenario: Scenario, *words: str) -> Json:
    """Return how many instances like the tested instance fit; without `words`, at most one."""
    one = scenario.subject
    size = f"{one['disks'][0]['size']},{one['memory']},{one['vcpus']}"
    options = [f"--standard-alloc={size}", f"--tiered-alloc={size}", *(words or ["-l1"])]
    options += [f"--disk-template={one['disk_template']}", f"--spindle-use={one['spindle_use']}"]
    output = run("capacity", scenario.finished(), "--json", *options, *scenario.options)
    found: Json = json.loads(output)
    return found


def ask_purchase(scenario: Scenario) -> Json:
    """Return how many instances like the tested one fit after the purchase of a useless node."""
    return ask_capacity(scenario, "--add-nodes=1:1m,1m,1,group=default")


def ask_trend(scenario: Scenario) -> Json:
    """Return how many instances like the tested one fit, with the day on which groups are full."""
    uuids = scenario.document["nodegroups"]
    with tempfile.TemporaryDirectory() as folder:
        for day in range(1, 21):
            demand = {"instances": day, "memory": 512.0 * day, "disk": 0.0, "vcpus": float(day)}
            line = {"time": f"2026-01-{day:02}T03:00:00Z", "groups": dict.fromkeys(uuids, demand)}
            path = Path(folder) / f"2026-01-{day:02}.jsonl"
            path.write_text(f"{json.dumps(line)}\n", encoding="utf-8")
        words = ("--forecast", f"--history={folder}", "--now=2026-01-21T03:00:00Z")
        found = ask_capacity(scenario, *words)
    assert {one["group"] for one in found["trend"]["groups"]} <= {
        group["name"] for group in uuids.values()
    }
    return found


def read_capacity(scenario: Scenario, plan: Json) -> list[str]:
    """Return the nodes of the first instance; [] if none fits."""
    placed = plan.get("purchases", [plan["standard"]])[0]["instances"]
    return list(placed[0]["nodes"]) if placed else []
