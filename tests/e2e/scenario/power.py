"""Simulate the power of nodes, as an out-of-band program switches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vcluster.layout import STORE

__all__ = ["OOB", "POWER", "simulated_power"]

POWER = STORE / "power"
"""Folder with a file for each node: the last power command to the out-of-band program."""

OOB = STORE / "oob"
"""Path of the out-of-band program."""

_PROGRAM = f"""#!/bin/sh
# oob COMMAND NODE
if [ "$1" = power-status ]; then
  powered=true
  grep -q power-off {POWER}/"$2" 2>/dev/null && powered=false
  echo "{{\\"powered\\": $powered}}"
  exit
fi
echo "$1" > {POWER}/"$2".new
mv {POWER}/"$2".new {POWER}/"$2"
"""


@contextmanager
def simulated_power(
    seconds: float, on: Callable[[str], object], off: Callable[[str], object]
) -> Iterator[None]:
    """Install the out-of-band program, and switch nodes as it is called.

    Parameters
    ----------
    seconds : float
        The seconds that a node takes to boot.
    on, off : Callable
        Functions for a node that has booted, or is powered off; the argument is its name.
    """
    POWER.mkdir(exist_ok=True)
    for path in POWER.iterdir():
        path.unlink()
    OOB.write_text(_PROGRAM, encoding="utf-8")
    OOB.chmod(0o755)
    ended = threading.Event()

    def work() -> None:
        seen: dict[str, str] = {}
        while not ended.wait(0.2):
            for path in POWER.iterdir():
                command = path.read_text(encoding="utf-8").strip()
                if path.suffix == ".new" or seen.get(path.name) == command:
                    continue
                seen[path.name] = command
                if command == "power-on" and not ended.wait(seconds):
                    on(path.name)
                elif command == "power-off":
                    off(path.name)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
