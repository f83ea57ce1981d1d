"""hscan: read clusters through RAPI or LUXI, and save each in a text file."""

from __future__ import annotations

import sys

from iallocator.compat.hail import BEHAVIOUR
from iallocator.compat.htools.backend import NOT_LOADED, Given, cluster_score, load, write
from iallocator.compat.htools.errors import NamedError, ProgramError
from iallocator.compat.htools.formats import decimal
from iallocator.compat.htools.lists import node_list
from iallocator.documents.overview import bad_items
from iallocator.model.state import State
from iallocator.options.settings import Settings
from iallocator.sources.writer import write_text
from iallocator.units import GIB
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.sources import Source

__all__ = ["run"]

HSCAN_TITLES = ("Nodes", "Inst", "BNode", "BInst", "t_mem", "f_mem", "t_disk", "f_disk", "Score")
HSCAN_WIDTHS = (5, 5, 5, 5, 6, 6, 6, 6, 10)
"""The widths of the columns after the name of the cluster; memory in MiB, disk in GiB."""

LOCAL = "LOCAL"
"""The name of the cluster that is read through LUXI."""


def run(given: Given) -> int:
    """Save the clusters, and print a line about each; return the exit status.

    The exit status is 2 if a cluster cannot be read.
    """
    names = list(given.words)
    if not names:
        names = [LOCAL]
    width = max(map(len, [*names, "Name"])) if given.words else len(LOCAL)
    if not given.no_headers:
        print(_line("Name", HSCAN_TITLES, width))
    failed = False
    for name in names:
        own = Given(static_kvm_node_memory=given.static_kvm_node_memory, quiet=[True])
        if given.words:
            own.master = name
        else:
            own.luxi = given.luxi or True
        try:
            source = load(own, Settings())
        except ProgramError as failure:
            failed = True
            reason = str(failure).removeprefix(NOT_LOADED)
            if reason.startswith("Network."):
                raise NamedError(reason) from None
            print(f"\nError for {name}: failed to load data. Details:\n{reason}")
            continue
        _show(given, source, name, width)
    return 2 if failed else 0


def _show(given: Given, source: Source, name: str, width: int) -> None:
    """Print the line of a cluster, and its nodes if an option requests them; save the cluster."""
    nodes = source.cluster.nodes
    state, every = State(source.cluster), range(len(nodes))
    bad_nodes, bad_instances = bad_items(state, every)
    figures = (
        len(nodes), len(source.cluster.instances), len(bad_nodes), len(bad_instances),
        sum(node.total_memory for node in nodes), sum(node.reported_memory for node in nodes),
        sum(node.total_disk for node in nodes) // GIB,
        sum(node.reported_disk for node in nodes) // GIB,
    )  # fmt: skip
    cells = (*map(str, figures), decimal(cluster_score(state, every)))
    print(_line(name, cells, width))
    if given.print_nodes is not None:
        print(node_list(state, given.print_nodes), end="")
    folder = "." if given.output_dir is None else given.output_dir
    assert source.document is not None  # the source is a running cluster
    as_reported = Reading(BEHAVIOUR, static_kvm_memory=0)
    as_reported.reads_auto_balance = True
    raw = read_cluster(source.document, as_reported)
    path = f"{folder}/{name.replace('/', '_')}.data"
    sys.stdout.flush()
    text = write_text(
        raw, State(raw), policy=source.policy, masters=source.masters, backwards=True, reported=True
    )
    write(path.removeprefix("./") if given.output_dir is None else path, text)


def _line(name: str, cells: tuple[str, ...], width: int) -> str:
    padded = (f"{cell:>{wide}}" for cell, wide in zip(cells, HSCAN_WIDTHS, strict=True))
    return f"{name:{width}} {' '.join(padded)}"
