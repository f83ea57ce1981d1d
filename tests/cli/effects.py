"""Define for every option of every command a document on which the option changes the output.

A case is a document, the fixed arguments, and the option as typed. ``{folder}`` in an argument is
replaced by a folder with the files to read or write.
"""

from __future__ import annotations

import json
from dataclasses import replace

from iallocator.commands import COMMANDS
from iallocator.commands.common_options import accepted
from iallocator.commands.shared_options import BOOT, Execution
from iallocator.options.table import COMMON
from tests.builders import Json, allocate, allocate_rbd, cluster, instance, rbd
from tests.live.cluster_answers import rapi_answers

from .effect import OVERLOADED, TEXT, Effect, batch, stored
from .effects_of_planners import BY_COMMAND
from .excluded import EXCLUDED

__all__ = ["EFFECTS", "NEEDS_A_SERVER", "Effect"]

NEEDS_A_SERVER = {
    "--luxi", "--cacert", "--insecure", "--credentials", "--read-timeout", "--volume-groups",
    "--even-if-short",
    "--fenced", "--undo", "--watch", "--state", "--probes", "--most-nodes", "--boot-id", "--until",
    *(option.names[0] for option in (*Execution.options, BOOT)),
}  # fmt: skip
"""Options that need a running cluster; tests/live and tests/execution test them."""

FEWER = "".join(line for line in TEXT.splitlines(True) if not line.startswith("db1|"))

NEW = allocate_rbd(cluster(3, instances={"a": rbd("node1")}))

ANSWERED = {
    f"{folder}/{name}.json": json.dumps(answer if name != "instances" else answer[:count])
    for folder, count in (("rapi", 6), ("fewer", 3))
    for name, answer in rapi_answers().items()
}
"""Recorded answers of two running clusters, by file."""

FEWER_ANSWERED = "--rapi=file://{folder}/fewer"

READ_FROM = {
    "--text-data": Effect(NEW, "--text-data={folder}/cluster.data", (), {"cluster.data": TEXT}),
    "--simulate": Effect(NEW, "--simulate=p,5,100g,8g,4"),
    "--rapi": Effect(NEW, "--rapi=file://{folder}/rapi", (), ANSWERED),
}


def from_file(document: Json, *words: str) -> Effect:
    """Return the effect of reading `document` from a file instead of an empty cluster."""
    other = {**document, "instances": {}}
    if "request" in document:
        other = allocate(cluster(1), disk_template="plain")
    files = {"it": json.dumps(document), "other": json.dumps(other)}
    return Effect(None, "--ialloc-src={folder}/it", ("-v", "-I", "{folder}/other", *words), files)


def measured(document: Json) -> str:
    """Return reports of monitoring daemons about the nodes of `document`, with one busy node."""
    return json.dumps(
        [
            {"node": name, "reports": [
                {"name": "cpu-avg-load", "data": {"cpu_total": 9.0 if number == 0 else 0.5}},
                {"name": "xen-cpu-avg-load",
                 "data": {i: 7.0 for i, raw in document["instances"].items()
                          if raw["nodes"][0] == name}},
            ]}
            for number, name in enumerate(document["nodes"])
        ]
    )  # fmt: skip


def measuring(document: Json, *words: str) -> dict[str, Effect]:
    """Return option -> its effect, for the options that read reports of monitoring daemons."""
    files = {"mond.json": measured(document), "none.json": "[]"}
    reported = "--mond-data={folder}/mond.json"
    return {
        "--mond": Effect(document, "--mond=no", (reported, *words), files),
        "--mond-data": Effect(document, reported, words, files),
        "--mond-xen": Effect(document, "--mond-xen", (reported, *words), files),
        "--exit-on-missing-mond-data": Effect(
            document, "--exit-on-missing-mond-data", ("--mond-data={folder}/none.json", *words),
            files,
        ),
    }  # fmt: skip


CROWDED_NEW = allocate_rbd(OVERLOADED)

ROOMY = allocate_rbd(
    cluster(3, instances={"a": rbd("node1", memory=3000), "b": rbd("node2", memory=3000),
                          "c": rbd("node3", memory=4500)}),
    memory=6000,
)  # fmt: skip
"""A request that fits after one migration, without N+1."""

