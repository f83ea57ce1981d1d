"""Test features × paths: the placement of the tested instance with and without each feature."""

from __future__ import annotations

import pytest

from iallocator.planners.quality import FREE_SHARE, FREED, PLACED
from tests.builders import Json
from tests.command import dependencies

from .features import FAILS_OVER, FEATURES, HERE, STAYS, WAITS, Feature
from .paths import PATHS, Path
from .plan_checks import problems
from .planners import RejectedError, read_moves
from .reasons import RULES, reason, table
from .requests import respond
from .running import read_executed
from .scenarios import BEST, NEXT, PAIR, SOURCE, Scenario

PAIRS = [(feature, path) for feature in FEATURES for path in PATHS]


def _kinds(feature: Feature, path: Path) -> list[str]:
    """Return the kinds of tested instances that feature and path have in common."""
    common = [kind for kind in path.kinds if kind in feature.kinds]
    return [kind for kind in common if not (feature.split and kind == PAIR)]


def _possible(feature: Feature, path: Path) -> bool:
    """Return whether the feature and the path can be combined."""
    fits = path.between or not feature.split
    return bool(_kinds(feature, path)) and fits and (path.batch or not feature.rival)


CELLS = [
    (feature, path, kind)
    for feature, path in PAIRS
    if not reason(feature, path)
    for kind in _kinds(FEATURES[feature], PATHS[path]) or [""]
]


def _home(path: Path, scenario: Scenario) -> str:
    """Return the node that the answer on `path` has for the tested instance; "" for none."""
    answer = path.ask(scenario)
    if "command" not in answer or "moves" in answer:
        assert problems(scenario.document, answer, _powered(answer)) == []
        _check_bound(answer)
    homes = path.read(scenario, answer)
    return homes[scenario.role] if homes else ""


def _check_bound(answer: Json) -> None:
    """Assert that no result is better than the bound that the plan states."""
    if answer.get("bound") is not None:
        reached, bound = answer["reached"], answer["bound"]
        if answer["measure"] == "score":
            assert reached == answer["scores"]["after"]
        if answer["measure"] in (FREED, FREE_SHARE, PLACED):
            reached, bound = bound, reached
        assert bound <= reached + 1e-9
        assert answer["gap"]["absolute"] == pytest.approx(reached - bound, abs=1e-9)


def _powered(answer: Json) -> list[str]:
    """Return the nodes that a plan powers on."""
    on = answer["switched_nodes"] if answer.get("action") == "online" else []
    powered: list[str] = answer.get("power_on") or on
    return powered


def _holds(what: str, answer: Json) -> bool:
    """Return whether the steps of the tested instance match `WAITS`, `FAILS_OVER` or `STAYS`."""
    steps = {step["number"]: step for step in answer["transition"]["steps"]}
    ours = [step for step in steps.values() if step.get("instance") == "subject"]
    kinds = {step["kind"] for step in ours}
    if what == STAYS:
        return "stop" not in kinds
    if what == FAILS_OVER:
        return "failover" in kinds and "migrate" not in kinds
    return any(
        steps[number].get("instance") == "rival" for step in ours for number in dependencies(step)
    )


@pytest.mark.parametrize(
    ("feature", "path", "kind"), CELLS, ids=[" | ".join(cell) for cell in CELLS]
)
def test_feature_changes_the_answer_of_the_path(feature: str, path: str, kind: str) -> None:
    """Each feature changes the placement of the tested instance on each path as expected.

    The placements with and without the feature are compared.
    """
    row, column = FEATURES[feature], PATHS[path]

    def scenario() -> Scenario:
        return column.scenario(kind, row.split)

    if column.shown:
        assert column.ask(row.prepared(scenario())) != column.ask(row.applied(scenario()))
        return
    if row.expect in (WAITS, FAILS_OVER, STAYS):
        assert not _holds(row.expect, column.ask(row.prepared(scenario())))
        assert _holds(row.expect, column.ask(row.applied(scenario())))
        return
    without = _home(column, row.prepared(scenario()))
    with_it = row.applied(scenario())
    try:
        found = _home(column, with_it)
    except RejectedError:  # a rejection equals a plan without moves if no plan is possible
        assert row.leaves_nothing(with_it)
        found = ""
    if row.expect == HERE:
        assert (without != BEST, found) == (True, BEST), f"without it {without}, with it {found}"
    elif column.forced:
        assert (without, found != BEST) == (BEST, True), f"without it {without}, with it {found}"
    elif row.leaves_nothing(with_it):
        stays = column.read in (read_moves, read_executed)
        assert (without, found) == (BEST, SOURCE if stays else "")
    else:
        assert (without, found) == (BEST, NEXT)


def test_pairs_of_feature_and_path_are_tested_or_have_a_reason() -> None:
    """Each pair of a feature and a path has a test case, or a reason for having none."""
    cells = [pair for pair in PAIRS if not reason(*pair)]
    impossible = [pair for pair in cells if not _possible(FEATURES[pair[0]], PATHS[pair[1]])]
    assert impossible == [], "give reasons why these are no cells"


def test_rules_all_apply_to_something() -> None:
    """Each rule for impossible pairs applies to at least one pair."""
    used = {reason(*pair) for pair in PAIRS}
    assert [words for _, _, words in RULES if words not in used] == []


def test_table_shows_where_every_feature_is_tested_and_where_not() -> None:
    """`make matrix` prints where each feature is tested, and the reasons for other pairs."""
    text = "\n".join(table())
    assert [line for line in text.splitlines() if not line.startswith(" ")] == list(FEATURES)
    plain = " ".join(text.split())
    assert all(words in plain for _, _, words in RULES)
    assert all(f"{path.partition(',')[0]}" in plain for path in PATHS)
    assert max(map(len, text.splitlines())) <= 100


# Misspelt tags × paths that answer requests: each path reports them.


ANSWERED = [
    name for name, path in PATHS.items() if path.ask is respond and not name.endswith("affinity")
]
"""Tags and the paths that report them.

Of placement keys, only the instance's own tags are reported, because customers read the answer.
"""

WORDS = "tag iallocator:prority:7 is unknown: iallocator:priority is meant, perhaps"


@pytest.mark.parametrize("path", ANSWERED)
@pytest.mark.parametrize("owner", ["subject", "node"])
def test_misspelt_tag_is_reported_wherever_it_would_decide(path: str, owner: str) -> None:
    """A misspelt tag of the instance or of a node is reported on each path where it has effect."""
    column = PATHS[path]
    scenario = column.scenario(column.kinds[0], False)
    assert "is meant" not in column.ask(scenario).get("info", "")
    if owner == "node":
        scenario.node(BEST)["tags"] = [
            *scenario.node(BEST).get("tags", []),
            "iallocator:maintenence",
        ]
    else:
        scenario.subject["tags"] = [*scenario.subject.get("tags", []), "iallocator:prority:7"]
    words = WORDS if owner == "subject" else "node best: tag iallocator:maintenence is unknown"
    assert words in column.ask(scenario)["info"]
