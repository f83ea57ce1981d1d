"""Mount file systems with mount(2).

All functions are for a process in its own mount namespace. Other processes do not see the mounts,
and they vanish when the last process of the namespace ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from pathlib import Path

_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)

# File systems without user data
_VIRTUAL = {
    "proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "bpf",
    "debugfs", "tracefs", "securityfs", "pstore", "configfs", "fusectl", "hugetlbfs",
    "binfmt_misc", "autofs", "efivarfs", "rpc_pipefs", "nsfs",
}  # fmt: skip


def _mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    status = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        flags,
        data.encode() or None,
    )
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {kind or source}: {os.strerror(code)}", str(target))


def bind(source: Path | str, target: Path) -> None:
    """Mount `source`, with all mounts below it, at `target`, too.

    Parameters
    ----------
    source : pathlib.Path or str
        File or directory to mount.
    target : pathlib.Path
        Mount point; must exist and have the type of `source`.
    """
    _mount(str(source), target, flags=_BIND | _RECURSIVE)


def filesystem(kind: str, target: Path, options: str = "") -> None:
    """Mount a file system that needs no device.

    Parameters
    ----------
    kind : str
        ``tmpfs``, ``proc`` or ``sysfs``.
    target : pathlib.Path
        Mount point.
    options : str
        Options as after ``mount -o``.
    """
    _mount(kind, target, kind=kind, data=options)


def replace_file(target: Path, text: str, store: Path) -> None:
    """Mount other content over a file.

    Parameters
    ----------
    target : pathlib.Path
        The file to cover.
    text : str
        The new content.
    store : pathlib.Path
        Directory that may hold the text.
    """
    copy = store / str(target).strip("/").replace("/", "-")
    copy.write_text(text, encoding="utf-8")
    if target.exists():
        copy.chmod(target.stat().st_mode & 0o777)
    bind(copy, target)


def empty_directory(target: Path) -> None:
    """Cover a directory with an empty one of the same mode and owner.

    Parameters
    ----------
    target : pathlib.Path
        The directory to cover.
    """
    status = target.stat()
    filesystem("tmpfs", target, f"mode={status.st_mode & 0o7777:o}")
    os.chown(target, status.st_uid, status.st_gid)


def private_copy(target: Path) -> None:
    """Cover a directory with a copy of itself.

    Parameters
    ----------
    target : pathlib.Path
        The directory; should be small.
    """
    with _OpenDirectory(target) as old:
        empty_directory(target)
        shutil.copytree(old.path, target, symlinks=True, dirs_exist_ok=True)


def _all_of_them(_: str) -> bool:
    return True


def shadow(target: Path, keep: Callable[[str], bool] = _all_of_them) -> None:
    """Make a directory writable without changing its content.

    Covers the directory with an empty one and shows the old entries inside it, so that new
    entries stay in memory.

    Parameters
    ----------
    target : pathlib.Path
        The directory.
    keep : callable, optional
        Return whether to show the entry with this name.
    """
    with _OpenDirectory(target) as old:
        entries = [e for e in os.scandir(old.path) if keep(e.name)]
        empty_directory(target)
        for entry in entries:
            place = target / entry.name
            if entry.is_symlink():
                place.symlink_to(Path(entry.path).readlink())
                continue
            if entry.is_dir():
                place.mkdir()
            else:
                place.touch()
            bind(entry.path, place)


def make_private() -> None:
    """Prevent that mounts spread to the rest of the machine."""
    _mount("none", Path("/"), flags=_PRIVATE | _RECURSIVE)


def seal(*writable: Path) -> None:
    """Make the machine's own file systems read-only for this namespace.

    Parameters
    ----------
    *writable : pathlib.Path
        Directories that stay writable.
    """
    for directory in writable:
        bind(directory, directory)
    with Path("/proc/self/mountinfo").open(encoding="utf-8") as table:
        rows = [line.split() for line in table]
    for row in rows:
        place = Path(row[4].encode().decode("unicode_escape"))
        kind = row[row.index("-") + 1]
        if kind in _VIRTUAL or any(place.is_relative_to(d) for d in writable):
            continue
        try:
            _mount("none", place, flags=_REMOUNT | _BIND | _READ_ONLY)
        except OSError:
            continue  # a guard only: a hidden or locked mount needs none


class _OpenDirectory:
    """A directory that is held open, so that it can be read when something covers it."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._descriptor = -1

    def __enter__(self) -> _OpenDirectory:
        self._descriptor = os.open(self._target, os.O_RDONLY | os.O_DIRECTORY)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @property
    def path(self) -> str:
        return f"/proc/self/fd/{self._descriptor}"
