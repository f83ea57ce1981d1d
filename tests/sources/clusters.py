"""Define clusters for tests of sources, and compute the figures to compare."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from iallocator.compat import behaviour_of
from iallocator.model.cluster import Cluster
from iallocator.model.columns import MEMORY
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.scoring.scalar import ScalarKernel
from iallocator.sources.text import TextCluster, read_text
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.conformance.documents import document
from tests.patience import PATIENCE

READING = Reading(static_kvm_memory=0)
LIKE_HAIL = Reading(behaviour_of("hail"), static_kvm_memory=0)

SMALL = """\
default|uuid-default|preferred||

node1|16384|512|14336|409600|307200|16|M|uuid-default|2|rack:a|N|0|1|1.0
node2|16384|512|15872|409600|358400|16|N|uuid-default|2||N|0|1|1.0

web|1024|51200|1|running|Y|node1|node2|drbd|service:web|1|-|N
db|512|51200|2|ADMIN_down|N|node1||plain||1|2|N

htools:iextags:service

|128,1,1024,1,1,1|128,1,1024,1,1,1;32768,8,1048576,16,8,12|drbd,plain,rbd|4.0|32.0
default|256,1,1024,1,1,1|128,1,1024,1,1,1;8192,4,1048576,16,8,12|plain,drbd|2.5|16.0
"""
"""A text file with two nodes, two instances, and every section."""


def generated(seed: int, kind: str = "allocate", reading: Reading = READING) -> Cluster:
    """Return the cluster of a generated document, without its request."""
    made = document(seed, kind)
    del made["request"]
    return read_cluster(made, reading)


def read(text: str, reading: Reading = READING) -> TextCluster:
    """Return the cluster in `text`."""
    return read_text(text.encode(), "cluster.data", reading)


def score(state: State, scope: list[int]) -> float:
    """Return the program's score of the nodes in `scope`."""
    fixed = Capacities(state.cluster.nodes)
    return ScalarKernel(state, scope, fixed).score()


def n1_differs_at_start(state: State) -> bool:
    """Return whether htools 3.0 and iallocator disagree on N+1 of a node before any move.

    htools uses the free memory that the node reports.
    """
    return any(
        node.online
        and (state.columns[MEMORY][node.index] <= state.reserved[node.index])
        != (node.reported_memory < state.reserved[node.index])
        for node in state.cluster.nodes
    )


def hbal_score(path: Path, group: str) -> float | None:
    """Return hbal's score of a group of the cluster in the file; None if it has none.

    hbal has no score for a group without nodes. It has no number if exclusive storage has no
    spindles, because it divides by their number.
    """
    command = ["hbal", "-t", str(path), "-G", group, "-l", "0", "-v", "-v", "-v"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    found = re.search(r"Initial coefficients: overall (\S+)", done.stdout)
    if found is None:
        assert done.returncode == 0 or "empty" in done.stderr + done.stdout, done
        return None
    return None if found.group(1) == "NaN" else float(found.group(1))
