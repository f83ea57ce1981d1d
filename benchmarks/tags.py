"""Measure requests and planners with and without tags for constraints, in pairs.

``python -m benchmarks.tags [--pairs N] [--nodes N,...] [--templates NAME,...] [--only WORD,...]
[--satisfied] [--processes]`` prints a table for ``benchmarks/TAGS.md``: the lowest processor time
without tags, and for each kind of tag the ratio of the lowest times with and without it. Both runs
of a pair are made one after the other in this process, in alternating order. The lowest time
depends least on how busy the machine is. The garbage collector is off, as it is in a process of the
program.

With ``--processes``, each run is a process of the program, as users start it. Its processor time
contains the start of Python, the imports and the reading of the document.

With ``--satisfied``, the tags exclude nothing: all nodes have the label, the stickiness is 0, the
spread is satisfied, the reserve is 0 %, the ratio is 1. Answers and plans are then those without
tags, and the ratio shows the cost of the constraint alone.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from time import process_time

from benchmarks.clusters import Shape, allocate, node_evacuate
from benchmarks.measure import Measured, run
from benchmarks.versions import CHILD, HERE
from iallocator.aliases import Json
from iallocator.cli import answer
from iallocator.cli import main as run_command

SHARE = 3
"""One of this number of instances, or of nodes, has tags."""


def _some(table: Json) -> list[Json]:
    return list(table.values())[::SHARE]


def labels(whole: Json) -> None:
    """Add labels to most nodes, and tags for them to some instances."""
    for number, node in enumerate(whole["nodes"].values()):
        node["tags"] = ["ssd"] if number % 4 else []
    for name, raw in whole["instances"].items():
        if all("ssd" in whole["nodes"][node]["tags"] for node in raw["nodes"]):
            raw["tags"] = ["iallocator:nodes:must:ssd"] if hash_of(name) % SHARE == 0 else []
    if whole["request"]["type"] == "allocate":
        whole["request"]["tags"] = ["iallocator:nodes:must:ssd"]


def hash_of(name: str) -> int:
    """Return a number for a name that is equal in every run."""
    return sum(name.encode())


def preferred(whole: Json) -> None:
    """Add tags to some instances that prefer nodes with a label."""
    for node in _some(whole["nodes"]):
        node["tags"] = ["ssd"]
    for raw in _some(whole["instances"]):
        raw["tags"] = ["iallocator:nodes:should:ssd:0.01"]


def stickiness(whole: Json) -> None:
    """Add a stickiness of 0.001 to some instances."""
    for raw in _some(whole["instances"]):
        raw["tags"] = ["iallocator:stickiness:0.001"]


def spread(whole: Json) -> None:
    """Add soft separations by group to pairs of instances."""
    for number, raw in enumerate(_some(whole["instances"])):
        raw["tags"] = [f"iallocator:separate:should:pair{number // 2}:group"]


def disk_reserve(whole: Json) -> None:
    """Add a disk reserve of 1 % to each node."""
    whole["cluster_tags"] = ["iallocator:disk-reserve:1%"]


def memory_ratio(whole: Json) -> None:
    """Add a memory ratio of 1.01 to the cluster's nodes."""
    whole["cluster_tags"] = ["iallocator:memory-ratio:1.01"]


