"""Follow the recipe for a planner in ARCHITECTURE.md with a toy: a column in the table of moves."""

from __future__ import annotations

from . import Changes, Toy

PLACES: Changes = {
    ("iallocator/render/plan.py", "MOVE_COLUMNS"): (
        '    (Column("steps"), lambda row: str(row["steps"])),\n',
        '    (Column("memory", number=True), lambda row: str(row["memory_mib"])),\n<ANCHOR>',
    ),
    ("iallocator/planners/plan.py", "PlanEntry.document"): (
        '            "copied_mib": move.copied,\n',
        '<ANCHOR>            "memory_mib": move.instance.memory,\n',
    ),
    ("schemas/plan.schema.json", "copied_mib"): (
        '          "copied_mib": {"type": "integer", "minimum": 0, '
        '"description": "Data that is copied between nodes, in MiB."},\n',
        '<ANCHOR>          "memory_mib": {"type": "integer", "minimum": 0},\n',
    ),
}

TOY = Toy("planner", "column_paths.py", PLACES, most_files=3)
