"""Follow the recipe for a limit in ARCHITECTURE.md with a toy: at most N primaries on a node."""

from __future__ import annotations

import re

from . import Changes, Place, Toy

PLACES: Changes = {
    ("iallocator/model/cluster.py", "Node"): (
        "    def __init__(\n        self,\n        name: str,\n        group: Group,\n        *,\n"
        "        memory: NodeMemory",
        '''    @property
    def most_primaries(self) -> float:
        """How many primaries the node may have."""
        tags = (tag.rpartition(":")[2] for tag in self.tags if tag.startswith("most:"))
        return min(map(int, tags), default=float("inf"))

<ANCHOR>''',
    ),
    ("iallocator/model/node_view.py", "NodeView"): (
        "    # Values that are not sums over instances\n",
        "    most_primaries: Quantity\n<ANCHOR>",
    ),
    ("iallocator/model/node_view.py", "NodeView.__init__"): (
        "            self.stored, self.new_statistics, self.lent_memory,\n",
        "<ANCHOR>            self.most_primaries,\n",
    ),
    ("iallocator/model/node_view.py", "capacities"): (
        "        node.lent_memory,\n",
        "<ANCHOR>        node.most_primaries,\n",
    ),
    ("iallocator/constraints/table.py", "_CPUS"): (
        "_CPUS = Resource(\n",
        """_INSTANCES = Resource(
    "instances", 5, lambda used, node: node.most_primaries - used, rising=True
)
<ANCHOR>""",
    ),
    ("iallocator/constraints/table.py", "CONSTRAINTS"): (
        "    _MEMORY_LIMIT,\n",
        """    NodeLimit((Check(
        "FailCount", lambda b, a, i: a.primaries > a.most_primaries, "primaries",
        Lack("places for instances", "", lambda b, a, i: a.primaries - a.most_primaries,
             resource=_INSTANCES),
    ),), about="number of instances"),
<ANCHOR>""",
    ),
    ("iallocator/constraints/words.py", "memory"): (
        "def memory(b",
        """def primaries(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    return f"is the primary of {b.primaries:.12g} instances, {a.most_primaries:.12g} are allowed"


<ANCHOR>""",
    ),
}


class _Limit(Toy):
    def changes(self, left_out: Place | None) -> Changes:
        """Return the changes; if the resource is left out, so is its name in `check`."""
        found = super().changes(left_out)
        if left_out == ("iallocator/constraints/table.py", "_CPUS"):
            unnamed = re.compile(r",\s+resource=_INSTANCES")
            found = {place: (old, unnamed.sub("", new)) for place, (old, new) in found.items()}
        return found


TOY = _Limit("constraint", "limit_paths.py", PLACES, most_files=4)
