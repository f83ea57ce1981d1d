"""Test `capacity --forecast`: the day on which each group is full."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from math import sqrt
from pathlib import Path
from random import Random
from statistics import median, stdev
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.planners.capacity.trend import Trend, trend_of
from iallocator.sources.job_archive import past_demand
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance, policy, rbd, spec
from tests.command import run
from tests.model.make import model_of
from tests.schemas import conforms
from tests.seeds import seeds

DAY = 86400

NOW = datetime(2026, 3, 1, 3, 10, tzinfo=UTC)
AT = f"--now={NOW.isoformat()}"

SIZE = ("--standard-alloc=1g,1g,1", "--tiered-alloc=1g,1g,1", "--disk-template=rbd")


def nodes(count: int = 3, instances: int = 4, **members: Any) -> Json:
    """Return nodes with capacity for seven instances of 1 GiB each, and some such instances."""
    document = cluster(
        count,
        cpus=64,
        instances={f"i{k}": rbd("node1", memory=1024) for k in range(instances)},
        **members,
    )
    document["ipolicy"] = policy(high=spec(4096, 8, 102400, 4, 4))
    for group in document["nodegroups"].values():
        group.pop("ipolicy", None)
    return document


def record(folder: Path, demands: dict[int, dict[str, Json]]) -> Path:
    """Write a history of demand, and return its path.

    `demands` maps days before `NOW` to the demand of each group, by uuid.
    """
    folder.mkdir(exist_ok=True)
    for days, groups in demands.items():
        time = NOW - timedelta(days=days)
        line = json.dumps({"time": time.isoformat(), "groups": groups})
        (folder / f"{time:%Y-%m-%d}.jsonl").write_text(line + "\n")
    return folder


def demand(instances: float, memory: float, disk: float = 0, vcpus: float = 0) -> Json:
    """Return the demand of a group: number of instances, MiB of memory and disk, virtual cpus."""
    return {"instances": instances, "memory": memory, "disk": disk, "vcpus": vcpus}


def growing(per_day: float, days: int = 20, last: float = 4096) -> dict[int, dict[str, Json]]:
    """Return a history of memory that grows by `per_day` MiB each day, up to `last` MiB now."""
    return {
        k: {"uuid-default": demand(4, last - k * per_day, 0, 4 - k / 100)}
        for k in range(days, 0, -1)
    }


def forecast(document: Json, folder: Path, *words: str) -> Json:
    """Return the document of `capacity --forecast` with the history in `folder`."""
    given = ("capacity", "--json", "--forecast", f"--history={folder}", AT, *SIZE, *words)
    done = run(*given, stdin=as_bytes(document))
    assert done.returncode == 0, done.stderr.decode()
    answer: Json = json.loads(done.stdout)
    conforms(answer, "capacity")
    return answer


@pytest.mark.parametrize("per_day", [64, 128, 192])
def test_steady_growth_gives_the_exact_day(per_day: int, tmp_path: Path) -> None:
    """For steady growth, the forecast names the exact day on which the last instance fits."""
    history = record(tmp_path / "history", growing(per_day))
    found = forecast(nodes(), history, "--n1=strict")
    (group,) = found["trend"]["groups"]
    assert (group["resource"], group["count"]) == ("memory", 10)
    rates = [group[name] for name in ("per_day", "per_day_lowest", "per_day_highest")]
    assert rates == pytest.approx([per_day / 1024] * 3)
    day = f"{NOW + timedelta(days=10 * 1024 / per_day):%Y-%m-%d}"
    assert group["full"] == day
    assert found["trend"]["day_count"] == 21
    assert found["trend"]["since"] == "2026-02-09T03:10:00Z"


@pytest.mark.parametrize("per_day", [0, -128])
def test_group_that_does_not_grow_has_no_day(per_day: int, tmp_path: Path) -> None:
    """For a demand that is constant or shrinks, the forecast has no day."""
    history = record(tmp_path / "history", growing(per_day))
    (group,) = forecast(nodes(), history)["trend"]["groups"]
    assert (group["full"], group["earliest"], group["latest"]) == (None, None, None)
    text = run("capacity", "--forecast", f"--history={history}", AT, *SIZE, stdin=as_bytes(nodes()))
    assert "not within ten years" in text.stdout.decode()


def test_full_group_is_full_today(tmp_path: Path) -> None:
    """If no instance fits, the forecast names the day of the cluster file."""
    history = record(tmp_path / "history", growing(128))
    (group,) = forecast(nodes(2, 7), history, "--n1=strict")["trend"]["groups"]
    assert (group["count"], group["full"]) == (0, "2026-03-01")


def test_resource_that_is_short_decides(tmp_path: Path) -> None:
    """The forecast uses the growth of the resource that is short, not that of others."""
    document = nodes(2, 0, disk=10240)
    rows = {k: {"uuid-default": demand(1, 9e5 - 9e3 * k, 9000 - 100 * k)} for k in range(20, 0, -1)}
    history = record(tmp_path / "history", rows)
    document["instances"]["a"] = instance("node1", disk_template="plain", memory=128)
    document["instances"]["a"] |= {"disk_space_total": 9000, "disks": [{"size": 9000}]}
    document["nodes"]["node1"]["free_disk"] -= 9000
    document["nodes"]["node1"]["free_memory"] -= 128
    words = ("--disk-template=plain", "--n1=off", "--standard-alloc=1g,256m,1")
    (group,) = forecast(document, history, *words)["trend"]["groups"]
    assert (group["resource"], group["count"]) == ("disk", 10)
    assert group["per_day"] == pytest.approx(100 / 1024)


def test_other_resource_that_is_used_up_sooner_is_named(tmp_path: Path) -> None:
    """If instances differ from the standard size, another resource may be used up before the day.

    Disk is short for the standard instances. The disks of existing instances do not grow, but their
    memory does.
    """
    document = nodes(instances=4)
    free = sum(one["free_memory"] for one in document["nodes"].values())
    words = ("--disk-template=plain", "--n1=off", "--standard-alloc=60g,256m,1")
    rows = growing(128)
    (group,) = forecast(document, record(tmp_path / "history", rows), *words)["trend"]["groups"]
    assert (group["resource"], group["full"]) == ("disk", None)
    date = f"{NOW + timedelta(days=free / 128):%Y-%m-%d}"
    assert group["used_up_sooner"] == {"resource": "memory", "date": date}
    given = ("capacity", "--forecast", f"--history={tmp_path / 'history'}", AT, *SIZE, *words)
    text = " ".join(run(*given, stdin=as_bytes(document)).stdout.decode().split())
    assert f"default: memory is used up on {date}" in text
    (group,) = forecast(nodes(), tmp_path / "history", "--n1=off")["trend"]["groups"]
    assert (group["resource"], group["used_up_sooner"]) == ("memory", None)


def test_each_group_and_all_together_have_a_day(tmp_path: Path) -> None:
    """The forecast has a day for each group, and one for all groups together."""
    document = cluster({"east": 2, "west": 2}, cpus=64)
    document["ipolicy"] = policy(high=spec(4096, 8, 102400, 4, 4))
    for group in document["nodegroups"].values():
        group.pop("ipolicy", None)
    rows = {
        k: {"uuid-east": demand(0, -k * 1024 + 1e5), "uuid-west": demand(0, -k * 512 + 1e5)}
        for k in range(20, 0, -1)
    }
    for name in ("east", "west"):
        size = {"memory": 100_000}
        document["instances"][f"old-{name}"] = rbd("node1") | size
        document["instances"][f"old-{name}"]["nodes"] = ["node1" if name == "east" else "node3"]
        document["instances"][f"old-{name}"]["admin_state"] = "down"
    history = record(tmp_path / "history", rows)
    trend = forecast(document, history, "--n1=off")["trend"]
    east, west = trend["groups"]
    assert [one["per_day"] for one in (east, west)] == pytest.approx([1, 0.5])
    whole = trend["all_groups"]
    assert whole["per_day"] == pytest.approx(1.5)
    assert whole["count"] == east["count"] + west["count"] == 14
    assert east["full"] < whole["full"] < west["full"]
    (only,) = forecast(document, history, "--n1=off", "-Gwest")["trend"]["groups"]
    assert only["full"] == west["full"]


def test_purchase_that_lasts_longest_per_cost_is_first(tmp_path: Path) -> None:
    """The forecast lists the purchase first that lasts longest for its cost."""
    history = record(tmp_path / "history", growing(128))
    bought = ["--add-nodes=1:100g,8g,64,cost=2", "--add-nodes=3:100g,8g,64,cost=1"]
    found = forecast(nodes(), history, "--n1=strict", *bought)["purchases"]
    assert [one["days_gained"] for one in found] == pytest.approx([168, 56])
    assert [one["days_per_cost"] for one in found] == pytest.approx([56, 28])
    assert found[0]["full"] == f"{NOW + timedelta(days=248):%Y-%m-%d}"


def test_run_with_a_history_adds_its_totals(tmp_path: Path) -> None:
    """`--history` appends the totals of the cluster; it warns of damaged lines, and skips them."""
    folder = tmp_path / "history"
    plain = run("capacity", *SIZE, stdin=as_bytes(nodes()))
    with_it = run("capacity", f"--history={folder}", AT, *SIZE, stdin=as_bytes(nodes()))
    assert (with_it.returncode, with_it.stdout) == (0, plain.stdout)
    (file,) = folder.iterdir()
    assert file.name == "2026-03-01.jsonl"
    assert json.loads(file.read_text()) == {
        "time": "2026-03-01T03:10:00Z",
        "groups": {"uuid-default": demand(4, 4096, 0, 4)},
    }
    file.write_text(file.read_text() + '{"time": "2026-03-01T0')
    later = run("capacity", f"--history={folder}", "--now=2026-03-01T04:00:00Z", *SIZE,
                stdin=as_bytes(nodes()))  # fmt: skip
    assert b"1 damaged lines or files" in later.stderr
    assert len(file.read_text().splitlines()) == 3


@pytest.mark.parametrize(("days", "step"), [(0, 1), (7, 1), (12, 1), (28, 7)])
def test_too_few_days_are_rejected(days: int, step: int, tmp_path: Path, capsys: Capture) -> None:
    """`--forecast` rejects a history of too few days, and names the number of days required."""
    rows = {k: {"uuid-default": demand(1, 1024)} for k in range(days, 0, -step)}
    folder = record(tmp_path / "history", rows)
    (tmp_path / "doc").write_bytes(as_bytes(nodes()))
    words = ("capacity", "--forecast", f"--history={folder}", AT, str(tmp_path / "doc"))
    assert main(words) == 2
    message = capsys.readouterr().err
    assert ("1 day has data:" if not rows else f"{len(rows) + 1} days have data, within") in message
    assert "at least 8 days with data within 14 days" in message
    assert "this run is recorded" in message
    assert (folder / "2026-03-01.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--forecast", "--forecast needs data"),
        ("--job-archive=x", "needs --forecast"),
        ("--capture=x", "needs --forecast"),
        ("--now=2026-01-01T00:00:00Z", "needs --history"),
        ("--forecast --history={} --compat=hail", "--forecast and --compat hail exclude"),
        ("--forecast --history={} -l3", "--forecast and --max-length exclude"),
        (
            "--forecast --history={} --machine-readable",
            "exclude each other: use --json",
        ),
        ("--forecast --job-archive={}/none", "expected a folder"),
        ("--forecast --job-archive={}", "no job before the time of the cluster"),
        ("--forecast --capture={}/none", "No such file"),
    ],
)
def test_option_without_effect_is_rejected(
    words: str, message: str, tmp_path: Path, capsys: Capture
) -> None:
    """An option that has no effect on a forecast is rejected with exit status 2."""
    given = words.format(*[tmp_path] * words.count("{}")).split()
    assert main(["capacity", "docs/examples/cluster.json", *given]) == 2
    assert message in capsys.readouterr().err


def test_captured_requests_are_a_history(tmp_path: Path) -> None:
    """`--forecast` reads a history also from the clusters in captured requests."""
    calls = tmp_path / "calls"
    calls.mkdir()
    for number, days in enumerate(range(20, 0, -1), start=1):
        document = nodes(instances=0)
        for k in range(21 - days):
            document["instances"][f"i{k}"] = rbd("node1", memory=256)
        time = (NOW - timedelta(days=days)).timestamp()
        name = f"{number:06}"
        (calls / f"{name}.request.json.gz").write_bytes(gzip.compress(as_bytes(document)))
        (calls / f"{name}.call.json").write_text(json.dumps({"time": time, "success": True}))
    (calls / "000021.request.json.gz").write_bytes(b"no request")
    now = nodes(instances=0)
    for k in range(21):
        now["instances"][f"i{k}"] = rbd("node1", memory=256)
    words = ("capacity", "--json", "--forecast", f"--capture={calls}", AT, "--n1=off", *SIZE)
    done = run(*words, stdin=as_bytes(now))
    (group,) = json.loads(done.stdout)["trend"]["groups"]
    assert group["per_day"] == pytest.approx(0.25)


def test_folder_of_documents_is_a_history(tmp_path: Path) -> None:
    """`--forecast` reads requests that another program captured, with the times of their files.

    Answers of the plugin in the same folder are left out without a warning.
    """
    calls = tmp_path / "calls"
    calls.mkdir()
    for days in range(20, -1, -1):
        document = nodes(instances=0)
        for k in range(21 - days):
            document["instances"][f"i{k}"] = rbd("node1", memory=256)
        file = calls / f"{99 - days}-allocate.request.json"
        file.write_bytes(as_bytes(document))
        answer = calls / f"{99 - days}-allocate.response.json"
        answer.write_text('{"success": true, "info": "", "result": []}')
        for path in (file, answer):
            os.utime(path, ((NOW - timedelta(days=days)).timestamp(),) * 2)
    words = ("capacity", "--json", "--forecast", f"--capture={calls}", AT, "--n1=off", *SIZE)
    done = run(*words, str(calls / "99-allocate.request.json"))
    assert not done.stderr
    (group,) = json.loads(done.stdout)["trend"]["groups"]
    assert group["per_day"] == pytest.approx(0.25)


# The archive of jobs


class Life:
    """A random sequence of changes of instances, with the jobs that made the changes."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = Random(f"life/{seed}")
        self.folder = folder
        self.held: dict[str, Json] = {}
        self.number = 0
        self.made = 0

    def job(self, time: float, status: str = "success", **opcode: Any) -> None:
        """Store a job with one opcode in the archive of jobs."""
        self.number += 1
        stamp = [int(time), int(time % 1 * 1e6)]
        place = self.folder / str(self.number // 10)
        place.mkdir(parents=True, exist_ok=True)
        operation = {"input": opcode, "status": status, "result": None, "end_timestamp": stamp}
        (place / f"job-{self.number}").write_text(
            json.dumps({"id": self.number, "ops": [operation], "received_timestamp": stamp})
        )

    def create(self, time: float) -> None:
        """Create an instance on shared storage or drbd."""
        rng = self.rng
        name, template = f"v{self.made}", rng.choice(("rbd", "drbd", "plain"))
        self.made += 1
        memory, vcpus, size = rng.choice((512, 1024)), rng.choice((1, 2)), rng.choice((1024, 4096))
        group = rng.choice(("east", "west"))
        first, second = ("node1", "node2") if group == "east" else ("node3", "node4")
        homes = (first, second) if template == "drbd" else (first,)
        one = instance(*homes, disk_template=template, memory=memory, vcpus=vcpus)
        one |= {"disks": [{"size": size}]}
        one["disk_space_total"] = size + 128 * (template == "drbd")
        self.held[name] = one
        given = {"maxmem": memory, "minmem": memory, "vcpus": vcpus}
        self.job(
            time, OP_ID="OP_INSTANCE_CREATE", instance_name=name, disks=[{"size": size}],
            disk_template=template, pnode=first, beparams=given,
        )  # fmt: skip

    def change(self, time: float) -> None:
        """Remove, rename, resize or grow an instance; some of these jobs fail."""
        name = self.rng.choice(sorted(self.held))
        one = self.held[name]
        kind = self.rng.choice(("remove", "rename", "set", "grow", "fail"))
        if kind == "remove":
            del self.held[name]
            self.job(time, OP_ID="OP_INSTANCE_REMOVE", instance_name=name)
        elif kind == "rename":
            self.held[f"w{self.number}"] = self.held.pop(name)
            self.job(
                time, OP_ID="OP_INSTANCE_RENAME", instance_name=name, new_name=f"w{self.number}"
            )
        elif kind == "set":
            one |= {"memory": one["memory"] + 256, "vcpus": one["vcpus"] + 1}
            given = {"maxmem": one["memory"], "vcpus": one["vcpus"]}
            self.job(time, OP_ID="OP_INSTANCE_SET_PARAMS", instance_name=name, beparams=given)
        elif kind == "grow":
            one["disks"][0]["size"] += 512
            one["disk_space_total"] += 512
            self.job(
                time, OP_ID="OP_INSTANCE_GROW_DISK", instance_name=name, disk=0, amount=512,
                absolute=False,
            )  # fmt: skip
        else:
            self.job(time, "error", OP_ID="OP_INSTANCE_REMOVE", instance_name=name)

    def totals(self) -> list[tuple[str, int, int, int]]:
        """Return group, memory, disk on all nodes, and virtual cpus of each instance, sorted."""
        return sorted(
            (
                "uuid-east" if one["nodes"][0] == "node1" else "uuid-west",
                one["memory"],
                0 if one["disk_template"] == "rbd" else one["disk_space_total"] * len(one["nodes"]),
                one["vcpus"],
            )
            for one in self.held.values()
        )


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_totals_of_the_past_follow_from_the_archive(seed: int, tmp_path: Path) -> None:
    """`past_demand` computes the demand of each past day from the cluster and the archived jobs."""
    life = Life(seed, tmp_path)
    start = NOW.timestamp() // DAY * DAY
    past = []
    for day in range(20, 0, -1):
        moment = start - day * DAY
        for k in range(life.rng.randrange(4)):
            time = moment + 3600 * (k + 1) + life.rng.random()
            if life.held and life.rng.random() < 0.5:
                life.change(time)
            else:
                life.create(time)
        past.append((moment + DAY - 1, life.totals()))
    document = cluster({"east": 2, "west": 2}, memory=10**6, disk=10**7, instances=life.held)
    found = past_demand(str(tmp_path), model_of(document), NOW.timestamp(), 10**6)
    assert (found.damaged, found.unknown) == (0, 0)
    days = [
        (time, sorted((one.group, one.memory, one.disk, one.vcpus) for one in sizes))
        for time, sizes in found.days
    ]
    begun = [(time, totals) for time, totals in past if time > found.days[-1][0]]
    assert list(reversed(days))[-len(begun) :] == begun


def test_archive_is_read_for_the_forecast(tmp_path: Path, capsys: Capture) -> None:
    """`--forecast` reads the archive of jobs, and reports damaged files."""
    life = Life(0, tmp_path / "archive")
    start = NOW.timestamp()
    document = nodes(instances=0)
    for day in range(20, 0, -1):
        name = f"n{day}"
        document["instances"][name] = rbd("node1", memory=512)
        life.job(
            start - day * DAY, OP_ID="OP_INSTANCE_CREATE", instance_name=name, disks=[],
            disk_template="rbd", pnode="node1", beparams={"memory": 512, "vcpus": 1},
        )  # fmt: skip
    (tmp_path / "archive" / "job-900").write_text("{")
    (tmp_path / "doc").write_bytes(as_bytes(document))
    words = ["capacity", "--json", "--forecast", f"--job-archive={tmp_path / 'archive'}", AT]
    assert main([*words, "--n1=off", *SIZE, str(tmp_path / "doc")]) == 0
    out, err = capsys.readouterr()
    (group,) = json.loads(out)["trend"]["groups"]
    assert group["per_day"] == pytest.approx(0.5, abs=0.02)
    assert "1 file cannot be read" in err


def test_removed_instance_without_a_size_has_the_mean_size(tmp_path: Path) -> None:
    """A removed instance without a known size counts with the mean size of present instances."""
    life = Life(0, tmp_path)
    life.job(NOW.timestamp() - 5 * DAY, OP_ID="OP_INSTANCE_REMOVE", instance_name="gone")
    present = model_of(nodes(instances=3))
    found = past_demand(str(tmp_path), present, NOW.timestamp(), 10**6)
    assert found.unknown == 1
    assert [len(sizes) for _, sizes in found.days] == [3, 3, 3, 3, 3, 4]
    assert {one.memory for one in found.days[-1][1]} == {1024}


# The trend


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_trend_equals_the_definition(seed: int) -> None:
    """The slope of the trend is the median slope of all pairs of points.

    The range of the slope follows Student's t distribution, for at least four parts of the history.
    """
    rng = Random(f"trend/{seed}")
    days = sorted(rng.sample(range(40), rng.randint(8, 20)) + [40, 60])
    points = [(float(day), rng.gauss(day / 3, 5)) for day in days]
    found = trend_of(points)
    slopes = [(y - x) / (t - s) for (s, x), (t, y) in combinations(points, 2)]
    assert found.slope == pytest.approx(median(slopes))
    span = days[-1] - days[0]
    parts = max(4, span // 7)
    length = span / parts

    def at(day: float) -> float:
        after = next(k for k, (t, _) in enumerate(points) if t >= day - 1e-9)
        (s, x), (t, y) = points[max(after - 1, 0)], points[max(after, 1)]
        return x + (y - x) * (day - s) / (t - s)

    ends = [at(days[0] + k * length) for k in range(parts + 1)]
    growths = [(ends[k + 1] - ends[k]) / length for k in range(parts)]
    quantile = {4: 2.3534, 5: 2.1318, 6: 2.0150, 7: 1.9432, 8: 1.8946}[parts]
    half = quantile * stdev(growths) / sqrt(parts)
    assert found.highest - found.slope == pytest.approx(half, rel=0.004)
    assert found.slope - found.lowest == pytest.approx(half, rel=0.004)


def test_single_jump_changes_the_trend_little() -> None:
    """Fifty instances that exist for one week only hardly change the slope of the trend."""
    points = [(float(day), day / 2 + (50 if 20 <= day < 27 else 0)) for day in range(60)]
    assert trend_of(points).slope == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("points", [7, 8])
def test_too_few_points_have_no_trend(points: int) -> None:
    """The trend needs at least eight points and 14 days; fewer are rejected."""
    with pytest.raises(ValueError, match="too few"):
        trend_of([(2.0 * day if points == 7 else day, 1.0) for day in range(points)])


def arrivals(rng: Random) -> Iterator[float]:
    """Yield random changes of one day each: instances arrive and leave independently."""
    while True:
        yield sum(rng.choice((1, 2, 4)) for _ in range(rng.choice((0, 0, 1, 1)))) - sum(
            rng.choice((1, 2, 4)) for _ in range(rng.choice((0, 0, 0, 1)))
        )


TRUE_GROWTH = (0.5 - 0.25) * 7 / 3


def covered(days: int, range_of: Callable[[list[tuple[float, float]]], Trend]) -> float:
    """Return the share of 150 random histories with their true growth in the computed range."""
    hits = 0
    for seed in range(150):
        changes, total, points = arrivals(Random(f"cover/{seed}")), 0.0, []
        for day in range(days):
            total += next(changes)
            points.append((float(day), total))
        found = range_of(points)
        hits += found.lowest <= TRUE_GROWTH <= found.highest
    return hits / 150


@pytest.mark.parametrize("days", [15, 30, 60])
def test_range_contains_the_true_growth(days: int) -> None:
    """The range of 90 % contains the true growth in at least 80 % of random histories."""
    assert 0.8 <= covered(days, trend_of) <= 0.99


def test_page_and_text_have_the_day(tmp_path: Path) -> None:
    """The text and the page of a forecast have the day of each group."""
    pytest.importorskip("jinja2", reason="the template library is not installed")
    history = record(tmp_path / "history", growing(128))
    page = tmp_path / "page.html"
    words = ("--n1=strict", f"--html={page}", "--add-nodes=1:100g,8g,64")
    done = run("capacity", "--forecast", f"--history={history}", AT, *SIZE, *words,
               stdin=as_bytes(nodes()))  # fmt: skip
    day = f"{NOW + timedelta(days=80):%Y-%m-%d}"
    assert day in done.stdout.decode()
    assert day in page.read_text()


def test_metrics_have_the_day_on_which_a_group_is_full(tmp_path: Path) -> None:
    """The metrics have the day on which a group is full, in seconds since 1970."""
    folder = record(tmp_path / "totals", growing(102.4))
    file = tmp_path / "metrics"
    (row,) = forecast(nodes(), folder, f"--metrics={file}")["trend"]["groups"]
    lines = file.read_text().splitlines()
    for bound, key in (("expected", "full"), ("earliest", "earliest")):
        day = datetime.fromisoformat(f"{row[key]}T00:00:00+00:00").timestamp()
        labels = f'{{group="default",bound="{bound}"}}'
        assert f"iallocator_capacity_full_timestamp_seconds{labels} {day:.0f}" in lines


def test_metrics_without_a_forecast_have_no_day(tmp_path: Path) -> None:
    """The metrics have no day on which a group is full if its demand does not grow."""
    folder = record(tmp_path / "totals", growing(0))
    file = tmp_path / "metrics"
    (row,) = forecast(nodes(), folder, f"--metrics={file}")["trend"]["groups"]
    assert row["full"] is None
    assert 'bound="expected"' not in file.read_text()
