"""Measure how processor time and memory grow with each dimension of the input.

``python -m benchmarks.growth [--output FILE] [--update] [WORD ...]`` runs every request and command
of `PATHS` on clusters that are N, 2N and 4N large in one dimension of `DIMENSIONS`, and writes
``benchmarks/GROWTH.md``. With words, it measures the rows that have all of them, and prints these
rows; with ``--update``, it replaces them on the page. Each run is a separate process, of which the
processor time (user and system) and the peak memory are measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import log2
from multiprocessing import get_context
from pathlib import Path

from benchmarks.clusters import Shape, document
from benchmarks.measure import Measured, run
from iallocator.aliases import Json

__all__ = ["DIMENSIONS", "PATHS", "REPAIR", "Growth", "grown"]

ROOT = Path(__file__).parents[1]
OUTPUT = Path(__file__).with_name("GROWTH.md")

MOST = 120.0
"""Seconds of processor time after which a run is stopped."""

COUNTS = 0.15
"""Seconds of processor time at 4N, start-up excluded, below which growth is not computed."""

AGAIN = 4
"""Further rounds for a row that grows too fast without a reason; the fastest run is used."""

BIG = 24.0
"""MiB at 4N, start-up excluded, below which growth is not computed."""

LIMIT = 1.25
"""Exponent from which a row needs a reason; N log N has 1.1 to 1.2 at these sizes."""

PATHS: dict[str, tuple[str, str]] = {
    "allocate": ("allocate", ""),
    "multi-allocate": ("multi-allocate", ""),
    "relocate": ("relocate", ""),
    "node-evacuate": ("node-evacuate", ""),
    "multi-evacuate": ("multi-evacuate", ""),
    "change-group": ("change-group", ""),
    "explain": ("allocate", "explain"),
    "explain node-evacuate": ("node-evacuate", "explain"),
    "check": ("allocate", "check"),
    "check --failures 2": ("allocate", "check --failures=2 --no-simulation"),
    "show": ("allocate", "show"),
    "report": ("allocate", "report --html=page.html"),
    "balance -l 3": ("allocate", "balance -l 3"),
    "balance --html": ("allocate", "balance -l 3 --html=page.html"),
}
"""Name of a row -> the type of the request in the document, and the arguments."""

REPAIR = {"repair": ("allocate", "repair")}
"""Row for `repair`, which is measured only with pending jobs."""

AFFINITY = {"allocate": "--strategy=affinity", "explain": "explain --strategy=affinity"}

PAIRS = "the best of N² pairs of nodes: [pairs](#pairs)"
"""The reason that the table gives for the time of choosing the best pair of nodes."""

MOVES = "the best of all moves of 2N instances to N nodes: [pairs](#pairs)"

REASONS: dict[tuple[str, str], str] = {
    ("nodes (drbd)", "allocate"): PAIRS,
    ("nodes (drbd)", "multi-allocate"): PAIRS,
    ("nodes (drbd)", "node-evacuate"): PAIRS,
    ("nodes (drbd)", "explain"): PAIRS,
    ("nodes (drbd)", "explain node-evacuate"): PAIRS,
    ("nodes (drbd)", "balance -l 3"): MOVES,
    ("nodes (drbd)", "balance --html"): MOVES,
    ("nodes (rbd)", "balance -l 3"): MOVES,
    ("nodes (rbd)", "balance --html"): MOVES,
    ("nodes (plain)", "balance -l 3"): MOVES,
    ("nodes (plain)", "balance --html"): MOVES,
}
"""Dimension and path -> why the time may grow faster than N log N.

