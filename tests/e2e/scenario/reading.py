"""Read a running cluster through LUXI and RAPI, compare with hbal, and save it for hbal."""

from __future__ import annotations

import json
from typing import Any

from vcluster import stage
from vcluster.layout import FIRST_GROUP, NODE_STATE, SECOND_GROUP, instance

from scenario.creation import add
from scenario.runner import Runner

_NAMES = ("re1", "re2", "re3", "re4")
RAPI = "198.18.77.11"
_LISTS = ("-p", "--print-instances")
_MEASURED = f"{NODE_STATE}/measured.json"

_VARIANTS = {
    "exclusion tags": ("--exclusion-tags=own",),
    "measured load": ("--mond=yes", f"--mond-data={_MEASURED}"),
    "one move": ("--max-length=1",),
    "no disk moves": ("--no-disk-moves",),
}
"""Name -> options of a plan that is compared."""

_ON_KVM = {
    "kvm": (),
    "kvm, another memory of nodes": ("--static-kvm-node-memory=2000",),
    "kvm, memory as reported": ("--static-kvm-node-memory=0",),
}

_ASK_DAEMONS = """
import json, sys, urllib.request
found = []
for node in sys.argv[2:]:
    url = f"http://{node}:1815/1/report/default/cpu-avg-load"
    with urllib.request.urlopen(url, timeout=60) as answer:
        found.append({"node": node, "reports": [json.load(answer)]})
json.dump(found, open(sys.argv[1], "w"))
"""
"""Script on the master that reads all monitoring daemons at one moment, for both programs."""

Rows = dict[str, list[str]]
Words = tuple[str, ...]


