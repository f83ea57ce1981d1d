"""Generate command lines of the programs of htools, with the files that they name.

The result of `case` depends only on a number and a program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from tests.builders import Json
from tests.live.cluster_answers import POLICY, instance, node

from .crowded import crowded_text
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
    cluster_tags = rng.sample(TAGS, rng.choice([0, 0, 1, 2, 4]))
    for number in range(rng.randint(0, 14)):
        size = 1024 if even else rng.choice([512, 1024, 2048, 4096])
        space = 10240 if even else rng.choice([1024, 5120, 20480])
        template = rng.choice(templates)
        name, uuid = rng.choice(nodes)
        mates = [other for other, group in nodes if group == uuid and other != name]
        if template == "drbd" and not mates:
            continue
        secondary = rng.choice(mates) if template == "drbd" else ""
        status = rng.choice(["running"] * 9 + ["ADMIN_down", "ERROR_down", rng.choice(STATUS)])
        if not status.startswith("ADMIN"):
            free[name] -= size
        if template in ("drbd", "plain"):
            left[name] -= space
            if secondary:
                left[secondary] -= space
        tag = rng.choice(["", "web:a", "web:b", "web:a,place:b"]) if tags else ""
        auto = rng.choice("YYYN")
        lines.append(
            f"inst{number}{domain}|{size}|{space}|{rng.randint(1, 4)}|{status}|{auto}|{name}|"
            f"{secondary}|{template}|{tag}|1|-"
        )
    down = rng.choice([name for name, _ in nodes]) if rng.random() < 0.25 else ""
    master = rng.choice([name for name, _ in nodes]) if rng.random() < 0.3 else ""
    unknown = rng.choice([name for name, _ in nodes]) if rng.random() < 0.04 else ""
    standby = "htools:standby:1" if rng.random() < 0.5 else ""
    exclusive = rng.random() < 0.1
    spindles = {name: rng.randint(4, 12) if exclusive else 1 for name, _ in nodes}
    left_over = {name: rng.randint(0, count) for name, count in spindles.items()}
    own = {name: rng.choice(NODE_TAGS) if cluster_tags else "" for name, _ in nodes}
    rows = [
        f"{name}|{memory[name]}|{'?' if name == unknown else 0}|{free[name]}|{disk[name]}|"
        f"{left[name]}|{rng.choice([4, 8, 16])}|"
        f"{'Y' if name == down else 'M' if name == master else 'N'}|{uuid}|{spindles[name]}|"
        f"{standby if name == down else own[name]}|"
        f"{f'Y|{left_over[name]}' if exclusive else 'N|0'}|1|1.0"
        for name, uuid in nodes
    ]
    kinds = rng.choice([["preferred"], ["preferred", "last_resort", "unallocable"]])
    parts = [
        "".join(f"{name}|{uuid}|{rng.choice(kinds)}||\n" for name, uuid in groups),
        "".join(f"{row}\n" for row in rows),
        "".join(f"{line}\n" for line in lines),
        "".join(f"{tag}\n" for tag in ["htools:iextags:web"] * tags + cluster_tags),
        _policies(rng, [name for name, _ in groups]) if rng.random() < 0.4 else "",
    ]
    return "\n".join(parts)


STATUS = (
    "ADMIN_offline", "ERROR_nodedown", "ERROR_nodeoffline", "ERROR_up", "ERROR_wrongnode",
    "USER_down",
)  # fmt: skip
"""States of instances that few instances have."""

TAGS = (
    "htools:iextags:place", "htools:nlocation:power", "htools:migration:kvm",
    "htools:allowmigration:kvm:1::kvm:2", "htools:desiredlocation:place", "other",
)  # fmt: skip
"""Tags of clusters that have an effect on the score, or on moves."""

NODE_TAGS = ("", "power:a", "power:b", "power:a,kvm:1", "kvm:2", "place:a", "place:b,power:b", "x")
"""Tags of a node, as text."""


def _policies(rng: Random, groups: Sequence[str]) -> str:
    """Return lines with the policy of the cluster and those of some groups."""
    lines = []
    for owner in ["", *(name for name in groups if rng.random() < 0.8)]:
        most = (rng.choice([2048, 32768]), rng.choice([4, 8]), rng.choice([20480, 1048576]))
        least = (rng.choice([1, 128]), 1, rng.choice([0, 1024]))
        standard = (rng.choice([128, 1024, 2000]), rng.choice([1, 2]), rng.choice([1024, 10240]))
        rest = {least: "1,1,1", most: f"16,8,{rng.choice([1, 12])}", standard: "1,1,1"}
        texts = {size: f"{','.join(map(str, size))},{rest[size]}" for size in rest}
        interval = f"{texts[least]};{texts[most]}"
        if rng.random() < 0.2:
            interval += f";{texts[standard]};{texts[most]}"
        names = rng.choice(["diskless,file,sharedfile,plain,blockdev,drbd,rbd,ext", "drbd,ext",
                            "plain,rbd,drbd", "ext"])  # fmt: skip
        cpus = rng.choice(["4.0", "1.0", "0.5", "64.0", "1.0e-2", "1.0e8", "3"])
        lines.append(
            f"{owner}|{texts[standard]}|{interval}|{names}|{cpus}|{rng.choice(['32.0', '1.0'])}\n"
        )
    return "".join(lines)


VALUES = {
    "FIELDS": ("+index", "+plist,slist", "name,pfmem,rcpu", "+nothing", "name,,fmem", "+",
               "+tags,group", "+pmem,peermap,ndx", "+mtotal", "status,name,xmem,lCpu", ","),
    "RATIO": ("1", "1e-1", "2.5e0", "1.0e2", "0x10", "+1", ".5", "1.", "NaN", "-1", "", "1,5",
              " 1", "1 ", "1E1", "- 1", "0"),
    "COUNT": ("0", "3", "-1", "1e1", "0x2", "1.5", "", " 2", "2 ", "99999999999", "0o7", "- 3"),
}  # fmt: skip
"""Word in an option -> values that replace the word."""

BALANCE = [
    "-l 2", "-l 0", "-l 1", "-e 1", "-e 1e-3", "-e Infinity", "-g 0.5", "-g 1e-2", "-g 10",
    "--min-gain-limit 5", "--min-gain-limit 1e3", "--min-score 0.2", "--no-disk-moves",
    "--no-instance-moves", "--evac-mode", "-E", "--max-cpu 1", "--max-cpu 1e-1",
    "--min-disk 0.5", "--min-disk 3e-1", "--ignore-soft-errors", "--exclusion-tags web",
    "--exclusion-tags web,place", "--exclusion-tags=", "--ignore-dynu",
    "--select-instances inst0,inst1", "--select-instances inst1", "--select-instances nothing",
    "--exclude-instances inst0", "--exclude-instances inst0,inst2,inst3",
    "--exclude-instances nothing", "-l x", "-U loads", "-U loads --ignore-dynu", "-U nothing",
    "--max-cpu RATIO", "--min-disk RATIO", "--min-score RATIO", "--min-gain RATIO",
    "--min-gain-limit RATIO", "-l COUNT",
]  # fmt: skip
"""Options of hbal and hcheck."""

COMMON = ["-v", "-v -v", "-v -v -v", "-q", "-q -q", "-v -q", "-O node01", "-O nothing",
          "-O node00 -O node02", "-O node0"]  # fmt: skip
"""Options of most programs."""

OPTIONS: dict[str, list[str]] = {
    "hbal": [
        *COMMON,
        *BALANCE,
        "-p",
        "-p+",
        "-pname,fmem",
        "--print-instances",
        "-C",
        "-Cscript",
        "-C -p --print-instances",
        "-pFIELDS",
        "-pFIELDS",
        "--print-nodes",
        "--print-commands=script",
        "--print-commands",
        "-v -v -v --print-instances -p",
        "-Ssaved",
        "--save saved",
        "-S saved -C",
        "--restricted-migration",
        "--restricted-migration --evac-mode",
        "-G default",
        "-G other",
        "--group uuid-2",
        "-G uuid-1",
        "-G nothing",
        "--no-such",
        "-vvp",
        "--print-n",
        "--no",
        "-X",
        "--exec",
        "word",
        "-vvvv",
        "-v -v -v -v -v -v",
        "--mond --mond-data loads",
        "--mond=yes --mond-data loads --mond-xen --exit-on-missing-mond-data",
        "--mond-data nothing",
        "--min-disk x",
        "--mond=",
        "--mond=no --mond-data nothing",
        "-I cluster.data",
        "-I loads",
        "-I nothing",
        "--first-job-group",
        "--reason text",
        "--priority low",
        "--priority high",
        "--priority none",
        "-m nowhere.invalid",
        "--static-kvm-node-memory 512",
        "--static-kvm-node-memory x",
        "-Lnothing",
    ],
    "hinfo": [
        *COMMON,
        "-p",
        "--print-instances",
        "-v -v -v -v",
        "--ignore-dynu",
        "-pname",
        "word",
        "-p --print-instances",
        "-pFIELDS",
        "-pFIELDS",
        "--print-nodes=name",
        "--static-kvm-node-memory 512",
        "--mond",
        "--mond --mond-data loads",
        "--mond=no --mond-data loads",
        "-I cluster.data",
        "-Lnothing",
        "-m nowhere.invalid",
        "-vp",
        "--print-i",
    ],
    "hcheck": [
        *COMMON,
        *BALANCE,
        "--machine-readable",
        "--machine-readable=no",
        "--machine-readable=yes",
        "--no-simulation",
        "--no-simulation",
        "--no-capacity-checks",
        "--machine-readable=x",
        "--machine-readable=",
        "--machine",
        "-I cluster.data",
        "-Lnothing",
        "-m nowhere.invalid",
        "--machine-readable -v -v",
        "word",
        "-p",
    ],
    "hspace": [
        *COMMON,
        "-p",
        "-pFIELDS",
        "-pFIELDS",
        "--print-nodes",
        "--machine-readable",
        "--machine-readable=no",
        "--machine-readable=yes",
        "--machine-readable -v -v",
        "--machine-readable=x",
        *(
            f"--disk-template {name}"
            for name in (
                "drbd",
                "rbd",
                "plain",
                "ext",
                "file",
                "sharedfile",
                "diskless",
                "blockdev",
                "gluster",
                "none",
            )
        ),
        "-l 3",
        "-l 1",
        "--max-length=7",
        "--max-cpu 2",
        "--max-cpu 1e1",
        "--min-disk 0.3",
        "--min-disk 5e-1",
        "--standard-alloc 10g,1g,1",
        "--tiered-alloc 20g,4g,2",
        "--standard-alloc 1024,128,1,2",
        "--tiered-alloc 100G,8G,4,1",
        "--tiered-alloc 1t,1",
        "--standard-alloc 10gb,1GiB,1",
        "--tiered-alloc 20000m,4000M,2",
        "--standard-alloc 1z,1,1",
        "--tiered-alloc 1,1,x",
        "--independent-groups",
        "--accept-existing-errors",
        "--no-capacity-checks",
        "--spindle-use 2",
        "--spindle-use 0",
        "--spindle-use x",
        "-Ssaved",
        "--save=saved",
        "--standard-alloc 1,2",
        "--standard-alloc 10g,1g,1,",
        "-l -1",
        "-v -v -v -v",
        "-S nothing/saved",
        "-I cluster.data",
        "-Lnothing",
        "-m nowhere.invalid",
        "--static-kvm-node-memory 512",
        "word",
        "-pq",
        "--max-cpu RATIO",
        "--min-disk RATIO",
        "--max-length COUNT",
        "--spindle-use COUNT",
    ],
    "hsqueeze": [
        "-v",
        "-v -v",
        "-C",
        "-Cscript",
        "--no-headers",
        "-Ssaved",
        "--minimal-resources 1",
        "--minimal-resources 5e-1",
        "--minimal-resources 4",
        "--target-resources 3",
        "--target-resources 10",
        "--target-resources 1e1",
        "-X",
        "--target-resources 0.25",
        "--target-resources x",
        "--print-commands",
        "--print-commands=script",
        "--save saved",
        "--exec",
        "--no-h",
        "-Lnothing",
        "--static-kvm-node-memory 512",
        "-q",
        "-O node01",
        "word",
        "-p",
    ],
    "hroller": [
        *COMMON,
        "-f",
        "-f",
        "-f",
        "-f",
        "-f --print-moves",
        "--force",
        "-f --print-moves",
        "--full-evacuation",
        "--full-evacuation --print-moves -f",
        "--one-step-only",
        "--one-step-only --no-headers -f",
        "--no-headers",
        "--offline-maintenance",
        "--offline-maintenance -f",
        "--skip-non-redundant",
        "--ignore-non-redundant",
        "--ignore-non-redundant -f",
        "-G default",
        "-G other",
        "-G uuid-2",
        "-G nothing",
        "-Ssaved",
        "--save saved",
        "--node-tags x",
        "--node-tags power:a,power:b -f",
        "--node-tags kvm:2 -f",
        "--node-tags=",
        "-I cluster.data",
        "-Lnothing",
        "-m nowhere.invalid",
        "--static-kvm-node-memory 512",
        "word",
        "-vvf",
    ],
    "hail": [
        "-p",
        "-p+",
        "-pname,fmem",
        "-pFIELDS",
        "-pFIELDS",
        "-v",
        "-v",
        "-v -v",
        "-v -v -v",
        "--verbose",
        "-Ssaved",
        "--save saved",
        "--ignore-dynu",
        "--ignore-soft-errors",
        "--no-capacity-checks",
        "--restrict-allocation-to node1,node2",
        "--restrict-allocation-to nothing",
        "--restrict-allocation-to=node3",
        "--static-kvm-node-memory 512",
        "--static-kvm-node-memory 0",
        "--simulate p,4,100g,16g,8",
        "--simulate u,4,1t,32g,8",
        "--simulate bad",
        "-t cluster.data",
        "-t nothing.data",
        "-q",
        "--mond=no",
        "word",
        "--mond=no --mond-xen",
        "--mond=x",
        "-O node1",
        "-vvp",
        "--print-nodes=name",
    ],
    "hscan": [
        "-p",
        "-pname,fmem",
        "-pFIELDS",
        "-pFIELDS",
        "--no-headers",
        "-d.",
        "--output-dir=.",
        "-dnothing",
        "-d .",
        "-v",
        "-v -v",
        "--static-kvm-node-memory 512",
        "-tx",
        "file://nothing",
        "localhost:1",
        "https://localhost:1",
        "no.invalid",
        "file://rapi",
        "-Lnothing",
        "-q",
        "--no-h",
        "--print-nodes --no-headers",
        "-pv",
    ],
    "harep": [
        "--dry-run",
        "--job-delay 2",
        "--job-delay 1e1",
        "--job-delay=x",
        "--job-delay=-1",
        "--reason text",
        "-Lnothing.socket",
        "--luxi=nothing.socket",
        "-v",
        "word",
        "--dry",
        "--job",
        "--reason",
        "-L",
    ],
}
"""Program -> options; a command line has some of them."""

SHORT = {
    "--print-nodes": "-p", "--print-commands": "-C", "--text-data": "-t", "--evac-mode": "-E",
    "--master": "-m", "--luxi": "-L", "--ialloc-src": "-I", "--exec": "-X", "--group": "-G",
    "--max-length": "-l", "--verbose": "-v", "--quiet": "-q", "--offline": "-O",
    "--min-score": "-e", "--min-gain": "-g", "--dynu-file": "-U", "--save": "-S",
    "--output-dir": "-d", "--force": "-f", "--version": "-V", "--help": "-h",
}  # fmt: skip
"""Long option -> the short one."""

FAULTY = re.compile(r"nothing|nowhere|word|no-such|[ =]x$|localhost|invalid|none$|bad|COUNT|RATIO")
"""A pattern of options with which a program mostly ends at once; command lines have fewer."""

ALWAYS = ["-V", "--version", "-h", "--help", "--help-completion", "--no-such", "-?"]
"""Options of every program, which few command lines have."""

FREQUENT = (
    "hbal", "hbal", "hbal", "hcheck", "hinfo", "hspace", "hspace", "hsqueeze", "hroller", "hail",
    "hail", "hscan", "harep",
)  # fmt: skip

FOLDER = "rapi"
"""Name of the folder with answers of RAPI."""


def case(number: int, program: str = "") -> Case:
    """Return the random command line number `number`, of any program or of `program`."""
    rng = Random(f"htools/{number}")
    chosen = rng.choice(FREQUENT)
    program = program or chosen
    arguments: list[str] = []
    for option in rng.sample(OPTIONS[program], rng.choice([0, 1, 1, 2, 3, 4])):
        if not FAULTY.search(option) or rng.random() < 0.25:
            arguments += _words(rng, option)
    if rng.random() < 0.15:
        arguments = _bundled(arguments)
    files = {"cluster.data": cluster_text(rng)}
    full = Random(f"crowded/{number}")  # which leaves the other draws as they were
    if full.random() < 0.3:
        files["cluster.data"] = crowded_text(full)
    if any(word.endswith("loads") for word in arguments):
        files["loads"] = _loads(rng)
    if rng.random() < 0.02:
        arguments.append(rng.choice(ALWAYS))
    if program == "hspace" and rng.random() < 0.2:
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            arguments += ["--simulate", _simulation(rng)]
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
    backend = ["-t", "cluster.data"]
    if program != "hsqueeze" and rng.random() < 0.08:
        backend = ["-I", "request.json"]
        files["request.json"] = json.dumps(
            {**document(rng.randrange(10**6), KINDS[0]), "instances": {}}
        )
    elif rng.random() < 0.02:
        backend = []
    elif rng.random() < 0.1:
        forms = ["--text-data=cluster.data"], ["-tcluster.data"], ["--text", "cluster.data"]
        backend = list(rng.choice(forms))
    return Case(program, (*backend, *arguments), files)


def _simulation(rng: Random) -> str:
    """Return the description of a simulated group."""
    policy = rng.choice(["p", "p", "preferred", "a", "last_resort", "u", "unallocable", "P"])
    size = f"{rng.randint(20, 90)}{rng.choice(['g', 'G', 'gib', 'GB'])}"
    memory = rng.choice(["16g", "16384", "8G", "4gib", "16000m"])
    more = rng.choice(["", "", "", ",2", ",8", ",8,True", ",8,False", ",x", ",1,1,1"])
    return f"{policy},{rng.randint(0, 6)},{size},{memory},{rng.choice([2, 8, 16])}{more}"


def _words(rng: Random, option: str) -> list[str]:
    """Return the words of `option`, with values, and sometimes in another form."""
    words = option.split()
    for word, values in VALUES.items():
        words = [one.replace(word, rng.choice(values)) for one in words]
    name = words[0]
    if not name.startswith("--") or rng.random() < 0.7:
        return words
    if "=" not in name and len(words) == 2 and not words[1].startswith("-"):
        if rng.random() < 0.5:
            return ["=".join(words)]
        if rng.random() < 0.5 and name in SHORT:
            return [SHORT[name] + words[1]]
    if len(words) == 1 and "=" not in name:
        name = SHORT.get(name, name) if rng.random() < 0.5 else name[: rng.randint(4, len(name))]
    return [name, *words[1:]]


def _bundled(words: Sequence[str]) -> list[str]:
    """Return `words` with adjacent short options without values as one word."""
    flags = ("-v", "-q", "-f", "-E", "-p", "-C")
    joined: list[str] = []
    for word in words:
        bundles = joined and joined[-1].strip("vqfE") == "-" and word in flags
        if bundles:
            joined[-1] += word[1:]
        else:
            joined.append(word)
    return joined


def _loads(rng: Random) -> str:
    """Return a file of loads of instances, often with a wrong line, or a list in JSON."""
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