LOCAL = allocate(cluster(3), disk_template="plain")

KVM = "allocate/kvm-node-memory"
EXACT = "strategies/pacemaker-balanced-exactly"
STICKY = "change-group/plain-refused"
KEYED = "affinity/spreading-by-memory"

ANSWERS = {
    "--n1": stored("allocate/n1-no-new-refuses", "--n1=off"),
    "--no-capacity-checks": stored("allocate/n1-no-new-refuses", "--no-capacity-checks"),
    "--ignore-soft-errors": stored("allocate/exclusion-tag-conflict", "--ignore-soft-errors"),
    "--ignore-dynu": Effect(NEW, "--ignore-dynu"),
    "--restrict-allocation-to": Effect(NEW, "--restrict-allocation-to=node1"),
    "--static-kvm-node-memory": stored(KVM, "--static-kvm-node-memory=0"),
    "--memory-ratio": stored(KVM, "--memory-ratio=5"),
    "--disk-reserve": Effect(LOCAL, "--disk-reserve=100%"),
    "--compat": stored("allocate/tie-of-nodes", "--compat=hail"),
    "--inter-group": stored("node-evacuate/remote-offer-taken", "--inter-group=yes"),
    "--exact-search": stored(EXACT, "--exact-search=no", "--strategy=balanced"),
    "--optimal": Effect(batch(OVERLOADED, "x", "y"), "--optimal"),
    "--time-limit": stored(EXACT, "--time-limit=0", "--strategy=balanced"),
    "--tag-prefix": stored("strategies/strategy-by-tags", "--tag-prefix=other:"),
    "--strategy": Effect(NEW, "--strategy=pacemaker-minimal"),
    "--stickiness": stored(STICKY, "--stickiness=100", "--strategy=pacemaker-balanced"),
    "--top": Effect(NEW, "--top=3"),
    "--make-room": Effect(ROOMY, "--make-room=2", ("--n1=off",)),
    "--cost": Effect(ROOMY, "--cost=1", ("--n1=off", "--make-room=2")),
    "--affinity-overhead": stored(KEYED, "--affinity-overhead=50000", "--strategy=affinity"),
    "--initial-msav": stored(KEYED, "--initial-msav=0", "--strategy=affinity"),
    "--final-msav": stored("affinity/anti-affinity", "--final-msav=30", "--strategy=affinity"),
    "--msav-steps": stored(KEYED, "--msav-steps=1", "--strategy=affinity"),
    "--seed": Effect(NEW, "--seed=3", ("--strategy=affinity",)),
    **READ_FROM,
    "--ialloc-src": from_file(NEW),
    **measuring(NEW),
    "--validate": Effect(NEW, "--validate"),
    "--verbose": Effect(NEW, "--verbose"),
    "--version": Effect(NEW, "--version"),
    "--help": Effect(NEW, "--help"),
}

STATES = {
    "--save-cluster": "--save-cluster={folder}/saved",
    "--print-nodes": "--print-nodes",
    "--print-instances": "--print-instances",
}

NOTED = {
    "--log": Effect(NEW, "--log={folder}/log"),
    "--capture": Effect(NEW, "--capture={folder}"),
    "--capture-keep": Effect(NEW, "--capture-keep=1", ("--capture={folder}",),
                             {"000007.args": ""}),
    "--capture-days": Effect(NEW, "--capture-days=0", ("--capture={folder}",),
                             {"000007.args": ""}),
}  # fmt: skip
"""Options that record calls, with their effects: a file, or the deletion of an older call."""

CALLS = {
    "000001.request.json.gz": json.dumps(NEW),
    "000001.call.json": '{"type": "allocate", "asked": "a", "success": true, "time": 1}',
    "000002.request.json.gz": json.dumps(NEW),
    "000002.call.json": '{"type": "relocate", "asked": "b", "success": false, "time": 1}',
}


def listing(option: str, *words: str) -> Effect:
    """Return the effect of an option of `history`, for a folder with two calls."""
    return Effect(None, option, (*words, "{folder}"), CALLS)


GROUPED = cluster(
    {"east": 2, "west": 2},
    instances={"e": rbd("node1", memory=512), "w": rbd("node3", memory=1024)},
    changes={"node3": {"tags": ["iallocator:maintenance"]}},
)
"""A cluster of two groups with an instance each."""
GROUPED["nodegroups"]["uuid-east"]["tags"] = ["iallocator:top:3"]
GROUPED_NEW = allocate_rbd(GROUPED)

