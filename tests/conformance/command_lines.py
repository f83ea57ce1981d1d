"""Generate command lines of the programs of htools, with the files that they name.

The result of `case` depends only on a number and a program.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from tests.builders import Json
from tests.live.cluster_answers import POLICY, instance, node

from .documents import KINDS, document

__all__ = ["OPTIONS", "Case", "case", "cluster_text", "tight_request"]


class Case(NamedTuple):
    """A program with its arguments, and the files that they name, without their folder."""

    program: str
    arguments: tuple[str, ...]
    files: dict[str, str]


def cluster_text(rng: Random) -> str:
    """Return a small cluster in htools' text format."""
    groups = [("default", "uuid-1")] + [("other", "uuid-2")] * (rng.random() < 0.25)
    domain = rng.choice(["", "", ".example.com"])
    nodes = [
        (f"node{number:02}{domain}", rng.choice(groups)[1]) for number in range(rng.randint(2, 8))
    ]
    even = rng.random() < 0.3
    memory = {name: 16384 if even else rng.choice([8192, 16384, 32768]) for name, _ in nodes}
    disk = {name: 204800 if even else rng.choice([102400, 204800, 409600]) for name, _ in nodes}
    free, left = dict(memory), dict(disk)
    templates = rng.choice([["drbd"], ["drbd", "plain"], ["rbd"], ["ext", "drbd", "plain"]])
    lines = []
    tags = rng.random() < 0.2
    for number in range(rng.randint(0, 14)):
        size = 1024 if even else rng.choice([512, 1024, 2048, 4096])
        space = 10240 if even else rng.choice([1024, 5120, 20480])
        template = rng.choice(templates)
        name, uuid = rng.choice(nodes)
        mates = [other for other, group in nodes if group == uuid and other != name]
        if template == "drbd" and not mates:
            continue
        secondary = rng.choice(mates) if template == "drbd" else ""
        status = rng.choice(["running"] * 8 + ["ADMIN_down", "ERROR_down"])
        if status != "ADMIN_down":
            free[name] -= size
        if template in ("drbd", "plain"):
            left[name] -= space
            if secondary:
                left[secondary] -= space
        tag = rng.choice(["", "web:a", "web:b"]) if tags else ""
        auto = rng.choice("YYYN")
        lines.append(
            f"inst{number}{domain}|{size}|{space}|{rng.randint(1, 4)}|{status}|{auto}|{name}|"
            f"{secondary}|{template}|{tag}|1|-"
        )
    down = rng.choice([name for name, _ in nodes]) if rng.random() < 0.25 else ""
    master = rng.choice([name for name, _ in nodes]) if rng.random() < 0.3 else ""
    standby = "htools:standby:1" if rng.random() < 0.5 else ""
    exclusive = rng.random() < 0.1
    spindles = {name: rng.randint(4, 12) if exclusive else 1 for name, _ in nodes}
    left_over = {name: rng.randint(0, count) for name, count in spindles.items()}
    rows = [
        f"{name}|{memory[name]}|0|{free[name]}|{disk[name]}|{left[name]}|{rng.choice([4, 8, 16])}|"
        f"{'Y' if name == down else 'M' if name == master else 'N'}|{uuid}|{spindles[name]}|"
        f"{standby if name == down else ''}|"
        f"{f'Y|{left_over[name]}' if exclusive else 'N|0'}|1|1.0"
        for name, uuid in nodes
    ]
    parts = [
        "".join(f"{name}|{uuid}|preferred||\n" for name, uuid in groups),
        "".join(f"{row}\n" for row in rows),
        "".join(f"{line}\n" for line in lines),
        "htools:iextags:web\n" if tags else "",
        "",
    ]
    return "\n".join(parts)


