#!/usr/bin/python3 -IS
"""Replace blockdev and dd for disks that are sparse files.

Commands about other files are passed to the real program.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def _is_fake(path: str) -> bool:
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return False


def _blockdev(arguments: list[str]) -> int | None:
    if len(arguments) != 2 or not _is_fake(arguments[1]):
        return None
    size = Path(arguments[1]).stat().st_size
    answers = {"--getsize64": size, "--getsize": size // 512, "--getsz": size // 512}
    if arguments[0] not in answers:
        return 1
    print(answers[arguments[0]])
    return 0


def _dd(arguments: list[str]) -> int | None:
    words = dict(a.split("=", 1) for a in arguments if "=" in a)
    target = words.get("of", "")
    if words.get("if") != "/dev/zero" or not _is_fake(target):
        return None
    # A hole reads as zeroes too, and takes no memory.
    size = Path(target).stat().st_size
    os.truncate(target, 0)
    os.truncate(target, size)
    return 0


def main() -> int:
    """Run the replaced command that has the name of this program.

    Returns
    -------
    int
        Exit status.
    """
    name = Path(sys.argv[0]).name
    status = _blockdev(sys.argv[1:]) if name == "blockdev" else _dd(sys.argv[1:])
    if status is None:
        places = (
            Path(directory) / name for directory in ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
        )
        real = next(str(path) for path in places if path.exists())
        os.execv(real, [real, *sys.argv[1:]])
    return status


if __name__ == "__main__":
    sys.exit(main())
