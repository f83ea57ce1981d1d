"""Sizes that are reported as rejected for one reason get that reason when requested one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.clusters import Shape, as_text, document
from iallocator.cli import main
from iallocator.planners.capacity.instance_size import Size
from iallocator.planners.capacity.tiered import Rejections
from tests.seeds import seeds

ASKED = 40
"""Number of sizes of each sequence that are requested one by one."""


def test_sizes_told_to_be_rejected_alike_are_rejected_so_when_each_is_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first and the last sizes of a sequence are rejected for the reason of the sequence."""
    told: Counter[bool] = Counter()
    plain = Rejections.alike

    def checked(self: Rejections, size: Size, reason: str, every: bool) -> int:
        found = plain(self, size, reason, every)
        expected = self.of(size, every)
        for number in {*range(1, found + 1)[:ASKED], *range(1, found + 1)[-ASKED:]}:
            one = size.smaller(reason, number)
            assert one is not None
            rejected = self._site.probe(self._probe(one), every)
            assert rejected == ((), expected), one.amounts()
        told["FailN1" in (expected or {})] += found > 1
        return found

    monkeypatch.setattr(Rejections, "alike", checked)
    path = tmp_path / "cluster.data"
    for seed in seeds(2, 30):
        shape = Shape(5 + seed % 4, "plain", per_node=4, fullness=0.5, seed=seed, crowding=0.3)
        path.write_text(as_text(document(shape)))
        words = ["--standard-alloc=1m,1m,1", "--tiered-alloc=60g,12g,2"]
        main(["capacity", "-t", str(path), "--disk-template=plain", *words])
    capsys.readouterr()
    assert told[True], told
