"""Use Pacemaker's scheduler as an oracle for `place`.

A problem is plain data. `document` converts it for ``iallocator place``. `scheduled` converts it
for ``crm_simulate`` (Debian: pacemaker-cli-utils), which places every instance.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from random import Random
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from tests.builders import Json, cluster, instance, node
from tests.patience import PATIENCE

TOOL = shutil.which("crm_simulate")
KINDS = ("default", "utilization", "balanced", "minimal")

DIGEST = "f2317cad3d54cec5d7d7aa7d0bf35cf8"
"""Pacemaker's digest of empty parameters; with another digest it would restart instances."""


def problem(seed: str) -> Json:
    """Return random nodes and instances with all properties that Pacemaker's rules use."""
    random = Random(seed)
    attributes = random.sample(["mem", "cpu", "disk"], random.choice([1, 1, 2, 3]))
    small = random.random() < 0.6  # small numbers make ties
    top = 6 if small else 60
    names = [f"{random.choice('xyZ')}{number}" for number in range(random.randint(2, 7))]
    nodes: Json = {}
    for name in names:
        one: Json = {"capacity": {a: random.randint(top // 2, 2 * top) for a in attributes}}
        if random.random() < 0.06:
            one["capacity"].pop(attributes[0])
        if random.random() < 0.15:
            one["score"] = random.choice([-7, 3, 40])
        if random.random() < 0.1:
            one["state"] = random.choice(["standby", "offline", "maintenance"])
        nodes[name] = one
    instances: Json = {}
    grouped = random.random() < 0.4
    for number in range(random.randint(2, 4 * len(names))):
        one = {"needs": {a: random.randint(0, top // 2) for a in attributes}}
        if random.random() < 0.5:
            one["home"] = random.choice(names)
        if random.random() < 0.4:
            one["stickiness"] = random.choice([0, 1, 60, "INFINITY"])
        if random.random() < 0.3:
            one["priority"] = random.choice([-5, 5, 9])
        if random.random() < 0.3:
            some = random.sample(names, random.randint(1, min(2, len(names))))
            one["scores"] = {
                name: random.choice([-20, 20, 90, "INFINITY", "-INFINITY"]) for name in some
            }
        if not grouped and random.random() < 0.05:
            one["managed"] = False
        instances[f"i{number:02}"] = one
    if grouped:
        _group(random, list(instances.values()), nodes)
    return {"nodes": nodes, "instances": instances}


def _group(random: Random, instances: list[Json], nodes: Json) -> None:
    """Put consecutive instances into groups; running members of a group are on one node."""
    for one in nodes.values():
        if one.get("state") == "maintenance":
            del one["state"]
    number, position = 0, 0
    while position < len(instances):
        size = random.choice([1, 2, 3])
        members = instances[position : position + size]
        position += size
        if len(members) < 2:
            continue
        number += 1
        home = members[0].get("home")
        for member in members:
            member["group"] = f"g{number}"
            member.pop("home", None)
            if home:
                member["home"] = home


def document(given: Json) -> Json:
    """Return the problem as a document in which only tags limit the placement."""
    found = cluster(nodes=0)
    found["nodegroups"] = {"uuid-default": cluster(nodes=1)["nodegroups"]["uuid-default"]}
    for name, one in given["nodes"].items():
        tags = [f"iallocator:utilization:{a}:{n}" for a, n in one["capacity"].items()]
        if "score" in one:
            tags.append(f"iallocator:score:{one['score']}")
        state = one.get("state")
        if state == "maintenance":
            tags.append("iallocator:maintenance")
        found["nodes"][name] = node(
            memory=10**6, cpus=1000, tags=tags,
            drained=state == "standby", offline=state == "offline",
        )  # fmt: skip
    anywhere = next(iter(given["nodes"]))
    for name, one in given["instances"].items():
        tags = [f"iallocator:utilization:{a}:{n}" for a, n in one["needs"].items()]
        for key in ("stickiness", "priority"):
            if key in one:
                tags.append(f"iallocator:{key}:{one[key]}")
        tags += [f"iallocator:score:{where}:{n}" for where, n in one.get("scores", {}).items()]
        if "group" in one:
            tags.append(f"iallocator:colocate:must:{one['group']}")
        found["instances"][name] = instance(
            one.get("home", anywhere), disk_template="diskless", memory=1, tags=tags,
            admin_state="up" if "home" in one else "down",
            auto_balance=one.get("managed", True),
        )  # fmt: skip
    return found


def scheduled(given: Json, kind: str) -> dict[str, str | None]:
    """Return the node of every instance by Pacemaker's scheduler; None if it is not placed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cib.xml"
        path.write_text(_cib(given, kind), encoding="utf-8")
        assert TOOL is not None
        done = subprocess.run(
            [TOOL, "-x", str(path), "-S", "-U", "--output-as=xml"],
            capture_output=True, text=True, check=True, timeout=PATIENCE,
        )  # fmt: skip
    found: dict[str, str | None] = dict.fromkeys(given["instances"])
    for line in ElementTree.fromstring(done.stdout).iter("utilization"):
        name = line.get("resource")
        if line.get("function") == "pcmk__finalize_assignment" and name in found:
            found[str(name)] = line.get("node")
    return found


def _cib(given: Json, kind: str) -> str:
    """Return the problem as Pacemaker's cluster information base, with the names as ids."""
    nodes = "".join(_node(*item) for item in given["nodes"].items())
    states = "".join(_state(given, name) for name in given["nodes"])
    resources, group = "", None
    for name, one in given["instances"].items():
        if one.get("group") != group:
            resources += "</group>" if group else ""
            group = one.get("group")
            resources += f'<group id="{group}">{_meta(group, one, True)}' if group else ""
        resources += _resource(name, one)
    resources += "</group>" if group else ""
    places = "".join(
        f'<rsc_location id="at-{name}-{where}" rsc="{name}" node="{where}" score="{score}"/>'
        for name, one in given["instances"].items()
        for where, score in one.get("scores", {}).items()
    )
    options = _pairs("cluster_property_set", "options", {
        "placement-strategy": kind, "stonith-enabled": "false", "no-quorum-policy": "ignore",
        "enable-startup-probes": "false",
    })  # fmt: skip
    return (
        '<cib validate-with="pacemaker-3.7" crm_feature_set="3.16.1" have-quorum="1" '
        f'admin_epoch="0" epoch="1" num_updates="0" dc-uuid="{next(iter(given["nodes"]))}">'
        f"<configuration><crm_config>{options}</crm_config><nodes>{nodes}</nodes>"
        f"<resources>{resources}</resources><constraints>{places}</constraints></configuration>"
        f"<status>{states}</status></cib>"
    )


def _pairs(element: str, identity: str, values: Json) -> str:
    inner = "".join(
        f'<nvpair id="{identity}-{k}" name="{k}" value={quoteattr(str(v))}/>'
        for k, v in values.items()
    )
    return f'<{element} id="{identity}">{inner}</{element}>' if values else ""


def _node(name: str, one: Json) -> str:
    score = f' score="{one["score"]}"' if "score" in one else ""
    state = one.get("state")
    attributes = {state: "true"} if state in ("standby", "maintenance") else {}
    inner = _pairs("instance_attributes", f"{name}-attributes", attributes)
    inner += _pairs("utilization", f"{name}-utilization", one["capacity"])
    return f'<node id="{name}" uname="{name}"{score}>{inner}</node>'


def _meta(name: str, one: Json, whole: bool) -> str:
    """Return the meta attributes of an instance; a group has those of its first member."""
    values: Json = {}
    if "priority" in one and whole == ("group" in one):
        values["priority"] = one["priority"]
    if not whole:
        if "stickiness" in one:
            values["resource-stickiness"] = one["stickiness"]
        if "managed" in one:
            values["is-managed"] = "false"
    return _pairs("meta_attributes", f"{name}-meta", values)


def _resource(name: str, one: Json) -> str:
    inner = _meta(name, one, False) + _pairs("utilization", f"{name}-needs", one["needs"])
    return (
        f'<primitive id="{name}" class="ocf" provider="pacemaker" type="Dummy">{inner}</primitive>'
    )


def _state(given: Json, name: str) -> str:
    """Return the state of a node in Pacemaker's form: online or not, and its instances."""
    there = given["nodes"][name].get("state") != "offline"
    member = (
        'in_ccm="true" crmd="online" join="member" expected="member"' if there
        else 'in_ccm="false" crmd="offline" join="down" expected="down"'
    )  # fmt: skip
    history = ""
    for number, (resource, one) in enumerate(given["instances"].items(), start=1):
        runs = one.get("home") == name
        action, code = ("start", 0) if runs else ("monitor", 7)
        key = f"{number}:1:{code}:00000000-0000-0000-0000-000000000000"
        history += (
            f'<lrm_resource id="{resource}" class="ocf" provider="pacemaker" type="Dummy">'
            f'<lrm_rsc_op id="{resource}_last_0" operation_key="{resource}_{action}_0" '
            f'operation="{action}" interval="0" call-id="{number}" rc-code="{code}" '
            f'op-status="0" crm_feature_set="3.16.1" op-digest="{DIGEST}" '
            f'transition-key="{key}" transition-magic="0:{code};{key}"/></lrm_resource>'
        )
    return (
        f'<node_state id="{name}" uname="{name}" {member}>'
        f'<lrm id="{name}"><lrm_resources>{history}</lrm_resources></lrm></node_state>'
    )
