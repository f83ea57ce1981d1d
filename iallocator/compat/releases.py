"""The releases of Ganeti that have different htools, and the release that the programs follow.

Answers and plans are equal in all releases of the table. Only the messages of errors differ.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["BUILT_FOR", "GANETI", "RELEASES", "Release", "followed", "followed_release"]


class Release:
    """One release of Ganeti, as far as its htools differ from those of other releases.

    Attributes
    ----------
    writing:
        The function that the error message names if a file cannot be written.
    socket:
        The descriptor that the error message names if the socket of LUXI cannot be reached.
    """

    __slots__ = ("socket", "writing")

    def __init__(self, writing: str, socket: int) -> None:
        self.writing = writing
        self.socket = socket


RELEASES = {"3.0": Release("openFile", 3), "3.1": Release("withFile", 4)}
"""Version -> release, oldest first."""

GANETI = "/usr/lib/ganeti"
"""The folder in which Debian has a folder for each release, and the link ``default`` to one."""

BUILT_FOR = str(Path(__file__).with_name("built-for"))
"""The path of a file in the package with the release for which the package was built."""


def followed() -> str:
    """Return the version in `RELEASES` that the programs follow if ``--compat`` names none.

    It is the version of the installed Ganeti, else the one for which the package was built, else
    the oldest.
    """
    release = _version(os.path.basename(os.path.realpath(os.path.join(GANETI, "default"))))
    if not release and os.path.isdir(GANETI):
        release = max(map(_version, os.listdir(GANETI)), default=())
    if not release and os.path.isfile(BUILT_FOR):
        release = _version(Path(BUILT_FOR).read_text(encoding="ascii").strip())
    versions = list(RELEASES)
    known = [version for version in versions if _version(version) <= release]
    return (known or versions)[-1 if known else 0]


def followed_release() -> Release:
    """Return the release that the programs follow if ``--compat`` names none."""
    return RELEASES[followed()]


def _version(name: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 3.0; () for another name."""
    return tuple(map(int, name.split("."))) if re.fullmatch(r"\d+(\.\d+)+", name) else ()