def connections(run: Runner) -> None:
    """Compare tables and plans of both groups with hbal's.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("running clusters read")
    one, two, three = run.nodes_of(FIRST_GROUP)[:3]
    for name, memory in zip(_NAMES, (4096, 2048, 2048, 1024), strict=True):
        where = f"--node={one}:{two if name != 're4' else three}"
        run.arrange(*add(name, "drbd", "--no-wait-for-sync", where, memory=memory))
    for name in _NAMES[:2]:
        run.arrange("gnt-instance", "add-tags", instance(name), "own:a")
    ours, theirs = f"{NODE_STATE}/ours", f"{NODE_STATE}/theirs"
    run.cluster.master.run("mkdir", "-p", ours, theirs)
    snapshot = run.cluster.master.run(program(), "snapshot", "-L", "-d", ours)
    hscan = run.cluster.master.run("hscan", "-L", "-d", theirs)
    run.record("snapshot says what hscan says", _different(snapshot.output, hscan.output))
    _compare(run, "LUXI", ("-L",), ("-L",))
    _compare(run, "RAPI", ("-m", RAPI, "--insecure"), ("-m", RAPI))
    _compare(run, "our snapshot", ("-t", f"{ours}/LOCAL.data"), ("-t", f"{ours}/LOCAL.data"))
    _compare(run, "hscan's file", ("-t", f"{theirs}/LOCAL.data"), ("-L",))
    _monitored(run)
    _plans(run, f"{theirs}/LOCAL.data", _VARIANTS)
    _on_kvm(run, theirs)
    run.drop(*_NAMES)


def program() -> str:
    """Return the path of the program inside the nodes."""
    return str(json.loads(stage.SETTINGS.read_text(encoding="utf-8"))["plugin"])


def _plans(run: Runner, file: str, variants: dict[str, Words]) -> None:
    """Compare tables and plan of the first group with those of hbal, from every source."""
    for label, words in variants.items():
        for connection, ours, theirs in (
            ("LUXI", ("-L",), ("-L",)),
            ("RAPI", ("-m", RAPI, "--insecure"), ("-m", RAPI)),
            ("hscan's file", ("-t", file), ("-t", file)),
        ):
            found = _beside(run, (*ours, *words), (*theirs, *words), FIRST_GROUP)
            run.record(f"{connection}, {label}: hbal's tables and plan", found)


def _on_kvm(run: Runner, folder: str) -> None:
    """Compare with hbal with kvm as first hypervisor, where nodes need memory of their own."""
    kvm = "--hypervisor-parameters=kvm:kvm_path=/usr/local/sbin/kvm,kernel_path="
    run.arrange("gnt-cluster", "modify", "--enabled-hypervisors=kvm,fake", kvm)
    for label, words in _ON_KVM.items():
        run.cluster.master.run("hscan", "-L", "-d", folder, *words)
        _plans(run, f"{folder}/LOCAL.data", {label: words})
    run.arrange("gnt-cluster", "modify", "--enabled-hypervisors=fake")


def _compare(run: Runner, connection: str, ours: Words, theirs: Words) -> None:
    """Compare tables and plan of each group with those of hbal.

    `ours` are iallocator's options, `theirs` those of hbal.
    """
    for group in (FIRST_GROUP, SECOND_GROUP):
        run.record(
            f"{connection}: hbal's tables and plan, {group}", _beside(run, ours, theirs, group)
        )


def _beside(run: Runner, ours: Words, theirs: Words, group: str) -> list[str]:
    """Return the differences to hbal in tables and plan of one group."""
    words = ("-G", group, *_LISTS)
    hbal = run.cluster.master.run("hbal", *theirs, *words)
    balance = (program(), "balance", "--compat=hail", *ours, *words)
    tables = run.cluster.master.run(*balance)
    plan = run.cluster.master.run(*balance[:-2], "--json")
    found = [] if hbal.status == tables.status == 0 else [hbal.output, tables.output]
    known, own = _rows(hbal.output), _rows(tables.output)
    if not known:
        found.append("hbal shows no tables")
    found += _different(_lines(own, known), _lines(known, known))
    return found or _different(_moves(plan.output), hbal_moves(hbal.output))


def _rows(output: str) -> Rows:
    """Return the lines in the tables, by the name of the node or instance."""
    found: Rows = {}
    for line in output.splitlines():
        words = line.split()
        numbers = sum(word.replace(".", "", 1).isdigit() for word in words)
        names = [word for word in words[:2] if word[:2] in ("re", "no")]
        if names and numbers > 5:
            found.setdefault(names[0], []).append(" ".join(words))
    return found


def _lines(rows: Rows, names: Rows) -> str:
    return "\n".join(line for name in sorted(names) for line in rows.get(name, []))


def _moves(plan: str) -> str:
    """Return instance and score of each move in iallocator's plan."""
    try:
        moves: list[dict[str, Any]] = json.loads(plan)["moves"]
    except (ValueError, KeyError):
        return plan
    return "\n".join(f"{move['instance']} {move['score']:.8f}" for move in moves)


def hbal_moves(output: str) -> str:
    """Return instance and score of each move of hbal, without the domain of names."""
    lines = [line.split() for line in output.splitlines() if " => " in line]
    return "\n".join(f"{instance(words[1])} {words[words.index('=>') + 2]}" for words in lines)


def _different(ours: str, theirs: str) -> list[str]:
    """Return the beginning of both texts if their words differ, else []."""
    mine, others = ([line.split() for line in text.splitlines()] for text in (ours, theirs))
    if mine == others:
        return []
    return ["ours:", *ours.splitlines()[:8], "theirs:", *theirs.splitlines()[:8]]


def _monitored(run: Runner) -> None:
    """Compare plans with measured loads: both programs read one stored report of each node."""
    done = run.cluster.master.run(
        program(), "check", "-L", "--mond", "--exit-on-missing-mond-data", "--json"
    )
    whole = done.output.lstrip().startswith("{")
    run.record("all monitoring daemons answer", [] if whole else done.output.splitlines())
    nodes = [node.name for node in run.cluster.specs]
    run.arrange("python3", "-c", _ASK_DAEMONS, _MEASURED, *nodes)
