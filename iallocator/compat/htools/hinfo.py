"""hinfo: print the groups, the score and the lists of a cluster."""

from __future__ import annotations

from iallocator.compat.htools.backend import (
    adjust,
    cluster_score,
    initial_state,
    load,
    scores,
    show_lists,
    split_instances,
)
from iallocator.compat.htools.formats import decimal, domain, policy_text, table
from iallocator.documents.overview import bad_items, group_overviews
from iallocator.errors import many, say
from iallocator.options.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.compat.htools.backend import Given

__all__ = ["run"]


def run(given: Given) -> int:
    """Print the groups, the score and the lists of the cluster; return the exit status."""
    source = load(given, Settings())
    cluster = source.cluster
    loud = given.loudness
    print(f"Loaded cluster tags: {','.join(cluster.tags)}")
    if loud > 2:
        print(f"Loaded cluster ipolicy: {policy_text(source.policy)}")
    adjust(given, cluster)
    state = initial_state(given, source)
    every = range(len(cluster.nodes))
    if not cluster.instances and loud > 1:
        print("Cluster is empty.")
    counts = (
        many(len(cluster.nodes), "node"),
        many(len(cluster.instances), "instance"),
        many(len(cluster.groups), "node group"),
    )
    print(f"Loaded {', '.join(counts)}")
    end = domain(cluster)
    if end and loud > 2:
        print(f"Note: Stripping common suffix of '{end}' from names")
    split = split_instances(cluster)
    if split:
        print("Found instances belonging to multiple node groups:")
        say("\n".join(f"  {name}" for name in split))
    elif loud > 1:
        print("No split instances found")
    show_lists(given, state, "Cluster status", "Instances instance map")
    if loud > 1:
        print("Node group information:")
        nodes = {group.uuid: group.nodes for group in cluster.groups}
        rows = [("Group", "Nodes", "Instances", "Bad_Nodes", "Bad_Instances", "N+1", "Score")]
        for one in (group for group in group_overviews(state) if group["nodes"]):
            rows.append((
                one["name"], str(one["nodes"]), str(one["instances"]),
                str(len(one["bad_nodes"])), str(len(one["bad_instances"])),
                str(one["n1"]), decimal(cluster_score(state, nodes[one['uuid']])),
            ))  # fmt: skip
        left = (True, False, False, False, False, True, False)
        print("\n".join(f"   {line}" for line in table(rows, left)))
    bad, _ = bad_items(state, every)
    print(f"Cluster is N+1 {'un' * bool(bad)}happy")
    print("Cluster coefficients:")
    score, lines = scores(state, every)
    print("\n".join(lines))
    print(f"Cluster score: {decimal(score)}")
    return 0