OPTIONS: dict[str, list[str]] = {
    "hbal": ["-p", "-p+", "-pname,fmem", "--print-instances", "-C", "-Cscript", "-Ssaved", "-v",
             "-v -v", "-q", "-l 2", "-l 0", "-e 1", "-g 0.5", "--min-gain-limit 5",
             "--no-disk-moves", "--no-instance-moves", "--evac-mode", "--restricted-migration",
             "--max-cpu 1", "--min-disk 0.5", "--ignore-soft-errors", "--exclusion-tags web",
             "--ignore-dynu", "-O node01", "-O nothing", "-G default", "-G uuid-1", "-G nothing",
             "--select-instances inst0,inst1", "--exclude-instances inst0", "-l x", "--no-such",
             "-vvp", "--print-n", "--no", "-X", "word", "-vvvv",
             "-U loads", "-U loads --ignore-dynu", "-U nothing", "--mond --mond-data loads",
             "--mond-data nothing", "-e Infinity", "-l -1", "--min-disk x", "--mond=",
             "-I cluster.data", "-I loads", "-I nothing"],
    "hinfo": ["-p", "--print-instances", "-v", "-v -v", "-q", "-O node01", "--ignore-dynu",
              "-pname", "word"],
    "hcheck": ["--machine-readable", "--machine-readable=no", "--no-simulation",
               "--no-capacity-checks", "-v", "-q", "-O node01", "-l 1", "--no-disk-moves",
               "--max-cpu 1", "--min-disk 0.4", "--machine-readable=x",
               "--machine-readable=", "-U loads", "-U loads --ignore-dynu"],
    "hspace": ["-p", "-v", "-v -v", "-q", "--machine-readable", "--disk-template drbd",
               "--disk-template rbd", "--disk-template plain", "-l 3", "--max-cpu 2",
               "--min-disk 0.3", "--standard-alloc 10g,1g,1", "--tiered-alloc 20g,4g,2",
               "--independent-groups", "--accept-existing-errors", "--no-capacity-checks",
               "--spindle-use 2", "-O node01", "-Ssaved", "--standard-alloc 1,2",
               "--standard-alloc 10g,1g,1,", "-l -1", "-v -v -v -v", "-S nothing/saved"],
    "hsqueeze": ["-v", "-C", "-Cscript", "--no-headers", "-Ssaved", "--minimal-resources 1",
                 "--target-resources 3", "--target-resources 10", "-X"],
    "hroller": ["-f", "-f", "-f", "-f --print-moves", "--full-evacuation", "--one-step-only",
                "--no-headers", "--offline-maintenance", "--skip-non-redundant",
                "--ignore-non-redundant", "-v", "-G default", "-O node01", "-Ssaved",
                "--node-tags x"],
    "hail": ["-p", "-p+", "-pname,fmem", "-v", "-v", "-Ssaved", "--save saved", "--ignore-dynu",
             "--ignore-soft-errors", "--no-capacity-checks", "--restrict-allocation-to node1,node2",
             "--restrict-allocation-to nothing", "--static-kvm-node-memory 512",
             "--simulate p,4,100g,16g,8", "--simulate u,4,1t,32g,8", "--simulate bad",
             "-t cluster.data", "-t nothing.data", "-q", "--mond=no", "word"],
    "hscan": ["-p", "-pname,fmem", "--no-headers", "-d.", "--output-dir=.", "-dnothing", "-v",
              "--static-kvm-node-memory 512", "-tx", "file://nothing", "localhost:1",
              "https://localhost:1", "no.invalid", "file://rapi"],
    "harep": ["--dry-run", "--job-delay 2", "--job-delay=x", "--reason text", "-Lnothing.socket",
              "--luxi=nothing.socket", "-v", "word", "--dry", "--job"],
}  # fmt: skip
"""Program -> options; a command line has some of them."""

ALWAYS = ["-V", "--version", "-h", "--help", "--help-completion", "--no-such", "-?"]
"""Options of every program, which few command lines have."""

FREQUENT = (
    "hbal", "hbal", "hbal", "hcheck", "hinfo", "hspace", "hspace", "hsqueeze", "hroller", "hail",
    "hail", "hscan", "harep",
)  # fmt: skip

FOLDER = "rapi"
"""Name of the folder with answers of RAPI."""


def case(number: int, program: str = "") -> Case:
    """Return the command line with this number, of any program or of `program`."""
    rng = Random(f"htools/{number}")
    chosen = rng.choice(FREQUENT)
    program = program or chosen
    arguments: list[str] = []
    for option in rng.sample(OPTIONS[program], rng.choice([0, 1, 1, 2, 3])):
        arguments += option.split()
    files = {"cluster.data": cluster_text(rng)}
    if "loads" in arguments:
        files["loads"] = _loads(rng)
    if rng.random() < 0.02:
        arguments.append(rng.choice(ALWAYS))
    if program == "hspace" and rng.random() < 0.2:
        arguments += ["--simulate", f"p,{rng.randint(2, 6)},{rng.randint(20, 90)}g,16g,8"]
        return Case(program, tuple(arguments), {})
    if program == "harep":
        return Case(program, tuple(arguments), {})
    if program == "hail":
        elsewhere = {"-t", "--simulate"} & set(arguments)
        files["request.json"] = _request(rng, KINDS[:2] if elsewhere else KINDS)
        return Case(program, (*arguments, *["request.json"] * (rng.random() < 0.98)), files)
    if program == "hscan":
        return Case(program, (*arguments, f"file://{FOLDER}"), _answers(rng))
    if program not in ("hail", "hsqueeze") and rng.random() < 0.1:
        return Case(program, ("-m", f"file://{FOLDER}", *arguments), _answers(rng))
    return Case(program, ("-t", "cluster.data", *arguments), files)