EFFECTS: dict[tuple[str, str], Effect] = {}


def _add(command: str, effects: dict[str, Effect]) -> None:
    EFFECTS.update({(command, name): effect for name, effect in effects.items()})


CONFIGURED = {
    "--group": Effect(GROUPED, "--group=east"),
    **{name: Effect(NEW, f"{name}={value}") for name, value in {
        "--n1": "off", "--restrict-allocation-to": "node1", "--static-kvm-node-memory": "0",
        "--compat": "hail", "--inter-group": "yes", "--exact-search": "no", "--time-limit": "3",
        "--tag-prefix": "x:", "--strategy": "affinity", "--stickiness": "3", "--top": "3",
        "--make-room": "3", "--cost": "3", "--affinity-overhead": "3",
        "--initial-msav": "3", "--final-msav": "3",
        "--msav-steps": "3", "--seed": "3", "--memory-ratio": "3",
        "--disk-reserve": "3g",
    }.items()},
    **{name: Effect(NEW, name) for name in (
        "--no-capacity-checks", "--ignore-soft-errors", "--ignore-dynu", "--optimal", "--json",
        "--validate", "--verbose", "--version", "--help",
    )},
    **{name: Effect(NEW, f"{name}=7")
       for name in ("--log", "--capture", "--capture-keep", "--capture-days")},
    "--text-data": Effect(None, "--text-data={folder}/cluster.data", ("-t", "{folder}/other.data"),
                          {"cluster.data": TEXT, "other.data": TEXT}),
    "--simulate": Effect(None, "--simulate=p,5,100g,8g,4", ("--simulate=p,2,1g,1g,1",)),
    "--rapi": Effect(None, "--rapi=file://{folder}/rapi", (FEWER_ANSWERED,), ANSWERED),
    "--ialloc-src": from_file(stored(STICKY, "").document or {}),
    "--mond": Effect(NEW, "--mond"),
    "--mond-data": Effect(NEW, "--mond-data=x"),
    "--mond-xen": Effect(NEW, "--mond-xen"),
    "--exit-on-missing-mond-data": Effect(NEW, "--exit-on-missing-mond-data"),
}  # fmt: skip
"""Options that change the output of `config`."""

BOUND = cluster(
    3,
    instances={
        "a": rbd("node1", tags=["iallocator:together:must:x", "iallocator:priority:3"]),
        "b": rbd("node1", tags=["iallocator:together:must:x"]),
        "c": rbd("node2", tags=["iallocator:apart:should:y:2", "iallocator:apart:should:y"]),
        "d": rbd("node3", tags=["iallocator:apart:should:y"]),
    },
)

LISTED = {
    "--group": Effect(GROUPED, "--group=east"),
    "--offline": Effect(BOUND, "--offline=node1"),
    "--json": Effect(BOUND, "--json"),
    "--instance": Effect(BOUND, "--instance=a"),
    "--strength": Effect(BOUND, "--strength=must"),
    "--kind": Effect(BOUND, "--kind=together"),
    "--ignore-soft-errors": stored("allocate/exclusion-tag-conflict", "--ignore-soft-errors"),
    "--restrict-allocation-to": Effect(NEW, "--restrict-allocation-to=node1"),
    "--tag-prefix": Effect(BOUND, "--tag-prefix=x:"),
    "--memory-ratio": Effect(BOUND, "--memory-ratio=3"),
    "--disk-reserve": Effect(BOUND, "--disk-reserve=3g"),
    "--all": Effect(BOUND, "--all"),
    "--strategy": stored(KEYED, "--strategy=affinity", "--all"),
    "--stickiness": Effect(BOUND, "--stickiness=7", ("--all", "--strategy=pacemaker-balanced")),
    "--affinity-overhead": stored(KEYED, "--affinity-overhead=7", "--all", "--strategy=affinity"),
    **{name: Effect(BOUND, name) for name in ("--validate", "--verbose", "--version", "--help")},
    "--text-data": Effect(
        None,
        "--text-data={folder}/cluster.data",
        ("-v", "-t", "{folder}/other.data"),
        {"cluster.data": TEXT, "other.data": FEWER},
    ),
    "--simulate": Effect(None, "--simulate=p,5,100g,8g,4", ("-v", "--simulate=p,2,1g,1g,1")),
    "--rapi": Effect(None, "--rapi=file://{folder}/rapi", ("-v", FEWER_ANSWERED), ANSWERED),
    "--ialloc-src": from_file(BOUND),
}

