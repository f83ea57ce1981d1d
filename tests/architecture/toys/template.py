"""Follow the recipe for a disk template in ARCHITECTURE.md with a toy: disks on iSCSI targets."""

from __future__ import annotations

from . import Changes, Toy

PLACES: Changes = {
    ("iallocator/model/templates.py", "TEMPLATES"): (
        '        Template("gluster", SHARED,',
        '        Template("iscsi", SHARED, disk_key="provider"),\n<ANCHOR>',
    ),
}

TOY = Toy(
    "disk template",
    "template_paths.py",
    PLACES,
    most_files=1,
)
