#!/usr/bin/python3 -IS
"""Replace the LVM commands that Ganeti runs, without LVM.

A volume group of the node is a directory below /dev, and a logical volume is a sparse file in it.
Reporting commands select columns by name, so the values are stored by column.
"""

from __future__ import annotations

import fcntl
import getopt
import json
import os
import re
import sys
from pathlib import Path
from typing import NoReturn

STATE = Path("/run/e2e")
TAGS = STATE / "volume-tags.json"
FAULT = STATE / "lvcreate-fails"
"""File that makes the creation of volumes on the node fail as long as it exists."""

Row = dict[str, float | str]

_SHORT = "yfvqtsa:o:n:L:l:i:I:W:"
_LONG = [
    *("noheadings", "nosuffix", "unbuffered", "yes", "force", "test", "all"),
    *("separator=", "units=", "options=", "alloc=", "addtag=", "deltag=", "name=", "size="),
]
# Ganeti uses short names in places; what they stand for depends on the command.
_ALIASES = {
    "vgs": {"name": "vg_name", "size": "vg_size"},
    "lvs": {"name": "lv_name", "size": "lv_size", "tags": "lv_tags"},
    "pvs": {"name": "pv_name", "size": "pv_size"},
}
_DEFAULT_COLUMNS = {
    "vgs": "vg_name,vg_size,vg_free",
    "lvs": "lv_name,vg_name,lv_size",
    "pvs": "pv_name,vg_name",
}
_UNITS = {"b": 1 / 1024**2, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def _fail(message: str) -> NoReturn:
    print(f"  {message}", file=sys.stderr)
    sys.exit(5)


def _mib(text: str) -> int:
    match = re.fullmatch(r"\+?([0-9.]+)([bkmgt]?)", text.lower())
    if not match:
        _fail(f"cannot read the size {text}")
    return int(float(match[1]) * _UNITS[match[2] or "m"])


class VolumeGroup:
    """A volume group of this node, with its volumes as records.

    Parameters
    ----------
    name : str
        Name of the volume group.
    size : int
        The size of the volume group in MiB.
    """

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._directory = Path("/dev") / self.name
        self._tags: dict[str, list[str]] = json.loads(TAGS.read_text()) if TAGS.exists() else {}

    @property
    def device(self) -> str:
        """Return the name of the only physical volume."""
        return f"/dev/fakepv-{self.name}"

    def named_by(self, word: str) -> bool:
        """Return whether an argument names this group, or one of its volumes.

        Parameters
        ----------
        word : str
            ``VG``, ``/dev/VG``, ``VG/LV`` or ``/dev/VG/LV``.
        """
        return word.removeprefix("/dev/").split("/")[0] == self.name

    def volumes(self) -> dict[str, int]:
        """Return the MiB of each logical volume."""
        found = sorted(self._directory.iterdir())
        return {path.name: path.stat().st_size >> 20 for path in found}

    def free(self) -> int:
        """Return the MiB that no volume uses."""
        return self.size - sum(self.volumes().values())

    def find(self, text: str) -> str:
        """Return the name of the volume that `text` names, or exit with an error.

        Parameters
        ----------
        text : str
            ``/dev/VG/LV`` or ``VG/LV``.
        """
        name = text.removeprefix("/dev/").removeprefix(self.name + "/")
        if not (self._directory / name).is_file():
            _fail(f'Failed to find logical volume "{text}"')
        return name

    def resize(self, name: str, size: int, *, pretend: bool = False) -> None:
        """Create a volume or make it larger.

        Parameters
        ----------
        name : str
            The volume.
        size : int
            The new size of the volume in MiB.
        pretend : bool
            Whether only to check that the group has the space.
        """
        if size - self.volumes().get(name, 0) > self.free():
            _fail(f'Volume group "{self.name}" has insufficient free space ({self.free()} MiB)')
        if not pretend:
            with (self._directory / name).open("ab") as file:
                file.truncate(size << 20)

    def remove(self, name: str) -> None:
        """Remove a volume from the records of the group.

        Parameters
        ----------
        name : str
            The volume.
        """
        (self._directory / name).unlink()
        self._set_tags(name, [])

    def rename(self, old: str, new: str) -> None:
        """Give a volume another name.

        Parameters
        ----------
        old, new : str
            Names of volumes.
        """
        (self._directory / old).rename(self._directory / new)
        self._set_tags(new, self.tags(old))
        self._set_tags(old, [])

    def tags(self, name: str) -> list[str]:
        """Return a volume's tags.

        Parameters
        ----------
        name : str
            The volume.
        """
        return self._tags.get(name, [])

    def change_tags(self, name: str, add: str | None, drop: str | None) -> None:
        """Add or remove a tag.

        Parameters
        ----------
        name : str
            The volume.
        add, drop : str or None
            The tags.
        """
        self._set_tags(name, [t for t in self.tags(name) if t != drop] + ([add] if add else []))

    def _set_tags(self, name: str, tags: list[str]) -> None:
        self._tags.pop(name, None)
        if tags:
            self._tags[name] = tags
        TAGS.write_text(json.dumps(self._tags), encoding="utf-8")

    def rows(self, command: str, wanted: list[str], columns: list[str]) -> list[Row]:
        """Return the rows of a reporting command; sizes are numbers of MiB.

        Parameters
        ----------
        command : str
            ``vgs``, ``pvs`` or ``lvs``.
        wanted : list of str
            Arguments that narrow the list.
        columns : list of str
            The requested columns.
        """
        free = float(self.free())
        group: Row = {
            "vg_name": self.name,
            "vg_size": float(self.size),
            "vg_free": free,
            "vg_attr": "wz--n-",
        }
        if command == "vgs":
            return [group | {"pv_count": "1"}]
        if command == "pvs":
            used = self.size - free
            device: Row = {
                "pv_name": self.device,
                "pv_size": float(self.size),
                "pv_free": free,
                "pv_used": used,
            }
            device |= group | {"pv_attr": "a--"}
            names = list(self.volumes()) if "lv_name" in columns else []
            return [device | {"lv_name": name} for name in names or [""]]
        narrowed = {self.find(w) for w in wanted if "/" in w}
        return [
            group
            | {
                "lv_name": name,
                "lv_size": float(size),
                "lv_attr": "-wi-ao",
                "lv_tags": ",".join(self.tags(name)),
                "lv_kernel_major": "253",
                "lv_kernel_minor": str((self._directory / name).stat().st_ino % 1000000),
                "vg_extent_size": 4.0,
                "stripes": "1",
                "devices": f"{self.device}(0)",
            }
            for name, size in self.volumes().items()
            if not narrowed or name in narrowed
        ]


def _report(
    groups: list[VolumeGroup], command: str, options: dict[str, str], wanted: list[str]
) -> None:
    asked = options.get("-o") or options.get("--options") or _DEFAULT_COLUMNS[command]
    columns = [_ALIASES[command].get(name, name) for name in asked.split(",")]
    unit = options.get("--units", "m")[0].lower()
    suffix = "" if "--nosuffix" in options else unit

    def show(value: float | str) -> str:
        return value if isinstance(value, str) else f"{value / _UNITS[unit]:.2f}{suffix}"

    for group in groups:
        own = [word for word in wanted if group.named_by(word)]
        for row in group.rows(command, own, columns) if own or not wanted else ():
            words = [show(row[column]) for column in columns]
            print("  " + options.get("--separator", " ").join(words))


def _change(group: VolumeGroup, command: str, options: dict[str, str], words: list[str]) -> None:
    if command == "lvcreate":
        if FAULT.exists():
            _fail("device-mapper: reload ioctl failed: Input/output error")
        if options["-n"] in group.volumes():
            _fail(f'Logical Volume "{options["-n"]}" already exists in volume group "{group.name}"')
        group.resize(options["-n"], _mib(options["-L"]))
    elif command == "lvremove":
        for word in words:
            group.remove(group.find(word))
    elif command == "lvrename":
        group.rename(group.find(words[-2]), words[-1].removeprefix(f"/dev/{group.name}/"))
    elif command == "lvextend":
        name = group.find(words[0])
        size = _mib(options["-L"]) + (group.volumes()[name] if options["-L"].startswith("+") else 0)
        group.resize(name, size, pretend="--test" in options)
    elif command == "lvchange":
        group.change_tags(group.find(words[0]), options.get("--addtag"), options.get("--deltag"))
    else:
        _fail(f"{command}: not known here")


def main() -> int:
    """Run the replaced command that has the name of this program.

    Returns
    -------
    int
        Exit status.
    """
    command = Path(sys.argv[0]).name
    pairs, words = getopt.gnu_getopt(sys.argv[1:], _SHORT, _LONG)
    options = dict(pairs)
    with (STATE / "volume-group.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        described = json.loads((STATE / "volume-groups.json").read_text(encoding="utf-8"))
        groups = [VolumeGroup(name, size) for name, size in described.items()]
        if command in _ALIASES:
            _report(groups, command, options, words)
        else:
            named = [group for group in groups if any(map(group.named_by, words))]
            _change((named or groups)[0], command, options, words)
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