SHOWN_ALWAYS = ("--json", "--print-commands", "--graph", "--verbose", "--version", "--help",
                "--validate", "--print-nodes", "--print-instances")  # fmt: skip


def planned(document: Json, *words: str) -> dict[str, Effect]:
    """Return the effects of the options that every planner has, for `document`."""
    return {
        **{name: Effect(document, name, words) for name in SHOWN_ALWAYS},
        "--validate": Effect(document, "--validate"),
        "--save-cluster": Effect(document, "--save-cluster={folder}/saved", words),
        "--html": Effect(document, "--html={folder}/page.html", words),
        "--bandwidth": Effect(document, "--bandwidth=7", ("--html={folder}/page.html", *words)),
        "--text-data": Effect(None, "--text-data={folder}/cluster.data",
                              ("-v", "-t", "{folder}/other.data", *words),
                              {"cluster.data": TEXT, "other.data": FEWER}),
        "--simulate": Effect(None, "--simulate=p,5,100g,8g,4",
                             ("-v", "--simulate=p,2,10g,4g,1", *words)),
        "--rapi": Effect(None, "--rapi=file://{folder}/rapi",
                         ("-v", FEWER_ANSWERED, *words), ANSWERED),
        "--ialloc-src": from_file(document, *words),
    }  # fmt: skip


QUICKLY = ("--tiered-alloc=10g,1g,1", "-l3")
"""Options that shorten `capacity`: without limits in the policy, it tries many sizes."""

LOADED = measuring(OVERLOADED, "--print-instances")
"""Options of planners that use the load of instances."""

EXCLUDING = {
    command: Effect(document, "--exclusion-tags=srv", words)
    for command, (document, words) in EXCLUDED.items()
}

TOLD = {
    "--group": Effect(GROUPED_NEW, "--group=west"),
    "--offline": Effect(CROWDED_NEW, "--offline=node4"),
    "--json": Effect(CROWDED_NEW, "--json"),
    "--brief": Effect(CROWDED_NEW, "--brief"),
    "--node": Effect(CROWDED_NEW, "--node=node1"),
    "--instance": Effect(batch(OVERLOADED, "x", "y"), "--instance=x"),
    "--graph": stored("node-evacuate/drbd-all", "--graph={folder}/steps.dot"),
    "--html": Effect(CROWDED_NEW, "--html={folder}/page.html"),
    "--bandwidth": stored("node-evacuate/drbd-all", "--bandwidth=7", "--html={folder}/page.html"),
}


def replayed(effect: Effect) -> Effect:
    """Return a stored case of `effect`, with a stored answer that the option changes."""
    case = {
        "case.request.json": json.dumps(effect.document),
        "case.args": "\n".join(effect.words),
    }
    return Effect(None, effect.option, ("--update", "{folder}"), case)


ONE_CASE = {"case.request.json": json.dumps(NEW), "case.response.json": '{"success": true}'}
REPLAY = {
    **{
        name: replayed(effect)
        for name, effect in ANSWERS.items()
        if accepted("replay", next(o for o in COMMON if name in o.names))
    },
    "--exclusion-tags": replayed(EXCLUDING[""]),
    "--update": Effect(None, "--update", ("{folder}",), ONE_CASE),
    "--keys": Effect(None, "--keys=success", ("{folder}",), ONE_CASE),
    "--junit": Effect(None, "--junit={folder}/junit.xml", ("{folder}",), ONE_CASE),
}

PLAIN = ("allocate", "--memory=1G", "--disk=1G", "--template=plain")
BARE = cluster(3, instances={"a": rbd("node1")})
EVACUATED = cluster(
    3,
    instances={
        "a": instance("node1", "node2"),
        "b": instance("node2", "node1"),
        "c": instance("node3", "node1"),
    },
)
GROUPS = stored("change-group/named-target", "").document or {}


