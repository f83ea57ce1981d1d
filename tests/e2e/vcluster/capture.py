#!/usr/bin/python3
"""Record the requests of Ganeti and the answers of an allocator.

Ganeti starts this program as its allocator. For each call it leaves files with a common stem:
``.request.json`` as Ganeti wrote it, ``.argv``, ``.response.json`` (stdout), ``.rc`` and, if there
was any, ``.stderr``.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

SETTINGS = Path("/srv/e2e/capture.json")


def request_type(text: bytes) -> str:
    """Return the request's type, or ``unknown``.

    Parameters
    ----------
    text : bytes
        The request document.

    Returns
    -------
    str
        For use in a file name.
    """
    try:
        return str(json.loads(text)["request"]["type"])
    except (ValueError, KeyError, TypeError):
        return "unknown"


def new_stem(directory: Path, label: str, argv: list[str]) -> Path:
    """Reserve the next free number by creating the ``.argv`` file.

    Parameters
    ----------
    directory : pathlib.Path
        The directory of the captures.
    label : str
        End of the common stem, after the number.
    argv : list of str
        The command line that is written to the file.

    Returns
    -------
    pathlib.Path
        The common stem of the call's files.
    """
    taken = {path.name.split("-", 1)[0] for path in directory.iterdir()}
    number = 1 + max((int(text) for text in taken if text.isdigit()), default=0)
    while True:
        stem = directory / f"{number:03d}-{label}"
        try:
            with Path(f"{stem}.argv").open("x", encoding="utf-8") as file:
                file.write(shlex.join(argv) + "\n")
            return stem
        except FileExistsError:
            number += 1


def main() -> int:
    """Run the allocator with the arguments Ganeti gave.

    Returns
    -------
    int
        The allocator's exit status.
    """
    settings = json.loads(SETTINGS.read_text(encoding="utf-8"))
    request = Path(sys.argv[1]).read_bytes()
    try:
        step = Path(settings["step"]).read_text(encoding="utf-8").strip()
    except OSError:
        step = "call"
    label = f"{step}.{request_type(request)}"
    stem = new_stem(Path(settings["captures"]), label, sys.argv)
    Path(f"{stem}.request.json").write_bytes(request)
    done = subprocess.run([settings["plugin"], *sys.argv[1:]], capture_output=True, check=False)
    Path(f"{stem}.response.json").write_bytes(done.stdout)
    if done.stderr:
        Path(f"{stem}.stderr").write_bytes(done.stderr)
    # Written last: its presence says that the others are complete.
    Path(f"{stem}.rc").write_text(f"{done.returncode}\n", encoding="utf-8")
    sys.stdout.buffer.write(done.stdout)
    sys.stderr.buffer.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
