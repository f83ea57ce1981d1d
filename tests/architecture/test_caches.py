"""Test that the list of caches agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .caches import BOUNDS, CACHES, MEMOS, PACKAGE, RENEWED_BY_HAND, Cache

TESTS = Path(__file__).parents[1]

MARKS = re.compile(
    r"\.stamps\b|state\.version\b|self\._known\b|_stale\b|@cache\b|@cached_property"
    r"|def renew\b|def look_again\b|def catch_up\b|\.renew\(|\bderived\("
)
"""Pattern of code that follows a state by counters, or that keeps results."""


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: f"{cache.file}: {cache.what}")
def test_cache_has_an_invalidation_and_a_test(cache: Cache) -> None:
    """Each cache has a line that renews it, which occurs once, and an existing test."""
    source = (PACKAGE / cache.file).read_text(encoding="utf-8")
    assert source.count(cache.line) == 1
    file, _, word = cache.test.partition(" ")
    tests = re.findall(r"^def (test_\w+)", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert any(word in name for name in tests)


def test_every_file_with_a_cache_is_listed() -> None:
    """Each file with a cache is listed: as a cache, as values kept for good, or as a bound."""
    listed = {cache.file for cache in CACHES} | MEMOS.keys() | BOUNDS.keys()
    files = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    keeping = {name for name, path in files.items() if MARKS.search(path.read_text("utf-8"))}
    assert keeping <= listed, keeping - listed
    assert listed <= files.keys(), listed - files.keys()


def test_every_cache_updated_by_hand_has_a_measurement() -> None:
    """Each cache that is updated by hand has a measurement that shows why."""
    lacking = [f"{cache.file}: {cache.what}" for cache in RENEWED_BY_HAND if not cache.measured]
    assert not lacking, "\n".join(lacking)