def asking(option: str, *words: str, document: Json = BARE) -> Effect:
    """Return the effect of `option` on a question about `document`."""
    return Effect(None, option, (*words, "-I", "{folder}/it"), {"it": json.dumps(document)})


ASKED = {
    "--name": asking("--name=x", *PLAIN),
    "--memory": asking("--memory=2G", *PLAIN),
    "--vcpus": asking("--vcpus=2", *PLAIN),
    "--disk": asking("--disk=3G", *PLAIN),
    "--disk-template": asking("--disk-template=drbd", *PLAIN),
    "--spindle-use": asking("--spindle-use=3", *PLAIN),
    "--instance-tags": asking(
        "--instance-tags=a:b", "allocate", "--memory=1G", "--disk=1G", "--template=rbd",
        document={**cluster(2, instances={"a": rbd("node1", tags=["a:b"])}),
                  "cluster_tags": ["htools:iextags:a"]},
    ),
    "--network": asking("--network=n", *PLAIN),
    "--group": asking("--group=east", *PLAIN, document=GROUPS),
    "--offline": asking("--offline=node1", *PLAIN),
    "--count": asking("--count=2", *PLAIN),
    "--mode": asking("--mode=primary-only", "evacuate", "node1",
                     document=EVACUATED),
    "--to": asking("--to=east", "change-group", next(iter(GROUPS["instances"])),
                   document=GROUPS),
    "--json": asking("--json", *PLAIN),
    "--brief": asking("--brief", *PLAIN),
    "--node": asking("--node=node1", *PLAIN),
    "--instance": asking("--instance=new-1", *PLAIN, "--count=2"),
    "--graph": asking("--graph={folder}/steps.dot", "evacuate", "node1",
                      "--mode=secondary-only", document=EVACUATED),
    "--html": asking("--html={folder}/page.html", *PLAIN),
}  # fmt: skip
"""Options of `ask` with their effects; options that it shares with `explain` are not listed."""
ASKED["--ialloc-src"] = Effect(
    None,
    "--ialloc-src={folder}/it",
    (*PLAIN, "-I", "{folder}/other"),
    {"it": json.dumps(BARE), "other": json.dumps(cluster(1))},
)

WRITTEN = {
    name: effect
    for name, effect in planned(OVERLOADED).items()
    if name in ("--text-data", "--simulate", "--ialloc-src", "--verbose", "--version", "--help",
                "--print-nodes", "--print-instances")
}  # fmt: skip

NODES_OF_KVM = stored(KVM, "").document or {}

APART = rbd("node1", tags=["iallocator:separate:must:db"])
SEPARATED = cluster(2, instances={"a": APART, "b": APART})
"""A cluster with two separated instances on one node."""

_add("ask", ASKED)
WITH_SCORES = ("--n1=off", "--json")

ROOMY_IN_EAST = allocate_rbd(
    cluster({"east": 3, "west": 1}, instances=ROOMY["instances"]),
    memory=6000,
)  # fmt: skip
"""A request that fits in one group, and in the other group after a migration."""

ROOMY_APART = {
    **ROOMY,
    "instances": {
        name: {**one, "tags": ["iallocator:separate:must:x"] if name != "c" else []}
        for name, one in ROOMY["instances"].items()
    },
}