Memory has no exceptions.
"""


class Dimension:
    """A dimension of the input, such as the number of nodes.

    Attributes
    ----------
    most:
        The size 4N.
    make:
        Function that returns a cluster of the given size, without a request.
    paths:
        Names in `PATHS`, or () for all.
    """

    def __init__(self, most: int, make: Callable[[int], Json], *paths: str) -> None:
        self.most = most
        self.make = make
        self.paths = paths or tuple(PATHS)


def _with_repair(most: int, make: Callable[[int], Json]) -> Dimension:
    return Dimension(most, make, *PATHS, *REPAIR)


def _nodes(template: str) -> Callable[[int], Json]:
    return lambda count: document(Shape(count, template, per_node=2, fullness=0.2))


def _groups(template: str) -> Callable[[int], Json]:
    return lambda count: document(Shape(2, template, groups=count, per_node=1, fullness=0.2))


def _crowd(count: int, template: str) -> Json:
    """Return `count` instances on 100 nodes of 2 groups with capacity for any number.

    There are at least 100 instances, and no limit of the policy on their number.
    """
    whole = document(Shape(50, template, groups=2, per_node=max(1, count // 100), fullness=0.2))
    for node in whole["nodes"].values():
        node |= {"total_cpus": 10_000, "total_memory": 10**7, "free_memory": 10**7 - 1024}
        node |= {"i_pri_memory": 0, "i_pri_up_memory": 0}
        node["total_disk"] += 10**9
        node["free_disk"] += 10**9
    for instance in whole["instances"].values():
        instance |= {"memory": 256, "spindle_use": 0}
        node = whole["nodes"][instance["nodes"][0]]
        node["free_memory"] -= 256
        node["i_pri_memory"] += 256
        node["i_pri_up_memory"] += 256
    return whole


def _instances(template: str) -> Callable[[int], Json]:
    return lambda count: _crowd(count, template)


def _small(cluster_tags: Sequence[str] = ()) -> Json:
    whole = document(Shape(10, "drbd", groups=2, per_node=2, fullness=0.2))
    return whole | {"cluster_tags": list(cluster_tags)}


def _tags_of(kind: str, cluster_tags: Sequence[str], prefix: str) -> Callable[[int], Json]:
    """Return a function that sets tags ``PREFIX:NUMBER`` on every object of `kind`.

    The argument of the function is the number of tags.
    """

    def make(count: int) -> Json:
        whole = _small(cluster_tags)
        for one in whole[kind].values():
            one["tags"] = [f"{prefix}:{k}" for k in range(count)]
        return whole

    return make


def _cluster_tags(*prefixes: str) -> Callable[[int], Json]:
    def make(count: int) -> Json:
        tags = [f"{prefixes[k % len(prefixes)]}{k}" for k in range(count)]
        whole = _small(tags)
        for one in (*whole["nodes"].values(), *whole["instances"].values()):
            one["tags"] = [f"{k}:a" for k in range(0, count, 10)]
        return whole

    return make


def _migration(count: int) -> Json:
    """Return a cluster with `count` migration tags on each node, and permitted pairs of them."""
    whole = _small(
        ["htools:migration:m"] + [f"htools:allowmigration:m:{k}::m:{k + 1}" for k in range(count)]
    )
    for one in whole["nodes"].values():
        one["tags"] = [f"m:{k}" for k in range(count)]
    return whole


def _disks(count: int) -> Json:
    whole = _small()
    for one in list(whole["instances"].values())[:4]:
        one["disks"] = [{"size": 1, "mode": "rw", "spindles": 1, "dev_type": "drbd"}] * count
        one["disk_space_total"] = 129 * count
    return whole


def _nics(count: int) -> Json:
    whole = _small()
    for one in whole["instances"].values():
        one["nics"] = [
            {"mac": "aa:00:00:00:00:01", "ip": None, "mode": "bridged", "link": f"br{k}",
             "network": f"net{k}"} for k in range(count)
        ]  # fmt: skip
    for group in whole["nodegroups"].values():
        group["networks"] = [f"net{k}" for k in range(count)]
    return whole


def _networks(count: int) -> Json:
    whole = _small()
    for group in whole["nodegroups"].values():
        group["networks"] = [f"net{k}" for k in range(count)]
    return whole


def _pools(count: int) -> Json:
    whole = document(Shape(10, "ext", groups=2, per_node=max(1, count // 20), fullness=0.2))
    for number, one in enumerate(whole["instances"].values()):
        one |= {"storage_type": "external", "storage_pool": f"pool{number % count}"}
    for one in whole["nodes"].values():
        one["storage_pools"] = [{"type": "external", "name": f"pool{k}"} for k in range(count)]
    return whole


def _rules(kind: str, members: int, template: str = "drbd") -> Callable[[int], Json]:
    """Return a function that adds affinity constraints of `kind` with `members` instances each.

    With 0 `members`, all instances are in one constraint.
    """

    def make(count: int) -> Json:
        each = members or count
        whole = _crowd(count * members or count, template)
        for number, one in enumerate(whole["instances"].values()):
            one["tags"] = [f"iallocator:{kind}:r{number // each}"]
        return whole

    return make


def _order(count: int) -> Json:
    """Return a cluster with a chain of `count` instances.

    Each must start after the previous one.
    """
    whole = _crowd(count, "drbd")
    names = list(whole["instances"])
    for before, name in pairwise(names):
        whole["instances"][name]["tags"] = [f"iallocator:order:after:{before}"]
    return whole


def _keys(count: int) -> Json:
    """Return a cluster with `count` placement keys on the cluster, the nodes and the instances."""
    whole = _small([f"iallocator:key:c{k}:1:10" for k in range(count)])
    for one in whole["nodes"].values():
        one["tags"] = [f"iallocator:key:s{k}:1" for k in range(count)]
    for one in whole["instances"].values():
        one["tags"] = [f"iallocator:syskey:s{k}:1:10" for k in range(count)]
    return whole


def _creations(count: int) -> Json:
    """Return a cluster with `count` forthcoming instances, which queued jobs will create."""
    whole = _crowd(count, "drbd")
    for number, one in enumerate(whole["instances"].values()):
        if number % 100:
            node = whole["nodes"][one["nodes"][0]]
            one["forthcoming"] = True
            node["free_memory"] += 256
            node["i_pri_memory"] -= 256
            node["i_pri_up_memory"] -= 256
            for name in one["nodes"]:
                whole["nodes"][name]["free_disk"] += one["disk_space_total"]
    return whole


def _repairs(count: int) -> Json:
    """Return a cluster with `count` instances that have a pending repair, recorded by a tag."""
    whole = _crowd(count, "drbd") | {"cluster_tags": ["ganeti:watcher:autorepair:failover"]}
    for number, one in enumerate(whole["instances"].values(), 1):
        tag = f"ganeti:watcher:autorepair:pending:failover:id{number}:1700000000:{number}"
        one["tags"] = [tag]
    return whole


def _jobs(count: int) -> Json:
    """Return a cluster with instances that have a repair of `count` jobs, recorded by tags."""
    whole = _small(["ganeti:watcher:autorepair:failover"])
    jobs = "+".join(str(k) for k in range(1, count + 1))
    for one in whole["instances"].values():
        one["tags"] = [f"ganeti:watcher:autorepair:pending:failover:id:1700000000:{jobs}"]
    return whole


DIMENSIONS: dict[str, Dimension] = {
    "nodes (drbd)": Dimension(2000, _nodes("drbd")),
    "nodes (rbd)": Dimension(2000, _nodes("rbd")),
    "nodes (plain)": Dimension(2000, _nodes("plain")),
    "groups of 2 nodes (drbd)": Dimension(2000, _groups("drbd")),
    "groups of 2 nodes (rbd)": Dimension(2000, _groups("rbd")),
    "instances (drbd)": Dimension(40000, _instances("drbd")),
    "instances (rbd)": Dimension(40000, _instances("rbd")),
    "tags per node": Dimension(8000, _tags_of("nodes", ("htools:nlocation:a",), "a")),
    "tags per instance": Dimension(4000, _tags_of("instances", ("htools:iextags:a",), "a")),
    "tags per group": Dimension(8000, _tags_of("nodegroups", (), "a")),
    "cluster tags (exclusion)": Dimension(8000, _cluster_tags("htools:iextags:")),
    "cluster tags (location)": Dimension(
        8000, _cluster_tags("htools:nlocation:", "htools:desiredlocation:")
    ),
    "migration tags": Dimension(8000, _migration),
    "disks per instance": Dimension(8000, _disks),
    "NICs per instance": Dimension(4000, _nics),
    "networks per group": Dimension(16000, _networks),
    "storage pools": Dimension(2000, _pools),
    "separations of 4": Dimension(2000, _rules("separate:must", 4)),
    "colocations of 2": Dimension(4000, _rules("colocate:should", 2)),
    "members of a separation": Dimension(4000, _rules("separate:should", 0)),
    "orders": Dimension(4000, _order),
    "placement keys": Dimension(8000, _keys, *AFFINITY, "check", "show", "report"),
    "pending jobs: creations": _with_repair(16000, _creations),
    "pending jobs: repairs": _with_repair(8000, _repairs),
    "pending jobs of one repair": _with_repair(8000, _jobs),
}


def request_in(whole: Json, kind: str) -> Json:
    """Return a request of type `kind` in a cluster: for one new instance, or four existing ones."""
    names = list(whole["instances"])
    model = whole["instances"][names[0]]
    new = {key: value for key, value in model.items() if key not in ("nodes", "admin_state")}
    new |= {"required_nodes": len(model["nodes"]), "group_name": None, "name": "new0"}
    some = names[:4]
    request: Json = {"type": kind}
    if kind == "allocate":
        request |= new
    elif kind == "multi-allocate":
        request["instances"] = [new | {"name": f"new{k}"} for k in range(4)]
    elif kind == "relocate":
        request |= {"name": names[0], "relocate_from": model["nodes"][-1:]}
        request |= {"required_nodes": 1, "disk_space_total": model["disk_space_total"]}
    elif kind == "multi-evacuate":
        request["evac_nodes"] = model["nodes"][-1:]
    elif kind == "node-evacuate":
        request |= {"instances": some, "evac_mode": "all"}
    else:
        request |= {"instances": some, "target_groups": []}
    return request


class Growth:
    """Processor seconds and peak MiB at N, 2N and 4N, and of a nearly empty input.

    If `differ` is true, the exit status differs between sizes, so that they cannot be compared.
    """

    def __init__(self, base: Measured, sizes: list[Measured]) -> None:
        self.sizes = sizes
        self.ended = any(one.limited for one in sizes)
        self.rejected = [one.rejected for one in (base, *sizes)]
        self.differ = len(set().union(*(one.statuses for one in sizes))) > 1
        seconds = [min(one.seconds) - min(base.seconds) for one in sizes]
        memory = [one.peak_mib - base.peak_mib for one in sizes]
        self.time = _exponent(seconds, COUNTS)
        self.memory = _exponent(memory, BIG)

    @property
    def excessive(self) -> bool:
        """Return whether time or memory grows faster than N log N."""
        return self.ended or max(self.time or 0, self.memory or 0) > LIMIT


def _exponent(values: list[float], least: float) -> float | None:
    """Return the growth from N to 4N as a power of N; None if the values are below `least`."""
    if values[-1] < least:
        return None
    return log2(values[-1] / max(values[0], least / 3)) / 2


def measure(file: Path, words: str, into: Measured) -> None:
    """Run the arguments `words` on a document in a separate process, and add its time to `into`.

    The process has loaded the array library, which the program loads for larger inputs only; that
    must not count as growth.
    """
    given = words.replace("page.html", str(file.with_name("page.html"))).split()
    child = f"""import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy
