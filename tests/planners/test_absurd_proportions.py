"""Clusters with absurd proportions, in which gains drown in rounding: plans end nevertheless."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from iallocator.cli import main
from tests.builders import Json, as_bytes, cluster, instance

SIZES = (0, 1, 2, 100, 10**4, 10**7, 10**9, 10**12, 2**53 - 1)

AMOUNTS = (
    "total_disk", "free_disk", "total_memory", "free_memory", "total_cpus", "total_spindles",
    "free_spindles",
)  # fmt: skip

LONGER = 300
"""Number of moves that no plan for a dozen instances needs."""


def absurd(seed: int) -> Json:
    """Return a few nodes that report a thousand times their total as free, or nothing."""
    rng = Random(f"absurd/{seed}")
    count = rng.randrange(2, 6)
    residents = {}
    for number in range(rng.randrange(1, 12)):
        template = rng.choice(("drbd", "rbd", "plain", "drbd"))
        homes = [f"node{k}" for k in rng.sample(range(1, count + 1), 2)]
        residents[f"i{number}"] = instance(
            *homes[: 2 if template == "drbd" else 1],
            memory=rng.choice((0, 1, 128, 4096)),
            disk_template=template,
        )
    document = cluster(count, memory=16384, disk=10**6, cpus=16, instances=residents)
    for node in document["nodes"].values():
        node |= {name: rng.choice(SIZES) for name in AMOUNTS if rng.random() < 0.25}
    return document


@pytest.mark.parametrize(
    "command", [("balance",), ("balance", "--lookahead"), ("squeeze", "--all"), ("check",)]
)
def test_plans_for_absurd_worlds_end_and_every_score_is_lower(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No instance moves back and forth: each move of balance lowers the score."""
    path = tmp_path / "absurd.json"
    for seed in range(38, 48):  # in case 45 an instance moved back and forth
        path.write_bytes(as_bytes(absurd(seed)))
        assert main([*command, "--json", "--time-limit=3600", str(path)]) in (0, 1), seed
        plan = json.loads(capsys.readouterr().out)
        scores = [plan["scores"]["before"], *(move["score"] for move in plan["moves"])]
        assert len(scores) < LONGER, seed
        if command == ("balance",):
            assert scores == sorted(set(scores), reverse=True), seed
