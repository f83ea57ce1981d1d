"""Sizes that are told to be refused without being played through are refused when they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.clusters import Shape, as_text, document
from iallocator.cli import main
from iallocator.model.instance import Instance
from iallocator.n1.counting.trials import Trials
from tests.seeds import seeds


def test_sizes_told_to_be_refused_are_refused_when_they_are_played_through(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On each of the nodes, by the failure that refused the first of them."""
    told: Counter[int] = Counter()
    plain = Trials.refused_down

    def checked(self: Trials, sizes: Sequence[Instance], nodes: Sequence[int]) -> int:
        found = plain(self, sizes, nodes)
        for node in nodes:
            asked = [
                (self.refuters[node], self._counting.leaving(self.refuters[node], one, node))
                for one in sizes[:found]
            ]
            lost = self.lost(asked, [(one, (node,)) for one in sizes[:found]])
            assert lost == [True] * found, node
        told[found > 1] += 1
        return found

    monkeypatch.setattr(Trials, "refused_down", checked)
    path = tmp_path / "cluster.data"
    for seed in seeds(2, 30):
        shape = Shape(5 + seed % 4, "plain", per_node=4, fullness=0.5, seed=seed, crowding=0.3)
        path.write_text(as_text(document(shape)))
        words = ["--standard-alloc=1m,1m,1", "--tiered-alloc=60g,12g,2"]
        main(["capacity", "-t", str(path), "--disk-template=plain", *words])
    capsys.readouterr()
    assert told[True], told
