"""Follow the recipe for an access constraint in ARCHITECTURE.md with a toy.

An instance with the tag ``iallocator:only:LABEL`` may be only on nodes with the tag LABEL.
"""

from __future__ import annotations

from . import Changes, Toy

PLACES: Changes = {
    ("iallocator/constraints/table.py", "TaggedAccess"): (
        "class _Nodes:\n",
        '''class Labels(TaggedAccess):
    """An instance may be only on nodes with a label."""

    name = "labels"
    reason = "FailLabel"
    about = "labels of nodes"
    unit = "places with its label"
    verbs = "have", "has"

    def required(self, instance: Instance, prefix: str) -> Hashable | None:
        start = f"{prefix}only:"
        return next((t[len(start) :] for t in instance.tags if t.startswith(start)), None)

    def accepts(self, node: Node, required: Hashable, prefix: str) -> bool:
        return required in node.tags

    def words(self, required: Hashable) -> str:
        return f"label {required}"

    def origin(self, required: Hashable, prefix: str) -> str:
        return f"tag {prefix}only:{required}"


<ANCHOR>''',
    ),
    ("iallocator/constraints/table.py", "CONSTRAINTS"): (
        "    STORAGE_POOLS,\n",
        "    STORAGE_POOLS,\n    Labels(),\n",
    ),
    ("iallocator/tags/foreign.py", "OUR_TAGS"): (
        '        "pool": POOLS,\n    },\n}\n',
        '        "pool": POOLS,\n        "only": (),\n    },\n}\n',
    ),
}

SCRIPT = "toy_constraint_paths.py"

TOY = Toy(
    "constraint",
    "constraint_paths.py",
    PLACES,
    most_files=2,
)
