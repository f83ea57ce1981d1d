"""Change Ganeti's Python code for the processes of the cluster only.

Two constants name files in /proc and /sys that need the real DRBD module, and one logical unit of
Ganeti 3.0 cannot run at all. Each change names the text it expects, so that another version of
Ganeti fails here with a clear message.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vcluster.layout import NODE_STATE, STORE
from vcluster.mounts import replace_file

GANETI = Path("/usr/share/ganeti/default/ganeti")
DRBD_STATUS = NODE_STATE / "drbd-status"
USERMODE_HELPER = NODE_STATE / "drbd-usermode-helper"


class PatchError(Exception):
    """Raised if Ganeti's code does not have the expected text."""


@dataclass(frozen=True)
class _Patch:
    module: str
    after: str  # the first occurrence after this text is changed
    old: str
    new: str
    needed: bool = True


_PATCHES = (
    _Patch(
        "_constants.py",
        "",
        'DRBD_STATUS_FILE = "/proc/drbd"',
        f'DRBD_STATUS_FILE = "{DRBD_STATUS}"',
    ),
    _Patch(
        "storage/drbd.py",
        "",
        '"/sys/module/drbd/parameters/usermode_helper"',
        f'"{USERMODE_HELPER}"',
    ),
    # "gnt-group evacuate" ends in an AssertionError: the unit does not exempt its locks from
    # sorting by level, so its nodes are declared before the groups are locked. Later versions are
    # fixed and need no patch.
    _Patch(
        "cmdlib/group.py",
        "class LUGroupEvacuate(",
        "    self.share_locks = ShareAll()\n",
        "    self.share_locks = ShareAll()\n"
        "    self.dont_collate_locks[locking.LEVEL_NODEGROUP] = True\n"
        "    self.dont_collate_locks[locking.LEVEL_NODE] = True\n",
        needed=False,
    ),
)


def apply() -> None:
    """Mount the changed modules over the installed ones.

    Raises
    ------
    PatchError
        If a text that must be changed is missing.
    """
    for patch in _PATCHES:
        module = GANETI / patch.module
        text = module.read_text(encoding="utf-8")
        start = text.find(patch.after)
        place = text.find(patch.old, max(start, 0))
        if start < 0 or place < 0:
            if patch.needed:
                raise PatchError(f"{module} does not contain {patch.old!r}")
            continue
        changed = text[:place] + patch.new + text[place + len(patch.old) :]
        replace_file(module, changed, STORE)
