"""Every cache of the program, what keeps it true, and the test that notices when that is left out.

`caches.toml` beside this lists them.  A cache follows something that changes: a line renews it, or
forgets it.  Without that line it goes stale, and a test that compares what is kept with what is
made anew has to turn red:

    python -m tests.architecture.caches [WORD ...]

runs their tests as things are, then leaves the lines out one by one, in memory, and runs them again
(four minutes of processor time for all; words leave out those whose file has none of them).  Exit
status 1: some test did not notice.  `test_caches.py` holds the list to the code.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import NamedTuple

__all__ = ["BOUNDS", "CACHES", "MEMOS", "PACKAGE", "Cache"]

PACKAGE = Path(__file__).parents[2] / "iallocator"


class Cache(NamedTuple):
    """`what` is kept in `file`; `line` is there once, `broken` in its place leaves it stale.

    `test`: file in `tests`, and a word that picks the test (of pytest's ``-k``).
    """

    file: str
    what: str
    line: str
    broken: str
    test: str


LIST = tomllib.loads(Path(__file__).with_name("caches.toml").read_text(encoding="utf-8"))

CACHES = [
    Cache(file, what, **entry)
    for file, entries in LIST["caches"].items()
    for what, entry in entries.items()
]

MEMOS: dict[str, str] = LIST["memos"]
"""File -> what is kept there for good, and why it stays true."""

BOUNDS: dict[str, str] = LIST["bounds"]
"""File -> what is kept there of bounds."""


def main(words: list[str]) -> int:
    """Break each cache whose file has one of `words`, and say whether its test notices."""
    chosen = [c for c in CACHES if not words or any(word in c.file for word in words)]
    tests = sorted({f"tests/{cache.test.split()[0]}" for cache in chosen})
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", *tests], check=True)
    unnoticed = 0
    for cache in chosen:
        number = CACHES.index(cache)
        command = [sys.executable, "-m", "tests.architecture.caches", "--broken", str(number)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        noticed = done.returncode == 1 and "FAILED" in done.stdout
        unnoticed += not noticed
        colour = "red" if noticed else "GREEN"
        print(f"{colour}: {cache.file}, {cache.what}: {cache.test}", flush=True)
    return 1 if unnoticed else 0


def run_broken(cache: Cache) -> int:
    """Run the test of `cache` on the program without its line; pytest's exit status."""
    import pytest

    path = str(PACKAGE / cache.file)
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        if self.path != path:
            return plain(self, name)
        source = Path(path).read_text(encoding="utf-8")
        return compile(source.replace(cache.line, cache.broken or "pass"), path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    file, _, word = cache.test.partition(" ")
    options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", *(["-k", word] if word else [])]
    return int(pytest.main([f"tests/{file}", *options]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--broken"]:
        sys.exit(run_broken(CACHES[int(sys.argv[2])]))
    sys.exit(main(sys.argv[1:]))
