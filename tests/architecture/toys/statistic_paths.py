"""Check that requests and commands evaluate and explain toy statistics.

Run by `test_toys.py` with a copy of the project that has two more statistics, `toy_spread` and
`toy_sum`. The script exits with an error if a command ignores them.
"""

from __future__ import annotations

from itertools import product

from tests.builders import Json, allocate, cluster, instance
from tests.command import json_of, plan_of, printed, respond

TEMPLATES = ("drbd", "rbd")


def scenario(count: int = 6) -> Json:
    """Return nodes that differ only in their cpus, 8 or 64, and `count` instances."""
    held = {f"i{k}": instance(f"node{k % 3 + 1}", f"node{k % 3 + 2}") for k in range(6)}
    made = cluster(nodes=count, memory=32768, cpus=8, instances=held)
    for name in list(made["nodes"])[count // 2 :]:
        made["nodes"][name]["total_cpus"] = 64
    return made


def allocation() -> None:
    """Check that the toy statistic favours nodes with many cpus, in each form of the score."""
    for count, template in product((6, 80), TEMPLATES):
        request = allocate(scenario(count), memory=100, disk_template=template)
        (best,) = respond(request, "--n1=off")["solutions"][:1]
        assert all(int(name[4:]) > count // 2 for name in best["nodes"]), best


def imitation() -> None:
    """Check that toy statistics are 0 with `--compat hail`, for every source."""
    for options in ([], ["--compat=hail"]):
        terms = json_of("show", *options, document=scenario())["terms"]
        toys = [one["term"] for one in terms if one["name"].startswith("toy_")]
        assert len(toys) == 2
        assert all(toy == 0 if options else toy > 0 for toy in toys), (options, toys)
    words = ("capacity", "--simulate=preferred,4,100g,16g,4", "--tiered-alloc=1g,1g,1")
    ours, theirs = (json_of(*words, *compat)["tiered"] for compat in ([], ["--compat=hail"]))
    assert ours["usage_after"]["cluster_score"] > theirs["usage_after"]["cluster_score"]


def explanations() -> None:
    """Check that the table of score terms has the toy statistics with their descriptions."""
    for template in TEMPLATES:
        request = allocate(scenario(), memory=100, disk_template=template)
        text = printed("explain", "--n1=off", document=request)
        assert "toy_sum" in text, text
        assert "toy_spread" in text, text
    text = printed("show", document=scenario())
    assert "toy differs" in text, text
    assert "toy in all" in text, text


def planners() -> None:
    """Check that balance lowers the score of `check`, and that capacity fills the cluster."""
    before = json_of("check", document=scenario())["groups"][0]["score"]
    scores = plan_of("balance", scenario(), "--n1=off")["scores"]
    assert scores["before"] == before, scores
    assert scores["after"] < before, scores
    assert json_of("capacity", "--n1=off", document=scenario())["standard"]["count"] > 0


if __name__ == "__main__":
    for path in (allocation, imitation, explanations, planners):
        path()