def volume_groups(whole: Json) -> None:
    """Add a second volume group to each node, and use it for the disks of some instances."""
    for node in whole["nodes"].values():
        size = node["total_disk"]
        fast = {"name": "fast", "total": size, "free": size // 2}
        node["volume_groups"] = [{"name": "lvm"}, fast]
    for raw in _some(whole["instances"]):
        for disk in raw["disks"]:
            disk["vg"] = "fast"


def labels_of_all(whole: Json) -> None:
    """Add a label to all nodes, and tags that require the label to some instances."""
    for node in whole["nodes"].values():
        node["tags"] = ["ssd"]
    for raw in _asked(whole):
        raw["tags"] = ["iallocator:nodes:must:ssd"]


def preferred_labels_of_all(whole: Json) -> None:
    """Add a label to all nodes, and tags that prefer the label to some instances."""
    for node in whole["nodes"].values():
        node["tags"] = ["ssd"]
    for raw in _asked(whole):
        raw["tags"] = ["iallocator:nodes:should:ssd"]


def no_stickiness(whole: Json) -> None:
    """Add a stickiness of 0 to some instances."""
    for raw in _some(whole["instances"]):
        raw["tags"] = ["iallocator:stickiness:0"]


def satisfied_spread(whole: Json) -> None:
    """Add tags that separate pairs of instances by group; they are in different groups already."""
    count = len(whole["instances"]) // 2  # the groups are equal, and one comes after the other
    for number, raw in enumerate(whole["instances"].values()):
        if number % count % SHARE == 0:
            raw["tags"] = [f"iallocator:separate:must:pair{number % count}:group"]


def no_reserve(whole: Json) -> None:
    """Add a disk reserve of 0 % to the cluster's nodes."""
    whole["cluster_tags"] = ["iallocator:disk-reserve:0%"]


def ratio_of_one(whole: Json) -> None:
    """Add a memory ratio of 1.0 to the cluster's nodes."""
    whole["cluster_tags"] = ["iallocator:memory-ratio:1.0"]


def listed_volume_group(whole: Json) -> None:
    """Add the list of volume groups to each node: only ``lvm``, without sizes."""
    for node in whole["nodes"].values():
        node["volume_groups"] = [{"name": "lvm"}]


def _asked(whole: Json) -> list[Json]:
    """Return some instances, and the new one of the request."""
    new = [whole["request"]] if whole["request"]["type"] == "allocate" else []
    return _some(whole["instances"]) + new


SATISFIED: dict[str, Callable[[Json], None]] = {
    "labels": labels_of_all,
    "preferred labels": preferred_labels_of_all,
    "stickiness": no_stickiness,
    "spread over groups": satisfied_spread,
    "disk reserve": no_reserve,
    "memory ratio": ratio_of_one,
    "volume groups": listed_volume_group,
}
"""Kind of tag -> function that adds such tags to a document so that they exclude no node."""

KINDS: dict[str, Callable[[Json], None]] = {
    "labels": labels,
    "preferred labels": preferred,
    "stickiness": stickiness,
    "spread over groups": spread,
    "disk reserve": disk_reserve,
    "memory ratio": memory_ratio,
    "volume groups": volume_groups,
}
"""Kind of tag -> function that adds such tags to a document."""

LIMIT = 600.0
"""Processor seconds that one process may take."""

TASKS: dict[str, tuple[str, ...]] = {
    "allocate": (),
    "relocate": (),
    "node-evacuate of 10": (),
    "balance": ("balance", "--max-length=30"),
    "squeeze": ("squeeze", "--drbd"),
    "capacity": ("capacity", "--standard-alloc=10g,4g,2", "--tiered-alloc=10g,4g,2"),
    "capacity of one size": ("capacity", "--standard-alloc=10g,4g,2"),
    "check": ("check", "--no-simulation"),
}
"""Task -> the arguments of its command; () for a request."""


def seconds_of(task: str, whole: Json, file: Path) -> float:
    """Return the processor seconds of a task."""
    raw = json.dumps(whole).encode()
    file.write_bytes(raw)
    words = TASKS[task]
    gc.collect()
    gc.disable()
    begin = process_time()
    if words:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            run_command([*words, str(file)])
    else:
        answer(raw, [])
    seconds = process_time() - begin
    gc.enable()
    return seconds


def process_seconds_of(task: str, whole: Json, file: Path) -> float:
    """Return the processor seconds of the process that does a task, with its start."""
    file.write_bytes(json.dumps(whole).encode())
    measured = Measured()
    python = [sys.executable, "-I", "-c", CHILD.format(root=str(HERE))]
    run([*python, *TASKS[task], str(file)], measured, LIMIT)
    if measured.limited or measured.rejected:
        raise RuntimeError(f"{task}: the process ended with status {measured.statuses}")
    return measured.seconds[0]


def document(task: str, nodes: int, template: str, groups: int) -> Json:
    """Return the input document of a task."""
    shape = Shape(nodes // groups, template, per_node=10, crowding=0.3, groups=groups)
    if task.startswith("node-evacuate"):
        return node_evacuate(shape, 10)
    whole = allocate(shape)
    if task == "relocate":
        name, raw = next(iter(whole["instances"].items()))
        left = raw["nodes"][-1:]
        request = {"type": "relocate", "name": name, "relocate_from": left, "required_nodes": 1}
        whole["request"] = {**request, "disk_space_total": raw["disk_space_total"]}
    if task == "squeeze":
        for node in whole["nodes"].values():
            node["tags"] = ["htools:standby:auto"]
    if task.startswith("capacity"):
        whole["ipolicy"] = {**whole["ipolicy"], "disk-templates": [template]}
    return whole


def main() -> None:
    """Measure all tasks and tags, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--nodes", default="20,100")
    parser.add_argument("--templates", default="rbd,drbd")
    parser.add_argument("--only", default="")
    parser.add_argument("--satisfied", action="store_true", help="the tags exclude nothing")
    parser.add_argument("--processes", action="store_true", help="measure whole processes")
    options = parser.parse_args()
    measure = process_seconds_of if options.processes else seconds_of
    only = [word for word in options.only.split(",") if word]
    kinds = SATISFIED if options.satisfied else KINDS
    print(f"| task | template | nodes | without | {' | '.join(kinds)} |")
    print(f"|---|---|---:|---:|{'---:|' * len(kinds)}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        for task in TASKS:
            if only and not any(word in task for word in only):
                continue
            for template in options.templates.split(","):
                for nodes in map(int, options.nodes.split(",")):
                    line = row(task, template, nodes, options.pairs, file, kinds, measure)
                    print(line, flush=True)


def row(
    task: str,
    template: str,
    nodes: int,
    pairs: int,
    file: Path,
    kinds: Mapping[str, Callable[[Json], None]],
    measure: Callable[[str, Json, Path], float],
) -> str:
    """Return a row of the table."""
    bases: list[float] = []
    cells = []
    for number, (kind, change) in enumerate(kinds.items()):
        groups = 2 if kind.startswith("spread") else 1
        plain, tagged = (document(task, nodes, template, groups) for _ in range(2))
        change(tagged)
        for whole in (plain, tagged) if not number else ():
            measure(task, whole, file)  # imports
        times: list[tuple[float, float]] = []
        for pair in range(pairs):
            order = (plain, tagged) if pair % 2 else (tagged, plain)
            found = [measure(task, whole, file) for whole in order]
            base, own = found if pair % 2 else reversed(found)
            times.append((base, own))
        base, own = map(min, zip(*times))
        bases += [base] if groups == 1 else []
        cells.append(f"{own / base:.2f}")
    return f"| {task} | {template} | {nodes} | {min(bases):.3f} s | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
