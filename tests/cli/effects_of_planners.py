"""Define clusters on which each option of a planner changes the plan."""

from __future__ import annotations

import json
from random import Random

from benchmarks.gap import Home, Machine, as_text, generate
from benchmarks.proofs import cluster_of
from tests.builders import Json, allocate, allocate_rbd, cluster, instance, policy, rbd, spec
from tests.conformance.whole_groups import Case, compress_case, redistribute_case

from .effect import OVERLOADED, Effect, stored

__all__ = ["BY_COMMAND"]

TWO = {"east": 2, "west": 2}

AWAY = {"node1": {"offline": True}}

RACKS = cluster(2, changes={"node1": {"tags": ["rack:a"]}}, tags=("htools:nlocation:rack",))
"""A cluster of two nodes, one of which is in a failure domain."""

LOADED = {"loads": "d0 5 1 1 1\nr0 9 9 9 9\n"}
"""Files with the load of instances, for the option --dynu-file."""

LOADS = "--dynu-file={folder}/loads"


def four(**members: object) -> dict[str, Json]:
    """Return four equal instances on the first node; `members` change all of them."""
    return {f"a{k}": rbd("node1", **members) for k in range(4)}


SICK = cluster(2, instances=four(tags=["x:1"]), tags=("htools:iextags:x",))
"""A cluster with instances on one node that an exclusion tag must separate."""


def changed(document: Json, *path: str, **members: object) -> Json:
    """Return a copy of `document` in which the object at `path` has the given members."""
    copy: Json = json.loads(json.dumps(document))
    place = copy
    for name in path:
        place = place[name]
    place |= members
    return copy


def of_kvm(document: Json) -> Json:
    """Return `document` with kvm as hypervisor, so that nodes need memory for themselves."""
    copy = changed(document, enabled_hypervisors=["kvm"])
    for node in copy["nodes"].values():
        node |= {"total_memory": 5200}
    return copy


def keyed(**changes: Json) -> Json:
    """Return a cluster with a placement key for memory, and two instances on one node."""
    document = cluster(
        {"east": 1, "west": 3},
        memory=20000,
        cpus=32,
        instances={
            "a": rbd("node1"),
            "b": rbd("node1"),
            "w1": rbd("node2", memory=8000),
            "w2": rbd("node3", memory=3000, vcpus=40),
            "w3": rbd("node4", memory=5000),
        },
        changes=changes,
    )
    ram = {"level": "cluster", "class": "special", "name": "#RAM", "value": 0, "weight": 100}
    return {**document, "placement_keys": [ram]}


def strict_ratio(document: Json, group: str, ratio: float) -> Json:
    """Return `document` with a low limit of virtual cpus per cpu in `group`."""
    return changed(document, "nodegroups", f"uuid-{group}", "ipolicy", **{"vcpu-ratio": ratio})


def occupied(**away: object) -> Json:
    """Return two instances; the first one is on the only node where the second one fits."""
    instances = {
        "a": instance("node1", memory=3000, disk_template="ext", storage_pool="nas1"),
        "b": instance("node1", memory=3000, disk_template="ext", storage_pool="nas2"),
        "w": instance("node2", memory=4000, disk_template="ext", storage_pool="nas1"),
        "s": instance("node3", memory=4600, disk_template="ext", storage_pool="nas1"),
    }
    for name, one in instances.items():
        one["storage_type"] = "external"
        one["tags"] = ["iallocator:separate:must:x"] if name in "ab" else []
    document = cluster({"east": 1, "west": 1, "south": 1}, instances=instances)
    for name, pools in (("node1", "12"), ("node2", "12"), ("node3", "1")):
        reached = [{"type": "external", "name": f"nas{k}"} for k in pools]
        document["nodes"][name] |= {"storage_pools": reached}
    document["nodes"]["node1"] |= away
    return document


PAIR = strict_ratio(cluster(2, cpus=2, instances=four(vcpus=4, memory=512)), "default", 3)
"""A cluster with all instances on one node, of which the cpu ratio permits to move one."""

PACKED = cluster(
    4,
    instances={
        "i0": rbd("node2", memory=2048),
        "i1": rbd("node2", memory=1024),
        "i2": rbd("node3", memory=4096),
        "i3": rbd("node2", memory=2048),
        "i4": rbd("node1", memory=3072),
    },
)
"""A cluster in which one more node can be freed if all instances are placed jointly."""

PACKED_TIGHTLY = ("--n1=off", "--target-resources=1", "--minimal-resources=0.5")

EAST = cluster(TWO, instances=four())
IN_USE = cluster(TWO, instances=four() | {"stays": instance("node3")})
"""A cluster of two groups with instances, of which one cannot leave its group."""