sys.path.insert(0, {str(ROOT)!r})
from iallocator.process import run
run()"""
    run([sys.executable, "-c", child, *given, str(file)], into, MOST)


def write(title: str, count: int, folder: Path) -> None:
    """Write documents with `count` of a dimension, one for each type of request."""
    whole = DIMENSIONS[title].make(count)
    text = json.dumps(whole)
    for kind in dict.fromkeys(kind for kind, _ in PATHS.values()):
        request = json.dumps(request_in(whole, kind))
        _file(title, kind, count, folder).write_text(f'{text[:-1]}, "request": {request}}}')


def _file(title: str, kind: str, count: int, folder: Path) -> Path:
    return folder / f"{title.replace(' ', '-')}-{kind}-{count}.json"


def grown(title: str, path: str, folder: Path, scale: float = 1.0, again: int = 0) -> Growth:
    """Return how `path` grows with the dimension `title`, up to `scale` times 4N.

    Growth that seems excessive is measured up to `again` times more, and the fastest run of each
    size is used. Separate processes make the documents, because the memory of a process counts for
    the processes that it starts.
    """
    kind, words = (PATHS | REPAIR)[path]
    if title == "placement keys":
        words = AFFINITY.get(path, words)
    most = int(DIMENSIONS[title].most * scale)
    files = []
    for count in (max(4, most // 100), most // 4, most // 2, most):
        files.append(_file(title, kind, count, folder))
        if not files[-1].exists():
            maker = get_context("spawn").Process(target=write, args=(title, count, folder))
            maker.start()
            maker.join()
    found = [Measured() for _ in files]
    growth = None
    for _ in range(1 + again):
        for file, into in zip(files, found):
            measure(file, words, into)
        growth = Growth(found[0], found[1:])
        if not growth.excessive:
            break
    assert growth is not None
    return growth


def rows(words: list[str], scale: float) -> Iterator[tuple[str, str, str, Growth]]:
    """Yield each row that has all of `words`.

    A row has the dimension, its largest value, the path, and the measurement.
    """
    for title, dimension in DIMENSIONS.items():
        with tempfile.TemporaryDirectory() as name:
            for path in dimension.paths:
                if words and not all(word in f"{title} / {path} " for word in words):
                    continue
                again = 0 if (title, path) in REASONS else AGAIN
                growth = grown(title, path, Path(name), scale, again)
                yield title, str(int(dimension.most * scale)), path, growth


HEAD = """# Growth

