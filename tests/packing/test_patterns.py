"""Items that fill bins exactly, compared with trying all ways."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from iallocator.deadline import Deadline
from iallocator.packing.patterns import fill_exactly
from iallocator.solver.highs import available

needs_solver = pytest.mark.skipif(not available(), reason="no solver is installed")


@cache
def _fit(sizes: tuple[int, ...], rooms: tuple[int, ...]) -> bool:
    """Return whether all items fit, by trying all ways."""
    if not sizes:
        return True
    return any(
        _fit(sizes[1:], tuple(sorted((*rooms[:k], room - sizes[0], *rooms[k + 1 :]))))
        for k, room in enumerate(rooms)
        if room >= sizes[0]
    )


@needs_solver
def test_fill_exactly_finds_bins_if_and_only_if_all_items_fit() -> None:
    """Each item gets a bin, and no bin takes more than its capacity."""
    rng = Random(3)
    found = 0
    for _ in range(60):
        rooms = {k: rng.randrange(4, 20) * 64 for k in range(rng.randint(2, 5))}
        sizes = [rng.choice((3, 5, 7, 8)) * 64 for _ in range(rng.randint(2, 8))]
        places = fill_exactly(sizes, rooms, Deadline.of_search(5.0))
        assert (places is not None) == _fit(
            tuple(sorted(sizes, reverse=True)), tuple(sorted(rooms.values()))
        )
        if places is None:
            continue
        found += 1
        assert all(len(places[size]) >= sizes.count(size) for size in sizes)
        for room, capacity in rooms.items():
            assert sum(size * list(own).count(room) for size, own in places.items()) <= capacity
    assert 15 < found < 45


@needs_solver
def test_fill_exactly_with_too_many_patterns_returns_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing them down would take longer than packing one after the other."""
    assert fill_exactly([64, 128], {0: 640}, Deadline.of_search(5.0)) is not None
    monkeypatch.setattr("iallocator.packing.patterns.MOST", 3)
    assert fill_exactly([64, 128], {0: 640}, Deadline.of_search(5.0)) is None
