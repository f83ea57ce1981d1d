"""Measure requests and planners with and without tags for constraints, in pairs.

``python -m benchmarks.tags [--pairs N] [--nodes N,...] [--only WORD,...]`` prints a table for
``benchmarks/TAGS.md``: the median of the processor times without tags, and for each kind of tag the
median of the ratios of pairs. Both runs of a pair are made one after the other in this process, in
alternating order, so that a busy machine slows down both.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import median
from time import process_time

from benchmarks.clusters import Shape, allocate, node_evacuate
from iallocator.aliases import Json
from iallocator.cli import answer
from iallocator.cli import main as run_command

SHARE = 3
"""Distance of instances, and of nodes, with tags: one of so many."""


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

TASKS: dict[str, tuple[str, ...]] = {
    "allocate": (),
    "node-evacuate of 10": (),
    "balance": ("balance",),
    "check": ("check", "--no-simulation"),
}
"""Task -> the arguments of its command; () for a request."""


def seconds_of(task: str, whole: Json, file: Path) -> float:
    """Return the processor seconds of a task."""
    raw = json.dumps(whole).encode()
    file.write_bytes(raw)
    words = TASKS[task]
    gc.collect()
    begin = process_time()
    if words:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            run_command([*words, str(file)])
    else:
        answer(raw, [])
    return process_time() - begin


def document(task: str, nodes: int, template: str) -> Json:
    """Return the input document of a task."""
    shape = Shape(nodes, template, per_node=10, crowding=0.3)
    return node_evacuate(shape, 10) if task.startswith("node-evacuate") else allocate(shape)


def main() -> None:
    """Measure all tasks and tags, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--nodes", default="20,100")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    only = [word for word in options.only.split(",") if word]
    print(f"| task | template | nodes | without | {' | '.join(KINDS)} |")
    print(f"|---|---|---:|---:|{'---:|' * len(KINDS)}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        for task in TASKS:
            if only and not any(word in task for word in only):
                continue
            for template in ("rbd", "drbd"):
                for nodes in map(int, options.nodes.split(",")):
                    print(row(task, template, nodes, options.pairs, file), flush=True)


def row(task: str, template: str, nodes: int, pairs: int, file: Path) -> str:
    """Return a row of the table."""
    plain = document(task, nodes, template)
    seconds_of(task, plain, file)  # imports
    bases: list[float] = []
    cells = []
    for change in KINDS.values():
        tagged = document(task, nodes, template)
        change(tagged)
        ratios = []
        for number in range(pairs):
            order = (plain, tagged) if number % 2 else (tagged, plain)
            found = [seconds_of(task, whole, file) for whole in order]
            base, own = found if number % 2 else reversed(found)
            bases.append(base)
            ratios.append(own / base)
        cells.append(f"{median(ratios):.2f}")
    return f"| {task} | {template} | {nodes} | {median(bases):.3f} s | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