How processor time and memory grow with each dimension of the input: `make growth` writes this page.
Each cluster has N, 2N and 4N of one thing and a fixed number of all others. Seconds are processor
time (user and system) of the whole process, memory is its peak. Both include the start-up of the
process and the array library, which is loaded at all sizes. The exponents exclude what a hundredth
of 4N takes: 1 is linear, 2 quadratic; `-` is too little to measure (less than 0.15 s, or 24 MiB).
Rows that grow faster than N log N (an exponent above 1.25) have a reason.

| dimension | 4N | path | s at N | 2N | 4N | exponent | MiB at N | 2N | 4N | exponent | reason |
|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""

FOOT = """
## Pairs

The score of a pair of nodes is made of the variances of d = 13 statistics, which both nodes change.
A search for the lowest score has the form of a bichromatic closest pair in d dimensions. J. Alman
and R. Williams ("Probabilistic Polynomials and Hamming Nearest Neighbors", FOCS 2015) show this for
the closest pair by Hamming distance among N vectors on each side with c log N bits. If the Strong
Exponential Time Hypothesis is true, then for every e > 0 there is a c for which no algorithm finds
it in time N^(2-e).

This bound is conditional, and is about dimensions that grow with N. For a fixed number of
statistics there are algorithms that take N^(2-Θ(1/d)). At d = 13 and 2 000 nodes they gain nothing.
"""


