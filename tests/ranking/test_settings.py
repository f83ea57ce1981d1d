"""Test the sources of settings and their precedence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import answer
from iallocator.errors import RequestError, UsageError
from iallocator.ranking import STRATEGIES
from tests.builders import Json, allocate_rbd, as_bytes, cluster, rbd
from tests.command import json_of, respond

from .side_by_side import table


def document(**tags: str) -> Json:
    """Return a request on two groups of one node each; `tags` are of groups or the cluster."""
    made = cluster({"default": 2, "annex": 2}, tags=tuple(tags.pop("cluster", "").split()))
    for group, text in tags.items():
        made["nodegroups"][f"uuid-{group}"]["tags"] = text.split()
    return allocate_rbd(made)


def config(made: Json, *options: str) -> Json:
    """Return the output of ``iallocator show --settings``."""
    return json_of("config", *options, document=made)


def strategies(made: Json, *options: str) -> dict[str, str]:
    """Return the strategy with which each group was ranked, by the group's name."""
    response = respond(made, *options)
    return {one["group"]: one.get("strategy", "score") for one in response["solutions"]}


def test_sources_count_in_the_order_of_precedence() -> None:
    """Without one source of a setting, the source with the next precedence applies."""
    made = document(cluster="iallocator:strategy:minimal", annex="iallocator:strategy:balanced")
    made["request"]["strategy"] = "lost-allocations"
    line = ["--strategy=pacemaker-default"]
    assert strategies(made, *line) == dict.fromkeys(("default", "annex"), "pacemaker-default")
    assert strategies(made) == dict.fromkeys(("default", "annex"), "lost-allocations")
    del made["request"]["strategy"]
    assert strategies(made) == {"default": "pacemaker-minimal", "annex": "pacemaker-balanced"}
    made["nodegroups"]["uuid-annex"]["tags"] = []
    assert strategies(made) == dict.fromkeys(("default", "annex"), "pacemaker-minimal")
    made["cluster_tags"] = []
    assert strategies(made) == dict.fromkeys(("default", "annex"), "score")


def test_compat_hail_ignores_tags_with_settings() -> None:
    """With ``--compat hail``, tags with settings are ignored."""
    made = document(cluster="iallocator:strategy:minimal iallocator:top:3")
    made["request"]["strategy"] = "affinity"
    assert strategies(made, "--compat=hail") == {"default": "score", "annex": "score"}


def test_tags_set_other_settings() -> None:
    """Tags of a group set options for this group, tags of the cluster for all groups."""
    made = document(cluster="iallocator:top:2", annex="iallocator:top:1")
    response = respond(made)
    shown = {one["group"]: len(one.get("placements", [])) for one in response["solutions"]}
    assert shown == {"default": 2, "annex": 0}


def test_n1_of_a_group_counts_only_there() -> None:
    """An N+1 mode in a tag of a group rejects instances in this group only."""
    made = cluster(
        {"default": 2, "annex": 2}, memory=4096,
        instances={"a": rbd("node1", memory=2048),
                   "b": rbd("node3", memory=2048)},
    )  # fmt: skip
    made = allocate_rbd(made, memory=3000)
    made["cluster_tags"] = ["iallocator:n1:off"]
    made["nodegroups"]["uuid-annex"]["tags"] = ["iallocator:n1:strict"]
    response = respond(made)
    placed = {one["group"]: one["nodes"] for one in response["solutions"]}
    assert placed == {"default": ["node2"], "annex": []}


def test_config_reports_values_and_origins() -> None:
    """``show --settings`` reports each value with its origin, also of single groups."""
    made = document(
        cluster="iallocator:strategy:minimal iallocator:n1:off", annex="iallocator:seed:4"
    )
    made["request"] |= {"top": 3, "n1": "strict"}
    found = config(made, "--stickiness=7")
    reported = {row["name"]: (row["value"], row["origin"]) for row in found["settings"]}
    assert reported["strategy"] == (
        "pacemaker-minimal", "tag of the cluster: iallocator:strategy:minimal",
    )  # fmt: skip
    assert reported["stickiness"] == (7, "command line")
    assert reported["top"] == (3, "the request")
    assert reported["n1"] == ("strict", "the request")
    assert reported["inter-group"] == ("no", "built-in default")
    assert found["group_settings"] == [
        {"group": "annex", "name": "seed", "value": 4,
         "origin": "tag of group annex: iallocator:seed:4"}
    ]  # fmt: skip
    assert found["warnings"] == []


def test_invalid_tag_causes_a_warning_and_the_next_source_counts() -> None:
    """An invalid tag causes a warning, and the source with the next precedence applies."""
    made = document(cluster="iallocator:strategy:minimal", annex="iallocator:strategy:bets")
    done = subprocess.run(
        [sys.executable, "-m", "iallocator"], input=as_bytes(made), capture_output=True, check=True
    )
    warning = done.stderr.decode()
    assert "tag of group annex: iallocator:strategy:bets does not count" in warning
    assert "pacemaker-balanced" in warning
    response = json.loads(done.stdout)
    assert {one["strategy"] for one in response["solutions"]} == {"pacemaker-minimal"}


def test_unknown_strategy_on_the_command_line_is_an_error() -> None:
    """An unknown strategy is an error that lists the strategies."""
    with pytest.raises(UsageError, match="--strategy: expected one of score, lost-allocations"):
        answer(as_bytes(document()), ["--strategy=best"])


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("strategy", "best", 'request/strategy: expected one of "score"'),
        ("top", "3", "request/top: expected an integer"),
        ("msav-steps", 1.5, "request/msav-steps: expected an integer"),
        ("ignore-soft-errors", "yes", "request/ignore-soft-errors: expected true or false"),
    ],
)
def test_invalid_key_in_a_request_is_an_error(key: str, value: Any, expected: str) -> None:
    """An invalid key in a request is an error with its place and the expected form."""
    made = document()
    made["request"][key] = value
    with pytest.raises(RequestError, match=expected):
        answer(as_bytes(made))


def test_manual_shows_the_answers_of_the_strategies() -> None:
    """The manual's table of answers has all strategies, each with another answer."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "strategies.md").read_text()
    lines = table()
    assert "\n".join(lines) in page
    answers = {line.split("|", 2)[2] for line in lines[2:]}
    assert len(answers) == len(STRATEGIES)