EAST_AWAY = cluster(TWO, instances=four(), changes=AWAY)
KVM = of_kvm(EAST)
MIXED = cluster({"east": 2, "west": 2}, instances={**OVERLOADED["instances"], "w": rbd("node3")})

ANY_GAIN = "--min-gain-limit=1000"

TWO_TROUBLES = cluster(
    TWO,
    instances={"e": rbd("node1"), "w": rbd("node3")},
    changes={"node1": {"offline": True}, "node3": {"offline": True}},
)
"""A cluster of two groups, each with an instance on an offline node."""

BALANCING = {
    "--evac-mode": Effect(OVERLOADED, "--evac-mode"),
    "--restricted-migration": Effect(OVERLOADED, "--restricted-migration"),
    "--no-disk-moves": Effect(OVERLOADED, "--no-disk-moves"),
    "--no-instance-moves": Effect(OVERLOADED, "--no-instance-moves"),
    "--select-instances": Effect(OVERLOADED, "--select-instances=d0"),
    "--exclude-instances": Effect(OVERLOADED, "--exclude-instances=d0"),
    "--dynu-file": Effect(OVERLOADED, LOADS, (), LOADED),
    "--max-cpu": Effect(PAIR, "--max-cpu=1"),
    "--disk-reserve": Effect(OVERLOADED, "--disk-reserve=99%"),
    "--min-disk": Effect(OVERLOADED, "--min-disk=0.99"),
    "--offline": Effect(OVERLOADED, "--offline=node2"),
    "--max-length": Effect(OVERLOADED, "--max-length=1"),
    "--min-score": Effect(OVERLOADED, "--min-score=1000"),
    "--min-gain": Effect(OVERLOADED, "--min-gain=100", (ANY_GAIN,)),
    "--min-gain-limit": Effect(OVERLOADED, ANY_GAIN, ("--min-gain=100",)),
    "--lookahead": stored("captured/008-create-plain-on-nodes-not-busy", "--lookahead"),
    "--cost": Effect(OVERLOADED, "--cost=1"),
    "--n1": stored("node-evacuate/order-big-first", "--n1=off"),
    "--no-capacity-checks": stored("node-evacuate/order-big-first", "--no-capacity-checks"),
    "--ignore-soft-errors": Effect(PAIR, "--ignore-soft-errors"),
    "--ignore-dynu": Effect(OVERLOADED, "--ignore-dynu"),
    "--static-kvm-node-memory": Effect(KVM, "--static-kvm-node-memory=0"),
    "--memory-ratio": Effect(KVM, "--memory-ratio=5"),
    "--compat": stored("allocate/cpu-speed", "--compat=hail"),
    "--stickiness": Effect(OVERLOADED, "--stickiness=INFINITY"),
    "--time-limit": Effect(OVERLOADED, "--time-limit=0"),
    "--tag-prefix": stored("constraints/balance-moves-partners-as-one", "--tag-prefix=x:"),
}
"""Option of both `balance` and `check` -> a case in which it has an effect."""

VERIFIED = {"--verify-plan": Effect(OVERLOADED, "--verify-plan")}


