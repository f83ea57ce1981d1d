"""Follow the recipe for an option in ARCHITECTURE.md with a toy: a note at the end of `info`."""

from __future__ import annotations

from . import Changes, Toy

PLACES: Changes = {
    ("iallocator/options/settings.py", "Settings"): (
        "    top: int = 1\n",
        '<ANCHOR>    note: str = "none"\n',
    ),
    ("iallocator/options/settings.py", "REQUEST_SETTINGS"): (
        '    "strategy", "stickiness", "n1",',
        '    "note", "strategy", "stickiness", "n1",',
    ),
    ("iallocator/options/table.py", "COMMON"): (
        '    Option("--top",',
        '    Option("--note", "end info with a word: none (default), red or blue",\n'
        '           Choice("none", "red", "blue"), "WORD", group=TUNING),\n<ANCHOR>',
    ),
    ("schemas/request.schema.json", "seed"): (
        '        "seed": {"$ref": ',
        '        "note": {"enum": ["none", "red", "blue"]},\n<ANCHOR>',
    ),
}

EFFECT: Changes = {
    ("iallocator/engine.py", ""): (
        "    for name, why in context.affinity.unsupported",
        '    reply.info += "" if settings.note == "none" else f"; {settings.note}"\n<ANCHOR>',
    ),
}
"""The line that gives the option its effect: it adds the value to the message of a reply."""

TOY = Toy(
    "option",
    "option_paths.py",
    PLACES,
    most_files=4,
    effect=EFFECT,
)
