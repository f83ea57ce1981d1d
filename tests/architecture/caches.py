"""List every cache of the program, the line that renews it, and the test that needs it.

Values that follow from a state are kept by `iallocator.model.state.derived`, under a change
counter. A cache that renews itself step by step instead is listed in `caches.toml` with the line
that renews it and the measurement that justifies it. Without the counter or the line, the cache has
outdated values, and a test that compares kept values with new ones must fail:

python -m tests.architecture.caches [WORD ...]

runs these tests on the program as it is. Then it breaks one cache after another, in memory, and
runs the test of that cache. This takes four minutes of processor time; with words, only caches of
files with one of them in the name are broken. Exit status 1: a test did not fail.

`test_caches.py` checks that the list and the code agree.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import NamedTuple

__all__ = ["BOUNDS", "CACHES", "MEMOS", "PACKAGE", "RENEWED_BY_HAND", "Cache"]

PACKAGE = Path(__file__).parents[2] / "iallocator"


class Cache(NamedTuple):
    """A cache of the program, and how to break it.

    `what` is kept in `file`; `line` is in the file once, and `broken` in its place leaves the cache
    outdated. `test` is a file in `tests`, with a word that selects the test (pytest's ``-k``).
    `measured` is why the cache does not use `derived`: a command, its processor time with the
    cache, and its processor time when the value is computed again after each change.
    """

    file: str
    what: str
    line: str
    broken: str
    test: str
    measured: str = ""


def derived_values(file: str, test: str) -> list[Cache]:
    """Return a cache for each call of `derived` in `file`; a broken one is never renewed."""
    source = (PACKAGE / file).read_bytes()
    lines = [0]
    for text in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(text))

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = lines[node.lineno - 1] + node.col_offset
        return start, lines[node.end_lineno - 1] + node.end_col_offset

    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id == "derived":
            (start, end), (first, last) = span(call), span(call.args[2])
            line, broken = source[start:end], source[start:first] + b"0" + source[last:end]
            what = f"derived value, line {call.lineno}"
            found.append(Cache(file, what, line.decode(), broken.decode(), test))
    return found


LIST = tomllib.loads(Path(__file__).with_name("caches.toml").read_text(encoding="utf-8"))

DERIVED = [cache for file, test in LIST["derived"].items() for cache in derived_values(file, test)]


def listed_caches(table: str) -> list[Cache]:
    """Return the caches of one table of caches.toml."""
    files = LIST[table].items()
    return [Cache(f, what, **entry) for f, entries in files for what, entry in entries.items()]


RENEWED_BY_HAND = listed_caches("caches")

CACHES = DERIVED + listed_caches("counters") + RENEWED_BY_HAND

MEMOS: dict[str, str] = LIST["memos"]
"""File -> the values that it keeps for good, and why they stay true."""

BOUNDS: dict[str, str] = LIST["bounds"]
"""File -> the bounds that it keeps."""


def main(words: list[str]) -> int:
    """Break the caches of files with one of `words` in their names; print if their tests fail."""
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
    """Return pytest's exit status for the test of `cache` on the program without its line."""
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