def history_of_loads(elsewhere: str = "") -> dict[str, str]:
    """Return files with the loads of `OVERLOADED`, and a history of 27 hours.

    `elsewhere` is an instance that was on another node until the last sample.
    """
    nodes = {name: list(one["nodes"]) for name, one in OVERLOADED["instances"].items()}
    lines: dict[str, list[str]] = {"01": [], "02": []}
    for half in range(54):
        day, hour = divmod(half // 2, 24)
        instances = {
            name: {
                "nodes": ["node4"] if name == elsewhere and half < 53 else places,
                "load": [1.2, 0, 0, 0],
                "vcpus": OVERLOADED["instances"][name]["vcpus"],
            }
            for name, places in nodes.items()
        }
        moment = f"2026-01-{day + 1:02}T{hour:02}:{half % 2 * 30:02}:00Z"
        sample = {"time": moment, "instances": instances, "planned": []}
        lines[f"{day + 1:02}"].append(json.dumps(sample))
    loads = "".join(f"{name} 1.2 0 0 0\n" for name in nodes)
    return {"loads": loads} | {
        f"history/2026-01-{day}.jsonl": "\n".join(some) + "\n" for day, some in lines.items()
    }


PAST = history_of_loads()

AT_THREE = "--now=2026-01-02T03:00:00Z"

STEADILY = ("--steady", "--n1=off", LOADS, "--history={folder}/history", AT_THREE)


def steady(option: str, *words: str, files: dict[str, str] = PAST) -> Effect:
    """Return the effect of an option of balance --steady."""
    return Effect(OVERLOADED, option, (*STEADILY, *words), files)


BALANCE = {
    "--steady": Effect(OVERLOADED, "--steady"),
    "--history": steady("--history={folder}/other"),
    "--now": steady("--now=2026-01-02T12:00:00Z"),
    "--shadow": steady("--shadow"),
    "--least-history": steady("--least-history=48"),
    "--hold": steady("--hold=40"),
    "--steady-gain": steady("--steady-gain=100"),
    "--gib-cost": steady("--gib-cost=100"),
    "--hourly-moves": steady("--hourly-moves=1"),
    "--nightly-moves": steady("--nightly-moves=1"),
    "--hours": steady("--hours=10-12"),
    "--rest-days": steady("--rest-days=0", files=history_of_loads("r0")),
    "--overload": steady("--overload=0.5", "--hours=10-12"),
    "--nodes-offline": steady("--nodes-offline=0", "--offline=node4"),
    "--metrics": Effect(OVERLOADED, "--metrics={folder}/file"),
    **BALANCING,
    **VERIFIED,
    "--group": Effect(MIXED, "--group=west"),
    "--all-groups": Effect(MIXED, "--all-groups"),
}

TIMED = "--bandwidth=7", ("--html={folder}/page.html",)
"""The option --bandwidth, with the page of a plan on which it changes the times."""

CHECK = {
    "--metrics": Effect(OVERLOADED, "--metrics={folder}/file"),
    "--group": Effect(TWO_TROUBLES, "--group=west"),
    "--bandwidth": Effect(EAST_AWAY, *TIMED),
    **{
        name: Effect(one.document, one.option, ("--simulation", *one.words), one.files)
        for name, one in BALANCING.items()
    },
    "--simulation": Effect(OVERLOADED, "--simulation"),
    "--machine-readable": Effect(OVERLOADED, "--machine-readable"),
    "--nagios": Effect(OVERLOADED, "--nagios"),
    "--no-simulation": Effect(SICK, "--no-simulation"),
    "--failures": Effect(OVERLOADED, "--failures=2"),
    "--racks": Effect(RACKS, "--racks"),
}


def of_drbd(document: Json) -> Json:
    """Return `document` with drbd instances: the secondary of each is on the second node."""
    copy = changed(document)
    for name, one in copy["instances"].items():
        if one["nodes"] == ["node1"]:
            copy["instances"][name] = instance("node1", "node2")
    return copy


def between(
    document: Json, hindered: Json, kvm: Json, marked: Json, loaded: Json
) -> dict[str, Effect]:
    """Return the effects of the options of all commands that move instances between groups.

    In `hindered`, moves exceed a soft limit; `kvm` is short of memory; `marked` has tags of
    iallocator, and `loaded` placement keys.
    """
    keys = ("--strategy=affinity",)
    return {
        **VERIFIED,
        "--offline": Effect(document, "--offline=node3"),
        "--n1": stored("compress/placed-together", "--n1=off"),
        "--no-capacity-checks": stored("compress/placed-together", "--no-capacity-checks"),
        "--ignore-soft-errors": Effect(hindered, "--ignore-soft-errors"),
        "--restrict-allocation-to": Effect(document, "--restrict-allocation-to=node3"),
        "--static-kvm-node-memory": Effect(kvm, "--static-kvm-node-memory=0"),
        "--memory-ratio": Effect(kvm, "--memory-ratio=5"),
        "--inter-group": Effect(document, "--inter-group=no"),
        "--time-limit": Effect(document, "--time-limit=0"),
        "--tag-prefix": Effect(marked, "--tag-prefix=x:"),
        "--strategy": Effect(loaded, "--strategy=affinity"),
        "--affinity-overhead": Effect(document, "--affinity-overhead=50000", keys),
        "--initial-msav": Effect(loaded, "--initial-msav=0", keys),
        "--final-msav": Effect(document, "--final-msav=30", keys),
        "--msav-steps": Effect(loaded, "--msav-steps=1", keys),
        "--seed": Effect(document, "--seed=1", keys),
        "--ignore-dynu": Effect(loaded, "--ignore-dynu"),
    }


def closed(document: Json) -> Json:
    """Return `document` with a node of the group west in maintenance."""
    return changed(document, "nodes", "node3", tags=["iallocator:maintenance"])


NARROW = strict_ratio(EAST, "west", 0.1)
NARROW_AWAY = strict_ratio(EAST_AWAY, "west", 0.1)
KEYED, KEYED_AWAY = keyed(), keyed(node1={"offline": True})

ALIKE = cluster(
    {"east": 1, "west": 1},
    instances={name: rbd(name, tags=["rack:1"]) for name in ("node1", "node2")},
    tags=("htools:iextags:rack",),
)
"""A cluster with instances that an exclusion tag keeps apart."""

BALANCE_GROUPS = {
    "--group": Effect(
        cluster({"east": 2, "west": 2, "south": 2}, instances=four()), "--group=west"
    ),
    "--bandwidth": Effect(EAST, *TIMED),
    **between(EAST, NARROW, KVM, closed(EAST), KEYED),
    "--seed": stored("balance-groups/overlapping-pools", "--seed=3", "--strategy=affinity"),
    "--dynu-file": Effect(MIXED, LOADS, (), LOADED),
    "--ignore-dynu": Effect(MIXED, "--ignore-dynu"),
    "--max-length": Effect(EAST, "--max-length=1"),
    "--min-gain": Effect(EAST, "--min-gain=1000"),
    "--stickiness": Effect(EAST, "--stickiness=1000"),
    "--cost": Effect(EAST, "--cost=1"),
}

SHOWN_LOADS = ("--print-nodes=name,cload",)

STICKY = ("--strategy=pacemaker-balanced",)

SIMULATED = compress_case(119, "shared")._replace(n1="strict", lenient=False, cpu_ratio=64).text()
"""A group that exact search proves impossible to empty if strict N+1 rejects the moves."""

COMPRESS = {
    "--optimal": Effect(
        None,
        "--optimal",
        ("-t", "{folder}/cluster.data", "--static-kvm-node-memory=0", "--n1=strict"),
        {"cluster.data": SIMULATED},
    ),
    "--group": Effect(IN_USE, "--group=east"),
    "--bandwidth": Effect(IN_USE, *TIMED),
    **between(IN_USE, ALIKE, of_kvm(IN_USE), closed(IN_USE), KEYED_AWAY),
    "--disk-reserve": Effect(of_drbd(IN_USE), "--disk-reserve=100%"),
    "--ignore-dynu": Effect(IN_USE, "--ignore-dynu", SHOWN_LOADS),
    "--exact-search": Effect(occupied(), "--exact-search=no", ("--n1=off",)),
    "--stickiness": stored("balance-groups/overlapping-pools", "--stickiness=100", *STICKY),
}

REDISTRIBUTE = {
    "--optimal": Effect(
        None,
        "--optimal",
        ("-t", "{folder}/cluster.data", "--static-kvm-node-memory=0"),
        {"cluster.data": redistribute_case(0, "drbd").text()},
    ),
    "--group": Effect(EAST_AWAY, "--group=west"),
    "--bandwidth": Effect(EAST_AWAY, *TIMED),
    **between(EAST_AWAY, NARROW_AWAY, KVM, closed(EAST_AWAY), KEYED_AWAY),
    "--disk-reserve": Effect(of_drbd(EAST_AWAY), "--disk-reserve=100%"),
    "--ignore-dynu": Effect(KEYED, "--ignore-dynu", SHOWN_LOADS),
    "--exact-search": Effect(occupied(offline=True), "--exact-search=no", ("--n1=off",)),
    "--stickiness": stored("check/everything", "--stickiness=100", *STICKY),
}

PLACED = ("--strategy=pacemaker-default",)


def hard_to_place() -> str:
    """Return a cluster with an offline node, as text.

    All instances fit, but in few placements.
    """
    rng = Random("pl5 174")
    machines = [Machine(f"node{k}", 16384, 1 << 20, 64) for k in range(rng.randint(4, 5))]
    count = len(machines)
    homes = generate(rng, machines, ("drbd", "rbd"), rng.randint(2 * count, 4 * count))
    return Case(machines, homes, [0] * count, frozenset([count - 1])).text()


MUCH_TO_PLACE = hard_to_place()

PLACE = {
    "--optimal": Effect(
        None,
        "--optimal",
        ("-t", "{folder}/cluster.data", "--static-kvm-node-memory=0", "--n1=off", *PLACED),
        {"cluster.data": MUCH_TO_PLACE},
    ),
    "--group": Effect(MIXED, "--group=west", PLACED),
    "--offline": Effect(OVERLOADED, "--offline=node2", PLACED),
    "--verify-plan": Effect(OVERLOADED, "--verify-plan", PLACED),
    "--n1": stored("allocate/n1-second-best", "--n1=off", *PLACED),
    "--no-capacity-checks": stored("allocate/n1-second-best", "--no-capacity-checks", *PLACED),
    "--ignore-soft-errors": stored(
        "allocate/exclusion-tag-conflict", "--ignore-soft-errors", *PLACED
    ),
    "--restrict-allocation-to": stored(
        "affinity/a-key-is-a-mark-too", "--restrict-allocation-to=node1", *PLACED
    ),
    "--static-kvm-node-memory": stored(
        "allocate/kvm-node-memory", "--static-kvm-node-memory=0", *PLACED
    ),
    "--memory-ratio": stored("allocate/kvm-node-memory", "--memory-ratio=5", *PLACED),
    "--disk-reserve": Effect(OVERLOADED, "--disk-reserve=100%", PLACED),
    "--exact-search": stored("allocate/kvm-node-memory", "--exact-search=no", *PLACED),
    "--time-limit": stored("allocate/kvm-node-memory", "--time-limit=0", *PLACED),
    "--tag-prefix": stored("constraints/apart-by-rack", "--tag-prefix=x:", *PLACED),
    "--strategy": Effect(OVERLOADED, "--strategy=pacemaker-balanced", PLACED),
    "--stickiness": Effect(OVERLOADED, "--stickiness=100", PLACED),
}

MANY_SETS = cluster_of("squeeze", 4, "shared").text()
"""A cluster with many sets of two nodes, which exact search proves impossible to free."""

SQUEEZE = {
    "--optimal": Effect(
        None,
        "--optimal",
        ("-t", "{folder}/cluster.data", "--static-kvm-node-memory=0"),
        {"cluster.data": MANY_SETS},
    ),
    "--offline": Effect(OVERLOADED, "--offline=node3"),
    "--dynu-file": Effect(OVERLOADED, LOADS, ("--print-instances",), LOADED),
    **VERIFIED,
    "--target-resources": Effect(OVERLOADED, "--target-resources=100"),
    "--minimal-resources": Effect(OVERLOADED, "--minimal-resources=100"),
    "--master-node": Effect(OVERLOADED, "--master-node=node3"),
    "--prefer": Effect(KEYED, "--prefer=node3"),
    "--avoid": Effect(OVERLOADED, "--avoid=node3"),
    "--drbd": Effect(OVERLOADED, "--drbd"),
    "--all-instances": Effect(OVERLOADED, "--all-instances"),
    "--group": Effect(MIXED, "--group=west"),
    "--n1": Effect(KEYED, "--n1=off"),
    "--no-capacity-checks": Effect(KEYED, "--no-capacity-checks"),
    "--ignore-soft-errors": Effect(PAIR, "--ignore-soft-errors"),
    "--ignore-dynu": Effect(OVERLOADED, "--ignore-dynu"),
    "--static-kvm-node-memory": Effect(KVM, "--static-kvm-node-memory=0"),
    "--memory-ratio": Effect(KVM, "--memory-ratio=5"),
    "--disk-reserve": Effect(OVERLOADED, "--disk-reserve=100%", ("--drbd",)),
    "--compat": Effect(OVERLOADED, "--compat=hail"),
    "--exact-search": Effect(PACKED, "--exact-search=no", PACKED_TIGHTLY),
    "--stickiness": Effect(OVERLOADED, "--stickiness=INFINITY"),
    "--time-limit": Effect(OVERLOADED, "--time-limit=0"),
    "--tag-prefix": stored("constraints/balance-keeps-apart", "--tag-prefix=x:"),
}


def small(**members: object) -> Json:
    """Return a cluster of two groups with a policy that permits small instances only."""
    instances: Json = members.pop("instances", {})  # type: ignore[assignment]
    document = cluster(TWO, memory=4096, instances=instances)
    sizes = policy(high=spec(1024, 2, 10240, 4, 4)) | {"spindle-ratio": 4}
    document["ipolicy"] = sizes
    for group in document["nodegroups"].values():
        group["ipolicy"] = sizes
    return document | members


ROOM = small()
SICK = small(
    instances={
        "x": instance("node1", "node2", memory=3000),
        "y": instance("node2", "node1", memory=3000),
    }
)

SLOTS = cluster(
    2, changes={f"node{k}": {"tags": ["iallocator:utilization:slots:1"]} for k in (1, 2)}
)
"""A cluster with capacities in tags of nodes, which only some strategies read."""

RESERVED = cluster(3, memory=8000, instances={"a": instance("node1", "node2", memory=3000)})
"""A cluster for three more pairs of 2500 MiB by score, and four by other placements."""


def totals(step: int) -> dict[str, str]:
    """Return a history of totals in which the memory of group east grows by `step` MiB a day."""
    groups = [
        {"uuid-east": {"instances": k, "memory": k * step, "disk": 0, "vcpus": k}}
        for k in range(1, 21)
    ]
    return {
        f"totals/2026-01-{k:02}.jsonl": json.dumps(
            {"time": f"2026-01-{k:02}T03:00:00Z", "groups": one}
        )
        for k, one in enumerate(groups, start=1)
    }


FORECAST = ("--forecast", "--history={folder}/totals", "--now=2026-01-21T03:00:00Z")

ARCHIVED = {
    "jobs/job-1": json.dumps({
        "received_timestamp": [1767225600, 0],
        "ops": [{"status": "success", "end_timestamp": [1768435200, 0], "input": {
            "OP_ID": "OP_INSTANCE_CREATE", "instance_name": "i1", "pnode": "node1", "disks": [],
            "disk_template": "rbd", "beparams": {"memory": 1024}}}, {
            "status": "success", "end_timestamp": [1768867200, 0], "input": {
            "OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "i1"}}],
    })
}  # fmt: skip
"""An archived job list of an instance that existed from 2026-01-15 to 2026-01-20."""

MANY_FIT = as_text(
    [Machine(f"node{k}", 49152 + 16384 * (k % 2), 1 << 20, 64) for k in range(5)],
    [Home(f"inst{k}", 1500 + 433 * k, 2048, 1, "rbd", (k % 5,)) for k in range(10)],
)
"""A cluster with capacity for more than 300 instances of 500 MiB."""

MANY_SMALL = ("--standard-alloc=1g,500,1", "--disk-template=rbd", "--static-kvm-node-memory=0")

CAPACITY = {
    "--optimal": Effect(
        None, "--optimal", ("-t", "{folder}/cluster.data", *MANY_SMALL), {"cluster.data": MANY_FIT}
    ),
    "--forecast": Effect(ROOM, "--forecast", FORECAST[1:], totals(100)),
    "--history": Effect(
        ROOM,
        "--history={folder}/other",
        FORECAST,
        {
            **totals(100),
            **{name.replace("totals", "other"): text for name, text in totals(50).items()},
        },
    ),
    "--now": Effect(ROOM, "--now=2026-01-22T03:00:00Z", FORECAST, totals(100)),
    "--capture": Effect(
        ROOM,
        "--capture={folder}/calls",
        FORECAST,
        {
            **totals(100),
            "calls/000001.request.json.gz": json.dumps(ROOM),
            "calls/000001.call.json": json.dumps({"time": 1766800000}),
        },
    ),
    "--job-archive": Effect(
        ROOM,
        "--job-archive={folder}/jobs",
        FORECAST,
        {
            **{k: v for k, v in totals(100).items() if not k.endswith(("16.jsonl", "17.jsonl"))},
            **ARCHIVED,
        },
    ),
    "--metrics": Effect(OVERLOADED, "--metrics={folder}/file", ("--tiered-alloc=10g,1g,1", "-l3")),
    "--group": Effect(ROOM, "--group=east"),
    "--add-nodes": Effect(ROOM, "--add-nodes=2:10g,4g,4,group=east,cost=5"),
    "--machine-readable": Effect(ROOM, "--machine-readable"),
    "--replay": Effect(
        ROOM,
        "--replay={folder}/past",
        (),
        {"past/1.json": json.dumps(allocate(ROOM, disk_template="plain"))},
    ),
    "--strategy": Effect(
        SLOTS,
        "--strategy=utilization",
        ("--replay={folder}/past",),
        {"past/1.json": json.dumps(allocate_rbd(SLOTS, tags=["iallocator:utilization:slots:1"]))},
    ),
    "--exact-search": Effect(
        RESERVED, "--exact-search=no", ("--standard-alloc=1g,2500,1", "--disk-template=drbd")
    ),
    "--standard-alloc": Effect(ROOM, "--standard-alloc=10g,1g,2"),
    "--tiered-alloc": Effect(ROOM, "--tiered-alloc=10g,512m,1"),
    "--disk-template": Effect(ROOM, "--disk-template=plain"),
    "--spindle-use": Effect(ROOM, "--spindle-use=12"),
    "--independent-groups": Effect(SICK, "--independent-groups"),
    "--accept-existing-errors": Effect(SICK, "--accept-existing-errors"),
    "--offline": Effect(ROOM, "--offline=node1"),
    "--max-cpu": Effect(ROOM, "--max-cpu=0.2"),
    "--min-disk": Effect(ROOM, "--min-disk=0.95", ("--disk-template=plain",)),
    "--max-length": Effect(ROOM, "--max-length=1"),
    "--n1": Effect(ROOM, "--n1=off", ("--disk-template=rbd",)),
    "--no-capacity-checks": Effect(ROOM, "--no-capacity-checks", ("--disk-template=rbd",)),
    "--ignore-soft-errors": Effect(
        strict_ratio(strict_ratio(ROOM, "east", 0.2), "west", 0.2), "--ignore-soft-errors"
    ),
    "--ignore-dynu": Effect(small(instances=four(memory=100)), "--ignore-dynu"),
    "--restrict-allocation-to": Effect(ROOM, "--restrict-allocation-to=node1,node2"),
    "--static-kvm-node-memory": Effect(
        changed(ROOM, enabled_hypervisors=["kvm"]), "--static-kvm-node-memory=0"
    ),
    "--memory-ratio": Effect(ROOM, "--memory-ratio=1.5"),
    "--disk-reserve": Effect(ROOM, "--disk-reserve=95%", ("--disk-template=plain",)),
    "--compat": Effect(SICK, "--compat=hail"),
    "--time-limit": Effect(ROOM, "--time-limit=0"),
    "--tag-prefix": Effect(closed(ROOM), "--tag-prefix=x:"),
}

OF_CAPACITY = (
    "--group", "--exact-search", "--standard-alloc", "--disk-template", "--spindle-use",
    "--offline", "--max-cpu", "--min-disk", "--n1", "--no-capacity-checks",
    "--ignore-soft-errors", "--ignore-dynu", "--restrict-allocation-to",
    "--static-kvm-node-memory", "--memory-ratio", "--disk-reserve", "--tag-prefix",
)  # fmt: skip

METRICS = {
    **{name: CAPACITY[name] for name in OF_CAPACITY},
    "--metrics": Effect(OVERLOADED, "--metrics={folder}/file"),
    "--no-capacity": Effect(OVERLOADED, "--no-capacity"),
    "--standard-alloc": Effect(OVERLOADED, "--standard-alloc=10g,3g,2"),
    "--disk-template": Effect(OVERLOADED, "--disk-template=plain"),
    "--time-limit": Effect(OVERLOADED, "--time-limit=0"),
    "--log": Effect(
        ROOM, "--log={folder}/log", (),
        {"log": "2026-01-02T03:10:00+0000 iallocator[7] allocate new; 0.1 s, 1 nodes; yes\n"},
    ),
    "--capture": Effect(
        ROOM, "--capture={folder}/calls", (),
        {"calls/000001.request.json.gz": "{}"},
    ),
}  # fmt: skip

ROUNDS = cluster(
    4,
    instances={
        "s": instance("node1", disk_template="ext", memory=512),
        "d": instance("node2", "node3", memory=512),
        "e": instance("node4", "node3", memory=512),
    },
)
"""A cluster of nodes to reboot, with all kinds of instances on them."""

SHARED_ROUNDS = cluster(
    3, instances={f"s{k}": instance(f"node{k}", disk_template="ext") for k in (1, 2, 3)}
)
"""A cluster in which two nodes can be rebooted at once if N+1 is ignored."""

UNEVEN = cluster(
    3,
    instances={
        "s": instance("node1", disk_template="ext", memory=512),
        "large": instance("node3", memory=2048, vcpus=6, disk_template="plain"),
        **{f"t{k}": instance("node2", memory=16, disk_template="plain") for k in range(6)},
    },
)
"""A cluster in which free memory is largest on the nodes with the most load."""

FORCE = ("--force",)

HARD_TO_DRAIN = cluster(
    6,
    instances={
        f"i{k}": rbd(f"node{node}", memory=memory)
        for k, (node, memory) in enumerate(
            [(4, 2300), (1, 3100), (2, 700), (4, 3100), (5, 1500), (1, 3100), (4, 1100),
             (3, 3100), (6, 2300), (3, 1100), (5, 3100)]
        )
    },
)  # fmt: skip
"""A cluster for which few sets of nodes can be drained together, and a proof takes long."""

REBOOT = {
    "--optimal": Effect(HARD_TO_DRAIN, "--optimal", FORCE),
    "--verify-plan": Effect(ROUNDS, "--verify-plan", FORCE),
    "--offline": Effect(ROUNDS, "--offline=node1", FORCE),
    "--offline-maintenance": Effect(ROUNDS, "--offline-maintenance", ("--print-moves", *FORCE)),
    "--full-evacuation": Effect(ROUNDS, "--full-evacuation", ("--print-moves", *FORCE)),
    "--skip-non-redundant": Effect(ROUNDS, "--skip-non-redundant", FORCE),
    "--ignore-non-redundant": Effect(ROUNDS, "--ignore-non-redundant", ("--print-moves", *FORCE)),
    "--done": Effect(ROUNDS, "--done=node1", FORCE),
    "--node-tags": Effect(ROUNDS, "--node-tags=x", FORCE),
    "--group": Effect(MIXED, "--group=west", FORCE),
    "--master-node": Effect(ROUNDS, "--master-node=node1"),
    "--force": Effect(ROUNDS, "--force"),
    "--one-step-only": Effect(ROUNDS, "--one-step-only", FORCE),
    "--print-moves": Effect(ROUNDS, "--print-moves", FORCE),
    "--no-headers": Effect(ROUNDS, "--no-headers", FORCE),
    "--n1": Effect(SHARED_ROUNDS, "--n1=off", FORCE),
    "--no-capacity-checks": Effect(SHARED_ROUNDS, "--no-capacity-checks", FORCE),
    "--ignore-soft-errors": Effect(PAIR, "--ignore-soft-errors", FORCE),
    "--ignore-dynu": Effect(UNEVEN, "--ignore-dynu", ("--print-moves", *FORCE)),
    "--static-kvm-node-memory": Effect(KVM, "--static-kvm-node-memory=0", FORCE),
    "--memory-ratio": Effect(KVM, "--memory-ratio=5", FORCE),
    "--disk-reserve": Effect(ROUNDS, "--disk-reserve=100%", ("--full-evacuation", *FORCE)),
    "--time-limit": Effect(ROUNDS, "--time-limit=0", FORCE),
    "--tag-prefix": stored("constraints/balance-keeps-apart", "--tag-prefix=x:", *FORCE),
}

MAINTAIN = {
    **{
        name: REBOOT[name]
        for name in (
            "--optimal",
            "--verify-plan",
            "--offline",
            "--full-evacuation",
            "--skip-non-redundant",
            "--ignore-non-redundant",
            "--node-tags",
            "--group",
            "--master-node",
            "--force",
            "--n1",
            "--no-capacity-checks",
            "--ignore-soft-errors",
            "--ignore-dynu",
            "--static-kvm-node-memory",
            "--memory-ratio",
            "--disk-reserve",
            "--time-limit",
            "--tag-prefix",
        )
    },
    **{
        name: Effect(ROUNDS, name, FORCE)
        for name in ("--full-evacuation", "--ignore-non-redundant")
    },
    "--ignore-dynu": Effect(UNEVEN, "--ignore-dynu", FORCE),
    "--bandwidth": Effect(ROUNDS, "--bandwidth=1", FORCE),
    "--metrics": Effect(ROUNDS, "--metrics={folder}/file", FORCE),
    "--no-reboot": Effect(ROUNDS, "--no-reboot", FORCE),
    "--run": Effect(ROUNDS, "--run=ssh {node} reboot", FORCE),
    "--check": Effect(ROUNDS, "--check=ping {node}", FORCE),
    "--after": Effect(ROUNDS, "--after=stay", FORCE),
    "--only": Effect(ROUNDS, "--only=node1", FORCE),
    "--skip": Effect(ROUNDS, "--skip=node1", FORCE),
    "--parallel": Effect(ROUNDS, "--parallel=1", FORCE),
    "--local-node": Effect(ROUNDS, "--local-node=node1", FORCE),
    "--work-time": Effect(ROUNDS, "--work-time=60", FORCE),
}
NODE1 = ("node1", "--json")

DEAD = cluster(
    3,
    instances={
        "i0": instance("node1", "node3", memory=512),
        "i1": rbd("node1", memory=512, vcpus=4),
        "i2": rbd("node1", memory=512, vcpus=4),
        "i3": instance("node2", "node3", memory=512),
        "i4": instance("node2", "node3", memory=512, vcpus=4),
    },
)
"""A dead node with instances that can move to several nodes, one of which violates N+1."""

DEAD_OF_KVM = cluster(
    4,
    instances={
        "i0": instance("node1", "node2", memory=3000, vcpus=4),
        "i1": instance("node4", "node3", memory=3000, vcpus=4),
        "i2": rbd("node3", memory=256),
        "i3": rbd("node4", memory=3000, vcpus=4),
        "i4": rbd("node1", memory=256, vcpus=4),
        "i5": rbd("node1", memory=1000, vcpus=30),
    },
)

RESCUE = {
    "--master-node": Effect(DEAD, "--master-node=node2", NODE1),
    "--verify-plan": Effect(DEAD, "--verify-plan", ("node1",)),
    "--memory-ratio": Effect(DEAD, "--memory-ratio=2", ("node1", "-p")),
    "--return": Effect(DEAD, "--return", NODE1),
    "--n1": Effect(DEAD, "--n1=off", NODE1),
    "--no-capacity-checks": Effect(DEAD, "--no-capacity-checks", NODE1),
    "--ignore-dynu": Effect(DEAD, "--ignore-dynu", NODE1),
    "--static-kvm-node-memory": Effect(
        {**DEAD_OF_KVM, "enabled_hypervisors": ["kvm"]}, "--static-kvm-node-memory=0", NODE1
    ),
    "--time-limit": Effect(DEAD, "--time-limit=0", NODE1),
    "--tag-prefix": Effect(
        changed(DEAD, "instances", "i2", tags=["iallocator:priority:9"]), "--tag-prefix=x:",
        NODE1,
    ),
    "--max-input": Effect(DEAD, "--max-input=9", NODE1),
    "--validate": Effect(DEAD, "--validate", ("node1",)),
    "--simulate": Effect(
        None, "--simulate=p,5,100g,8g,4", ("node-01-001", "-v", "--simulate=p,2,10g,4g,1"),
    ),
}  # fmt: skip

BY_COMMAND = {
    "balance": BALANCE,
    "balance-groups": BALANCE_GROUPS,
    "capacity": CAPACITY,
    "check": CHECK,
    "compress": COMPRESS,
    "maintain": MAINTAIN,
    "metrics": METRICS,
    "place": PLACE,
    "reboot": REBOOT,
    "redistribute": REDISTRIBUTE,
    "rescue": RESCUE,
    "squeeze": SQUEEZE,
}
"""Command -> option -> effect, for options that not every planner has."""
