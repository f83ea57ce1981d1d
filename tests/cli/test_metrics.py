"""Test the metrics for Prometheus: the format, the values, files, and requests of the log."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from iallocator.documents.metrics import METRIC_DESCRIPTIONS
from tests import builders
from tests.builders import Json, rbd
from tests.command import complaint, json_of, printed, run
from tests.schemas import conforms

CLUSTER, REQUEST, GROUPS = (
    f"docs/examples/{name}" for name in ("cluster.json", "request.json", "racks.data")
)

LINE = re.compile(
    r"(?:# HELP iallocator_[a-z0-9_]+ [^\n]+\.|# TYPE (?P<typed>iallocator_[a-z0-9_]+) "
    r"(?:gauge|summary)|(?P<name>iallocator_[a-z0-9_]+)"
    r'(?P<labels>\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? '
    r"(?P<value>-?\d+(?:\.\d+)?(?:e-?\d+)?|[+-]Inf)|# EOF)"
)
"""The form of a line that both text formats for metrics allow."""


def samples(text: str) -> dict[str, float]:
    """Return name and labels of each sample -> its value; assert the form of every line."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        if match["name"]:
            key = match["name"].removeprefix("iallocator_") + (match["labels"] or "")
            assert key not in found, line
            found[key] = float(match["value"])
    assert text.endswith("\n# EOF\n")
    return found


def test_health_equals_check_and_capacity_equals_capacity() -> None:
    """The metrics have the problems and scores of check, and the instances of capacity."""
    found = samples(printed("metrics", "--offline=node4", CLUSTER))
    (group,) = json_of("check", "--offline=node4", CLUSTER, status=1)["groups"]
    for kind, count in group["problems"].items():
        assert found[f'problems{{group="default",kind="{kind}"}}'] == count
    assert found['score{group="default"}'] == pytest.approx(group["score"])
    for term in group["score_terms"]:
        key = f'score_term{{group="default",statistic="{term["name"]}"}}'
        assert found[key] == pytest.approx(term["term"])
    assert found['failures_not_tolerated{group="default"}'] == group["problems"]["global_n1"]
    placed = json_of("capacity", "--offline=node4", "--independent-groups", CLUSTER)
    count = placed["standard"]["count"]
    assert found['capacity_instances{group="default",size="standard"}'] == count
    assert found["capacity_complete"] == 1
    assert found['read_timestamp_seconds{command="metrics"}'] == 1767323400


def test_missing_memory_is_that_of_the_worst_failure() -> None:
    """The metric of missing memory is that of the worst failure.

    Two of three instances of 4 GiB restart after the failure of their node, one does not.
    """
    document = builders.cluster(
        2,
        memory=14000,
        instances={f"vm{k}": rbd("node1", memory=4096) for k in range(3)},
        changes={"node2": {"total_memory": 12000, "free_memory": 12000}},
    )
    found = samples(printed("metrics", "--no-capacity", document=document))
    assert found['failures_not_tolerated{group="default"}'] == 1
    assert found['instances_not_restartable{group="default"}'] == 1
    assert found['failure_missing_memory_bytes{group="default"}'] == 4096 << 20
    assert found['instances{group="default",state="running"}'] == 3


def test_violated_constraints_are_counted_by_strength() -> None:
    """The metrics count violated hard and soft constraints separately."""
    tags = {"a": "must:x", "b": "must:x", "c": "should:y", "d": "should:y"}
    document = builders.cluster(
        2,
        instances={
            name: rbd("node1", tags=[f"iallocator:separate:{tag}"]) for name, tag in tags.items()
        },
    )
    found = samples(printed("metrics", "--no-capacity", document=document))
    key = 'instances_violating_constraints{{group="default",strength="{}"}}'
    assert (found[key.format("hard")], found[key.format("soft")]) == (2, 2)


def test_group_limits_the_metrics_to_one_group() -> None:
    """`metrics --group` has the samples of one group, equal to those for the whole cluster."""
    whole = samples(printed("metrics", "-t", GROUPS))
    part = samples(printed("metrics", "-t", GROUPS, "--group", "rack-a"))
    assert all('group="rack-a"' in key for key in part if "group=" in key)
    for key, value in part.items():
        if 'group="rack-a"' in key:
            assert whole[key] == pytest.approx(value), key


def test_names_are_escaped() -> None:
    """Quotes and backslashes in the name of a group are escaped in metrics."""
    document: Json = json.loads(Path(CLUSTER).read_text())
    (group,) = document["nodegroups"].values()
    group["name"] = 'a"b\\c'
    found = samples(printed("metrics", "--no-capacity", document=document))
    assert 'score{group="a\\"b\\\\c"}' in found


def test_requests_of_the_log_are_counted_by_outcome_and_reason(tmp_path: Path) -> None:
    """The metrics count the requests of the log by result and reason."""
    log = tmp_path / "log"
    captured = tmp_path / "calls"
    captured.mkdir()
    document = json.loads(Path(REQUEST).read_text())
    large = {**document, "request": {**document["request"], "memory": 16384}}
    for one in (document, document, large, {}):
        run(f"--log={log}", f"--capture={captured}", stdin=json.dumps(one).encode())
    with log.open("a") as stream:
        stream.write("another program's line\n")
    found = samples(printed("metrics", "--no-capacity", f"--log={log}", CLUSTER))
    key = 'requests_total{{type="{}",outcome="{}",reason="{}"}}'
    assert found[key.format("allocate", "answered", "")] == 2
    assert found[key.format("allocate", "rejected", "FailMem")] == 1
    assert found[key.format("unknown", "error", "")] == 1
    assert found['request_duration_seconds_count{type="allocate"}'] == 3
    assert found['request_duration_seconds_sum{type="allocate"}'] > 0
    others = samples(printed("metrics", "--no-capacity", f"--capture={captured}", CLUSTER))
    counted = {name: value for name, value in found.items() if name.startswith("requests_total")}
    assert counted == {k: v for k, v in others.items() if k.startswith("requests_total")}