MAKING_ROOM = {
    "--group": Effect(ROOMY_IN_EAST, "--group=east", ("--n1=off",)),
    "--offline": Effect(ROOMY, "--offline=node3", ("--n1=off",)),
    **{name: ANSWERS[name] for name in (
        "--no-capacity-checks", "--inter-group", "--exact-search",
        "--static-kvm-node-memory", "--memory-ratio", "--disk-reserve", "--final-msav",
        "--affinity-overhead",
    )},
    "--n1": replace(ANSWERS["--n1"], words=("--make-room=1",)),
    "--ignore-dynu": Effect(ROOMY, "--ignore-dynu", WITH_SCORES),
    "--stickiness": Effect(ROOMY, "--stickiness=INFINITY", ("--n1=off",)),
    "--ignore-soft-errors": Effect(
        allocate_rbd(cluster(1, cpus=1), vcpus=8),
        "--ignore-soft-errors", ("--n1=off",),
    ),
    "--restrict-allocation-to": Effect(ROOMY, "--restrict-allocation-to=node3", ("--n1=off",)),
    "--tag-prefix": Effect(ROOMY_APART, "--tag-prefix=x:", ("--n1=off",)),
    "--strategy": stored(KEYED, "--strategy=affinity", "--affinity-overhead=50000"),
    "--verify-plan": Effect(ROOMY, "--verify-plan"),
    "--make-room": Effect(ROOMY, "--make-room=1"),
    "--request": Effect(ROOMY, "--request=allocate --memory 100 --template diskless"),
    "--cost": Effect(ROOMY, "--cost=1", ("--n1=off",)),
    "--time-limit": Effect(ROOMY, "--time-limit=0", ("--n1=off",)),
    "--text-data": Effect(ROOMY, "--text-data={folder}/cluster.data",
                          ("-v", "-t", "{folder}/other.data"),
                          {"cluster.data": TEXT, "other.data": FEWER}),
    "--simulate": Effect(ROOMY, "--simulate=p,5,100g,8g,4", ("-v", "--simulate=p,2,10g,4g,1")),
    "--rapi": Effect(
        ROOMY, "--rapi=file://{folder}/rapi", ("-v", FEWER_ANSWERED, "--make-room=1"), ANSWERED
    ),
}  # fmt: skip

_add("snapshot", {
    **WRITTEN,
    "--rapi": Effect(None, "--rapi=file://{folder}/rapi",
                     ("-d", "{folder}", FEWER_ANSWERED), ANSWERED),
    "--offline": Effect(OVERLOADED, "--offline=node2"),
    "--output-dir": Effect(OVERLOADED, "--output-dir={folder}"),
    "--form": Effect(OVERLOADED, "--form=json"),
    "--request": Effect(OVERLOADED, "--request=evacuate node1", ("--form=json",)),
    "--no-headers": Effect(OVERLOADED, "--no-headers", ("-d", "{folder}")),
    "--static-kvm-node-memory": Effect(NODES_OF_KVM, "--static-kvm-node-memory=0"),
})  # fmt: skip
_add("report", {
    **{name: effect for name, effect in WRITTEN.items() if not name.startswith("--print")},
    **measuring(OVERLOADED),
    "--html": Effect(OVERLOADED, "--html={folder}/page.html"),
    "--group": Effect(GROUPED, "--group=east"),
    "--offline": Effect(OVERLOADED, "--offline=node1"),
    "--n1": Effect(OVERLOADED, "--n1=off"),
    "--time-limit": Effect(OVERLOADED, "--time-limit=0"),
    "--no-capacity-checks": Effect(OVERLOADED, "--no-capacity-checks"),
    "--rapi": planned(OVERLOADED)["--rapi"],
    "--validate": Effect(OVERLOADED, "--validate"),
    "--ignore-dynu": Effect(OVERLOADED, "--ignore-dynu"),
    "--static-kvm-node-memory": Effect(NODES_OF_KVM, "--static-kvm-node-memory=0"),
    "--memory-ratio": Effect(NODES_OF_KVM, "--memory-ratio=5"),
    "--disk-reserve": Effect(OVERLOADED, "--disk-reserve=100%"),
    "--tag-prefix": Effect(SEPARATED, "--tag-prefix=x:"),
})  # fmt: skip
PAGE_OF_SHOW = ("--html={folder}/page.html",)
_add("show", {
    **WRITTEN,
    "--group": Effect(GROUPED, "--group=east"),
    "--settings": Effect(OVERLOADED, "--settings"),
    "--rules": Effect(OVERLOADED, "--rules"),
    "--html": Effect(OVERLOADED, "--html={folder}/page.html"),
    "--n1": Effect(OVERLOADED, "--n1=off", PAGE_OF_SHOW),
    "--time-limit": Effect(OVERLOADED, "--time-limit=0", PAGE_OF_SHOW),
    "--no-capacity-checks": Effect(OVERLOADED, "--no-capacity-checks", PAGE_OF_SHOW),
    "--tag-prefix": Effect(SEPARATED, "--tag-prefix=x:", PAGE_OF_SHOW),
    **measuring(OVERLOADED, "--print-instances"),
    "--json": Effect(OVERLOADED, "--json"),
    "--offline": Effect(OVERLOADED, "--offline=node1"),
    "--rapi": planned(OVERLOADED)["--rapi"],
    "--validate": Effect(OVERLOADED, "--validate"),
    "--compat": Effect({**OVERLOADED, "nodes": dict(reversed(OVERLOADED["nodes"].items()))},
                       "--compat=hail", ("-p",)),
    "--ignore-dynu": Effect(OVERLOADED, "--ignore-dynu"),
    "--static-kvm-node-memory": Effect(NODES_OF_KVM, "--static-kvm-node-memory=0", ("-p",)),
    "--memory-ratio": Effect(NODES_OF_KVM, "--memory-ratio=5", ("-p",)),
    "--disk-reserve": Effect(OVERLOADED, "--disk-reserve=100%", PAGE_OF_SHOW),
})  # fmt: skip
SICK = cluster(4, instances={
    "a": instance("node1", "node2", tags=["ganeti:watcher:autorepair:fix-storage"]),
})  # fmt: skip
SICK["nodes"]["node2"] |= {"offline": True}
for number in (3, 4):
    SICK["nodes"][f"node{number}"]["tags"] = ["iallocator:maintenance"]