def _loads(rng: Random) -> str:
    """Return loads of instances, few lines of them wrong, or answers of monitoring daemons."""
    if rng.random() < 0.3:
        return rng.choice(["[]", "{}", "x", "", "[1]", "[{}]", '[{"node":"node01","reports":[]}]'])
    lines = [f"inst{number} {rng.choice([0, 0.5, 2])} 1 1 1" for number in range(rng.randint(0, 5))]
    if rng.random() < 0.3:
        wrong = [
            "inst0 1 1 1",
            "inst0 1 1 1 1 1",
            "inst0 x 1 1 1",
            "nothing 1 1 1 1",
            "inst0\t1",
            "",
        ]
        lines.insert(rng.randint(0, len(lines)), rng.choice(wrong))
    return "".join(f"{line}\n" for line in lines)


def _request(rng: Random, kinds: Sequence[str]) -> str:
    """Return a message for hail; one in five has a damaged member, and few are cut off.

    hail crashes if an option names a cluster that lacks an instance of the request; then `kinds`
    are of new instances only.
    """
    kind = rng.choice(kinds)
    message = (
        tight_request(rng, kind) if rng.random() < 0.3 else document(rng.randrange(10**6), kind)
    )
    if rng.random() < 0.2:
        _damage(rng, message)
    text = json.dumps(message)
    return text[: rng.randrange(len(text))] if rng.random() < 0.02 else text


def tight_request(rng: Random, kind: str) -> Json:
    """Return a message for hail with nodes that lack a resource, and other policies of groups."""
    message = document(rng.randrange(10**6), kind)
    for one in message["nodes"].values():
        if rng.random() < 0.7:
            for key in rng.sample(
                ["free_memory", "free_disk", "total_cpus"], rng.choice([1, 1, 2])
            ):
                if one.get(key):
                    one[key] = 1 if key == "total_cpus" else rng.choice([0, 10, 1000])
        if rng.random() < 0.15:
            one["offline"] = True
    if rng.random() < 0.3:
        for group in message["nodegroups"].values():
            group["alloc_policy"] = rng.choice(["unallocable", "last_resort", "preferred"])
    if kind == "change-group" and rng.random() < 0.5:
        groups = list(message["nodegroups"])
        message["request"]["target_groups"] = rng.sample(groups, rng.choice([0, 1]))
    return message


def _damage(rng: Random, value: Any) -> None:
    """Remove a random member in `value`, or replace it by a value of another type."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            break
        value = inner
    if isinstance(value, dict) and rng.random() < 0.4:
        del value[key]
    else:
        value[key] = rng.choice([None, "x", "", -1, 2.5, 10**9, [], ["x"], {}, {"x": 1}, True])


def _answers(rng: Random) -> dict[str, str]:
    """Return the files of a folder with answers of RAPI; few files are damaged."""
    groups: list[Json] = [
        {"uuid": f"uuid-{name}", "name": name, "ipolicy": POLICY, "tags": [],
         "alloc_policy": rng.choice(["preferred", "last_resort"])}
        for name in ("default", "other")[: rng.choice([1, 1, 2])]
    ]  # fmt: skip
    domain = rng.choice(["", ".example.com"])
    nodes = [
        node(f"node{n}{domain}", **{"group.uuid": rng.choice(groups)["uuid"]})
        for n in range(rng.randint(2, 6))
    ]
    instances = []
    for number in range(rng.randint(0, 8)):
        first = rng.choice(nodes)
        others = [n for n in nodes if n["group.uuid"] == first["group.uuid"] and n is not first]
        held = [first, *rng.sample(others, min(len(others), rng.choice([0, 1])))]
        memory = rng.choice([512, 1024, 2048])
        one = instance(f"inst{number}{domain}", *[n["name"] for n in held], memory=memory)
        first["mfree"] -= memory
        if rng.random() < 0.15:
            one |= {"status": "ADMIN_down", "admin_state": "down", "oper_ram": None}
            first["mfree"] += memory
        for each in held:
            each["dfree"] -= one["disk_usage"]
        instances.append(one)
    for each in nodes:
        if rng.random() < 0.1:
            each |= {"offline": True, "mtotal": None, "mnode": None, "mfree": None}
        if rng.random() < 0.1:
            each["drained"] = True
    info = {"name": "cluster", "master": nodes[0]["name"], "ipolicy": POLICY,
            "tags": rng.choice([[], ["htools:iextags:web"]]), "default_hypervisor": "kvm",
            "enabled_hypervisors": ["kvm"]}  # fmt: skip
    whole = deepcopy({"info": info, "groups": groups, "nodes": nodes, "instances": instances})
    if rng.random() < 0.15:
        _damage(rng, whole)
    return {f"{FOLDER}/{name}.json": json.dumps(value) for name, value in whole.items()}
