"""What sums say of a failure rules out groups that no search could empty, and no others."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from iallocator.planners.intergroup import compress
from tests.builders import cluster, instance

from .worlds import Capture, by_group, on_shared, plan_of

MEMORY = 8192


def _document(seed: int) -> dict[str, Any]:
    """Return two groups of three nodes, one of which hardly holds what both have."""
    rng = random.Random(seed)
    instances = {}
    for n in range(12):
        home = n % 6 + 1
        memory = rng.choice((512, 1024, 2048)) + 512 * (seed % 3)
        mirror = rng.choice([k for k in ((1, 2, 3) if home < 4 else (4, 5, 6)) if k != home])
        drbd = rng.random() < 0.3
        instances[f"i{n}"] = (
            instance(f"node{home}", f"node{mirror}", memory=memory)
            if drbd
            else on_shared(f"node{home}", memory=memory)
        )
    return cluster({"east": 3, "west": 3}, memory=MEMORY, instances=instances)


@pytest.mark.parametrize("mode", ["no-new", "strict"])
def test_compress_proves_by_sums_only_what_search_does_not_find(
    mode: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the sums the same groups are emptied, and others are refused for N+1."""
    documents = [_document(seed) for seed in range(12)]
    options = (f"--n1={mode}", "--exact-search=no")
    counted = [plan_of("compress", one, tmp_path, capsys, *options) for one in documents]
    monkeypatch.setattr(compress._Compression, "_outgrown", lambda self, group: "")
    searched = [plan_of("compress", one, tmp_path, capsys, *options) for one in documents]
    assert [plan["evacuable"] for plan in counted] == [plan["evacuable"] for plan in searched]
    reasons = [row["reason"] for plan in counted for row in by_group(plan).values()]
    assert any("failure of a node" in reason for reason in reasons)
    assert any(plan["evacuable"] for plan in counted)