UNTAGGED = cluster(
    3, instances={"a": instance("node1", "node2")}, changes={"node2": {"offline": True}}
)
LOST = cluster(2, instances={
    "a": instance("node1", disk_template="plain", tags=["ganeti:watcher:autorepair:reinstall"]),
})  # fmt: skip
LOST["nodes"]["node1"] |= {"offline": True}
LOST["nodegroups"]["uuid-default"]["ipolicy"]["vcpu-ratio"] = 0.01


def lost(memory: int = 512, /, **others: Json) -> Json:
    """Return an instance on an offline node, which repair may recreate, and `others`."""
    mine = instance("node3", disk_template="plain", memory=memory)
    return cluster(
        3, instances={"lost": mine, **others}, changes={"node3": {"offline": True}},
        tags=("ganeti:watcher:autorepair:reinstall",),
    )  # fmt: skip


TIGHT = lost(5000, r=rbd("node2", memory=5000))
"""A cluster where the recreated instance leaves no failover capacity for another one."""
QUIET = lost(r=rbd("node2", memory=16))
"""A cluster where the instance is recreated on the first node if no loads are known."""
EITHER = lost(q=rbd("node1", memory=8), r=rbd("node2", memory=16))
"""A cluster where measured loads decide on which node the instance is recreated."""
BUSY = lost(
    large=instance("node1", memory=2048, vcpus=24, disk_template="plain"),
    **{f"t{k}": instance("node2", memory=16, disk_template="plain") for k in range(6)},
)
BUSY["instances"]["lost"]["vcpus"] = 8  # more than a small difference of other statistics
TWICE_SICK = cluster(
    {"east": 2, "west": 2},
    instances={"e": instance("node1", "node2"), "w": instance("node3", "node4")},
    changes={"node2": {"offline": True}, "node4": {"offline": True}},
)
REPAIRS = {
    "--group": Effect(TWICE_SICK, "--group=east"),
    "--offline": Effect(TWICE_SICK, "--offline=node1"),
    "--json": Effect(SICK, "--json"),
    "--html": Effect(SICK, "--html={folder}/page.html"),
    "--bandwidth": Effect(QUIET, "--bandwidth=7", ("--html={folder}/page.html",)),
    "--allow": Effect(UNTAGGED, "--allow=reinstall"),
    "--job-delay": Effect(SICK, "--job-delay=3", ("--json", "--tag-prefix=x:")),
    **{name: Effect(SICK, name) for name in ("--validate", "--verbose", "--version", "--help")},
    "--text-data": LISTED["--text-data"],
    "--simulate": LISTED["--simulate"],
    "--rapi": LISTED["--rapi"],
    "--ialloc-src": from_file(SICK),
    "--ignore-soft-errors": Effect(LOST, "--ignore-soft-errors"),
    "--tag-prefix": Effect(SICK, "--tag-prefix=x:"),
    "--n1": Effect(TIGHT, "--n1=off"),
    "--time-limit": Effect(SICK, "--time-limit=0"),
    "--no-capacity-checks": Effect(TIGHT, "--no-capacity-checks"),
    "--static-kvm-node-memory": Effect(
        {**QUIET, "enabled_hypervisors": ["kvm"]}, "--static-kvm-node-memory=16000"
    ),
    "--memory-ratio": Effect(TIGHT, "--memory-ratio=5"),
    "--disk-reserve": Effect(QUIET, "--disk-reserve=100%"),
    "--ignore-dynu": Effect(BUSY, "--ignore-dynu", ("--json",)),
    **measuring(EITHER, "--json"),
}