def test_log_that_does_not_exist_yet_has_no_requests(tmp_path: Path) -> None:
    """If the log does not exist, the metrics have no requests."""
    absent = printed("metrics", "--no-capacity", f"--log={tmp_path / 'none'}", CLUSTER)
    assert "requests_total" not in absent
    done = run("metrics", "--no-capacity", "--log=syslog", CLUSTER)
    assert done.returncode == 0
    assert b"the system log is not read" in done.stderr


@pytest.mark.parametrize("command", ["check", "capacity", "metrics"])
def test_file_of_metrics_is_written_beside_the_output(command: str, tmp_path: Path) -> None:
    """`--metrics FILE` replaces the file, readable for all, and does not change the output."""
    target = tmp_path / "ganeti.prom"
    target.write_text("old")
    target.chmod(0o644)
    output = printed(command, f"--metrics={target}", CLUSTER)
    found = samples(target.read_text())
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert set(tmp_path.iterdir()) == {target}
    if command == "metrics":
        assert output == ""
    else:
        assert output == printed(command, CLUSTER)
    name = "capacity_instances" if command == "capacity" else "score"
    assert any(key.startswith(f"{name}{{") for key in found)


def test_balance_writes_moves_and_the_jobs_of_an_execution(tmp_path: Path) -> None:
    """`balance --metrics` writes the size and effect of the plan, and jobs with --dry-run."""
    target = tmp_path / "ganeti.prom"
    plan = json_of("balance", f"--metrics={target}", CLUSTER)
    found = samples(target.read_text())
    assert found['plan_moves{command="balance"}'] == len(plan["moves"]) > 0
    assert found['plan_score{command="balance",moment="after"}'] == plan["scores"]["after"]
    copied = sum(move["copied_mib"] for move in plan["moves"])
    assert found['plan_copied_bytes{command="balance"}'] == copied << 20
    printed("balance", "--dry-run", f"--metrics={target}", CLUSTER)
    jobs = [v for k, v in samples(target.read_text()).items() if k.startswith("plan_jobs")]
    assert sum(jobs) >= 1


def test_campaign_of_maintenance_has_no_metrics_of_scores(tmp_path: Path) -> None:
    """`maintain --metrics` writes no scores, as its document has none."""
    target = tmp_path / "ganeti.prom"
    words = ("--master-node=node1", f"--metrics={target}", CLUSTER)
    plan = json_of("maintain", *words, status=1)  # not every node can be rebooted
    found = samples(target.read_text())
    assert "scores" not in plan
    assert found['plan_moves{command="maintain"}'] == len(plan["moves"])
    assert not [name for name in found if name.startswith("plan_score")]


def test_file_stays_if_the_cluster_cannot_be_read(tmp_path: Path) -> None:
    """If the cluster cannot be read, the file of metrics stays; a missing folder is an error."""
    target = tmp_path / "ganeti.prom"
    target.write_text("old")
    assert run("metrics", f"--metrics={target}", stdin=b"{}").returncode == 2
    assert target.read_text() == "old"
    assert "No such file" in complaint(run("metrics", f"--metrics={tmp_path}/no/x", CLUSTER))


def test_document_has_the_metrics_of_the_text() -> None:
    """`metrics --json` has every sample of the text."""
    document = json_of("metrics", "--no-capacity", CLUSTER)
    conforms(document, "metrics")
    text = samples(printed("metrics", "--no-capacity", CLUSTER))
    values = [row["value"] for one in document["metrics"] for row in one["samples"]]
    assert len(values) == len(text)


def test_files_of_two_commands_have_no_equal_sample(tmp_path: Path) -> None:
    """The node exporter can read the files of `metrics` and of `balance` together."""
    files = [tmp_path / "one.prom", tmp_path / "two.prom"]
    for command, file in zip(("metrics", "balance"), files, strict=True):
        run(command, f"--metrics={file}", CLUSTER)
    one, two = (samples(file.read_text()).keys() for file in files)
    assert one
    assert two
    assert not one & two


def test_dashboard_and_rules_show_metrics_that_exist() -> None:
    """The dashboard and the rules use no metric, and no label, that is not described."""
    shown = Path("docs/examples/ganeti-dashboard.json").read_text()
    shown += Path("docs/examples/ganeti-alerts.yml").read_text()
    used = set(re.findall(r"\biallocator_([a-z0-9_]+)\b", shown))
    known = set(METRIC_DESCRIPTIONS) | {"request_duration_seconds_sum"}
    known.add("request_duration_seconds_count")
    assert used <= known
    assert {"steady_moves", "plan_moves", "plan_jobs"} <= used


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_accepts_the_metrics_and_the_rules(tmp_path: Path) -> None:
    """Prometheus' promtool accepts the metrics and the rules for alerts."""
    log = tmp_path / "log"
    run(f"--log={log}", REQUEST)
    text = printed("metrics", f"--log={log}", CLUSTER)
    subprocess.run(["promtool", "check", "metrics"], input=text.encode(), check=True)
    rules = Path("docs/examples/ganeti-alerts.yml").resolve()
    subprocess.run(["promtool", "check", "rules", str(rules)], check=True)