def row(title: str, most: str, path: str, growth: Growth) -> str:
    """Return one line of the table of growth."""
    seconds = " | ".join(f"{min(one.seconds):.2f}" for one in growth.sizes)
    memory = " | ".join(f"{one.peak_mib:.0f}" for one in growth.sizes)
    time, space = ("-" if one is None else f"{one:.2f}" for one in (growth.time, growth.memory))
    reason = REASONS.get((title, path), "**none**") if growth.excessive else ""
    if (growth.memory or 0) > LIMIT:
        reason = "**none**"
    if growth.differ:
        reason = "**exit status differs**"
    if any(growth.rejected):
        reason = "**refused**"
    return f"| {title} | {most} | {path} | {seconds} | {time} | {memory} | {space} | {reason} |"


def _about(line: str) -> list[str]:
    """Return the dimension and the path of a line of the table."""
    return line.split("|")[1:4:2]


def main() -> None:
    """Measure the growth, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only rows with all of these")
    parser.add_argument("--scale", type=float, default=1.0, help="a part of 4N")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--update", action="store_true", help="replace rows of the page")
    options = parser.parse_args()
    found = []
    for measurement in rows(options.words, options.scale):
        found.append(row(*measurement))
        print(found[-1], flush=True)
    if options.update:
        text = options.output.read_text()
        for line in found:
            (old,) = (one for one in text.splitlines() if _about(one) == _about(line))
            text = text.replace(old, line)
        options.output.write_text(text)
    elif not options.words:
        options.output.write_text(HEAD + "\n".join(found) + "\n" + FOOT)


if __name__ == "__main__":
    main()
