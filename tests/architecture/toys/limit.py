"""Follow the recipe for a limit in ARCHITECTURE.md with two toys: at most N instances on a node.

`TOY` counts the primaries of a node, `BOTH_ROLES` its instances in both roles.
"""

from __future__ import annotations

import re

from . import Changes, Place, Toy

TABLE, CLUSTER = "iallocator/constraints/table.py", "iallocator/model/cluster.py"
VIEW, REASONS = "iallocator/model/node_view.py", "docs/reference/failure-reasons.md"

RESOURCE = """_INSTANCES = Resource(
    "instances", ({columns},), lambda used, node: node.most_instances - used, rising=True
)
<ANCHOR>"""

LIMIT = """    NodeLimit(*[(Check(
        "FailCount", lambda b, a, i: {count} > a.most_instances, "",
        Lack("places for instances", "", lambda b, a, i: {count} - a.most_instances,
             resource=_INSTANCES),
    ),)] * {roles}, about="number of instances"),
<ANCHOR>"""


def places(columns: str, count: str, roles: int) -> Changes:
    """Return the places of a limit on `count`, the sum of `columns`, in one role or in both."""
    return {
        (CLUSTER, "Node"): (
            "    def __init__(\n        self,\n        name: str,\n        group: Group,\n"
            "        *,\n        memory: NodeMemory",
            '''    @property
    def most_instances(self) -> float:
        """How many instances the node may have."""
        tags = (tag.rpartition(":")[2] for tag in self.tags if tag.startswith("most:"))
        return min(map(int, tags), default=float("inf"))

<ANCHOR>''',
        ),
        (VIEW, "NodeView"): (
            "    # Values that are not sums over instances\n",
            "    most_instances: Quantity\n<ANCHOR>",
        ),
        (VIEW, "NodeView.__init__"): (
            "            self.stored, self.new_statistics, self.lent_memory,\n",
            "<ANCHOR>            self.most_instances,\n",
        ),
        (VIEW, "capacities"): (
            "        node.lent_memory,\n",
            "<ANCHOR>        node.most_instances,\n",
        ),
        (TABLE, "_CPUS"): ("_CPUS = Resource(\n", RESOURCE.format(columns=columns)),
        (TABLE, "CONSTRAINTS"): ("    _MEMORY_LIMIT,\n", LIMIT.format(count=count, roles=roles)),
        (REASONS, ""): (
            "\nA limit is *hard* or *soft*.",
            "| `FailCount` | More instances than the tag `most:N` allows. | Raise N. |\n<ANCHOR>",
        ),
    }


class _Limit(Toy):
    def changes(self, left_out: Place | None) -> Changes:
        """Return the changes that make the toy limit, without those at the place `left_out`.

        If the resource is left out, the limit does not name it.
        """
        found = super().changes(left_out)
        if left_out == (TABLE, "_CPUS"):
            unnamed = re.compile(r",\s+resource=_INSTANCES")
            found = {place: (old, unnamed.sub("", new)) for place, (old, new) in found.items()}
        return found


def limit(changes: Changes) -> Toy:
    """Return the toy limit that `changes` add to a copy of the project."""
    folders = ("iallocator", "schemas", "docs/reference")
    return _Limit("constraint", "limit_paths.py", changes, most_files=4, folders=folders)


TOY = limit(places("5", "a.primaries", 1))
BOTH_ROLES = limit(places("5, 6", "(a.primaries + a.secondaries)", 2))