_add("replay", REPLAY)
_add("history", {
    **{name: listing(name) for name in ("--json", "--version", "--help")},
    "--type": listing("--type=relocate"),
    "--outcome": listing("--outcome=failed"),
    "--text": listing("--text=b"),
    "--days": listing("--days=9"),
    "--last": listing("--last=1"),
})  # fmt: skip
_add("", NOTED)
_add("", ANSWERS | {name: Effect(NEW, word) for name, word in STATES.items()})
_add("explain", ANSWERS | TOLD)
_add("config", CONFIGURED)
_add("constraints", LISTED)
for command in ("balance", "squeeze", "balance-groups", "compress", "redistribute"):
    _add(command, planned(OVERLOADED) | LOADED)
_add("repair", REPAIRS)
_add("reboot", planned(OVERLOADED, "--force"))
_add(
    "maintain",
    planned(OVERLOADED, "--force") | measuring(OVERLOADED, "--force", "--print-instances"),
)
_add("make-room", planned(ROOMY, "--n1=off") | measuring(ROOMY, *WITH_SCORES) | MAKING_ROOM)
_add("rescue", planned(OVERLOADED, "node1") | measuring(OVERLOADED, "node1", "--print-instances"))
_add("place", planned(OVERLOADED, "--strategy=pacemaker-balanced"))
for command, short in (("check", ()), ("capacity", QUICKLY)):
    plain = planned(OVERLOADED, *short)
    for name in ("--print-commands", "--graph"):
        del plain[name]
    if command == "capacity":
        del plain["--bandwidth"]
    _add(command, plain)
plain = planned(OVERLOADED)
for name in ("--print-commands", "--graph", "--html", "--bandwidth"):
    del plain[name]
_add("metrics", {
    name: effect for name, effect in {**plain, **measuring(OVERLOADED)}.items()
    if not name.startswith(("--print", "--save"))
})  # fmt: skip
_add("check", LOADED)
_add("reboot", measuring(OVERLOADED, "--force", "--print-instances"))
for command, effect in EXCLUDING.items():
    if command != "ask":  # explain tests it
        _add(command, {"--exclusion-tags": effect})
for command in ("", *COMMANDS):
    _add(command, {"--max-input": Effect(NEW, "--max-input=9")})
_add("capacity", {"--max-input": Effect(NEW, "--max-input=9", QUICKLY)})
_add("ask", {"--max-input": asking("--max-input=9", *PLAIN)})
_add("replay", {"--max-input": Effect(None, "--max-input=9", ("{folder}",), ONE_CASE)})
_add("place", {"--max-input": Effect(NEW, "--max-input=9", ("--strategy=pacemaker-minimal",))})
for command, effects in BY_COMMAND.items():
    _add(command, effects)

_add("history", {"--max-input": Effect(None, "--max-input=9", ("{folder}",), {
    "000001.request.json.gz": json.dumps(NEW)})})  # fmt: skip

for command in ("", *(command for command in COMMANDS if command != "ask")):
    spoken = EFFECTS[command, "--max-input"]
    _add(command, {
        "--verbose": replace(spoken, option="--verbose"),
        "--quiet": replace(spoken, option="--quiet", words=("-v", *spoken.words)),
    })  # fmt: skip

CONFIGURATION = """
verbose = true
[config]
top = 3
[replay]
keys = ['success']
[history]
json = true
"""

for command in ("", *COMMANDS):
    usual = EFFECTS[command, "--max-input"]
    reported = usual.words
    written = {**usual.files, "it.toml": CONFIGURATION}
    _add(command, {
        "--config": replace(usual, option="--config={folder}/it.toml", files=written),
        "--no-config": replace(usual, option="--no-config", files=written,
                               words=(*reported, "--config={folder}/it.toml")),
    })  # fmt: skip
