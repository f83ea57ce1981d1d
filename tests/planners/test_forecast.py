"""Test `capacity --replay`: how many instances like past ones still fit."""

from __future__ import annotations

import gzip
import json
import os
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.files import read_file
from tests.aliases import Capture
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, rbd
from tests.command import respond, run
from tests.schemas import conforms


def modest(now: Json) -> Json:
    """Return the cluster `now` with a policy of small sizes, so that few sizes are tried."""
    now["ipolicy"]["minmax"][0]["max"] |= {"memory-size": 16384, "disk-size": 102400}
    return now


def forecast(folder: Path, sizes: list[int], *words: str) -> Json:
    """Return the forecast for two nodes of 8000 MiB after requests of `sizes` MiB."""
    empty = cluster(2, memory=8000)
    (folder / "past").mkdir(exist_ok=True, parents=True)
    for number, memory in enumerate(sizes):
        asked = allocate_rbd(empty, memory=memory)
        (folder / "past" / f"{number}.json").write_bytes(as_bytes(asked))
    now = as_bytes(modest(empty))
    words = ("--json", "--n1=off", f"--replay={folder}/past", *words)
    document = json.loads(run("capacity", *words, stdin=now).stdout)
    conforms(document, "capacity")
    found: Json = document["forecast"]
    return found


def test_forecast_of_equal_sizes_is_as_many_as_fit(tmp_path: Path) -> None:
    """The forecast for requests of one size is the number of such instances that fit."""
    found = forecast(tmp_path, [2500])
    assert (found["instance_count"], found["counts"], found["reasons"]) == (
        1,
        [6] * 9,
        ["FailMem"] * 9,
    )


def test_forecast_of_several_sizes_has_a_range(tmp_path: Path) -> None:
    """The forecast for several sizes is a range, with repeatable orders of the requests."""
    found = forecast(tmp_path, [500, 1000, 5000])
    assert found["lowest"] < found["highest"]
    assert found["lowest"] <= found["median"] <= found["highest"]
    assert found["counts"] == forecast(tmp_path, [500, 1000, 5000])["counts"]
    assert found["highest"] <= 2 * 8000 // 500


def test_forecast_ends_at_the_limit(tmp_path: Path) -> None:
    """`--max-length` limits the number of instances in each order of a forecast."""
    assert forecast(tmp_path, [100], "-l2")["counts"] == [2] * 9


def test_folder_without_new_instances_is_rejected(tmp_path: Path, capsys: Capture) -> None:
    """`capacity --replay` rejects a folder without requests for new instances, with status 2."""
    (tmp_path / "now.json").write_bytes(as_bytes(cluster(2)))
    assert main(["capacity", f"--replay={tmp_path}", str(tmp_path / "now.json")]) == 2
    assert "no request for new instances" in capsys.readouterr().err


def replayed(folder: Path, now: Json, requests: list[Json], *words: str) -> tuple[Json, str]:
    """Return the forecast for the cluster `now` after `requests`, and what stderr has."""
    past = folder / "asked"
    past.mkdir()
    for number, request in enumerate(requests):
        (past / f"{number}.json").write_bytes(as_bytes({**cluster(1), "request": request}))
    done = run("capacity", "--json", f"--replay={past}", *words, stdin=as_bytes(modest(now)))
    return json.loads(done.stdout)["forecast"], done.stderr.decode()


def asking(**members: Any) -> Json:
    """Return a request for one instance on shared storage."""
    request: Json = allocate_rbd(cluster(1), **members)["request"]
    return request


def test_forecast_keeps_to_the_networks_of_the_requests(tmp_path: Path) -> None:
    """A forecast fills only the nodes of a group with the network that the requests name."""
    now = cluster({"east": 2, "west": 2}, memory=8000)
    now["nodegroups"]["uuid-west"]["networks"] = ["net-9"]
    nics = [{"mac": "auto", "ip": None, "network": "net-9"}]
    found, _ = replayed(tmp_path, now, [asking(memory=2500, nics=nics)], "--n1=off")
    assert found["counts"] == [6] * 9


def test_forecast_keeps_separated_instances_apart(tmp_path: Path) -> None:
    """A forecast keeps separated instances apart: three nodes take three of them."""
    request = asking(memory=100, tags=["iallocator:separate:must:web"])
    found, _ = replayed(tmp_path, cluster(3, memory=8000), [request], "--n1=off")
    assert (found["counts"], found["reasons"]) == ([3] * 9, ["FailTags"] * 9)


@pytest.mark.parametrize("by", ["request", "group", "option"])
def test_forecast_uses_the_strategy_in_effect(by: str, tmp_path: Path) -> None:
    """A forecast places instances by the strategy in effect, from option, tag or request."""
    slots = {f"node{k}": {"tags": ["iallocator:utilization:slots:1"]} for k in (1, 2)}
    now = cluster(2, memory=8000, changes=slots)
    request = asking(memory=100, tags=["iallocator:utilization:slots:1"])
    if by == "request":
        request["strategy"] = "pacemaker-utilization"
    if by == "group":
        now["nodegroups"]["uuid-default"]["tags"] = ["iallocator:strategy:pacemaker-utilization"]
    words = ["--strategy=pacemaker-utilization"] if by == "option" else []
    found, _ = replayed(tmp_path, now, [request], "--n1=off", *words)
    assert found["counts"] == [2] * 9


def test_forecast_keeps_to_the_nodes_and_groups_that_requests_name(tmp_path: Path) -> None:
    """A forecast places instances on the nodes and groups that the requests name.

    Batches are included; a request with an unknown group is skipped and reported.
    """
    now = cluster({"east": 2, "west": 2}, memory=8000)
    named = {**asking(memory=2500), "group_name": "west", "restrict-to-nodes": ["node3"]}
    gone = {**asking(memory=2500), "group_name": "north"}
    batch = {"type": "multi-allocate", "instances": [named, named | {"name": "other"}]}
    found, output = replayed(tmp_path, now, [batch, gone], "--n1=off")
    assert (found["instance_count"], found["counts"]) == (2, [3] * 9)
    assert "there is no group north any more; left out" in output


def test_forecast_of_a_cluster_without_n1_equals_requests(tmp_path: Path) -> None:
    """A forecast places instances in a cluster that is not N+1 compliant, as requests do."""
    full = {"old": rbd("node1", memory=7000),
            "other": rbd("node2", memory=4000)}  # fmt: skip
    now = cluster(2, memory=8000, instances=full)
    found, _ = replayed(tmp_path, now, [asking(memory=500)], "--n1=no-new")
    assert found["lowest"] == found["highest"] > 0


@pytest.mark.parametrize("seed", range(12))
def test_forecast_equals_a_batch_in_the_same_order(seed: int, tmp_path: Path) -> None:
    """A forecast places as many instances as ``multi-allocate`` does in the same order."""
    rng = Random(f"forecast/{seed}")
    template = rng.choice(["rbd", "drbd", "plain"])
    tags = [[], ["iallocator:separate:should:web"], ["iallocator:separate:must:web"]]
    asked = [
        allocate(cluster(1), disk_template=template, memory=rng.choice([900, 1700, 3100]),
                 tags=rng.choice(tags))["request"] | rng.choice([{}, {"group_name": "west"}])
        for _ in range(3)
    ]  # fmt: skip
    for number, one in enumerate(asked):
        one["name"] = f"asked{number}"
    now = cluster({"east": 3, "west": 3}, memory=rng.choice([5000, 8000]))
    found, _ = replayed(tmp_path, now, asked)
    for number in (0, 4):
        count = found["counts"][number] + 1
        order = islice(enumerate(_order(asked, number)), count)
        batch = [one | {"name": f"n{k}"} for k, one in order]
        now["request"] = {"type": "multi-allocate", "instances": batch}
        answered = respond(now, "--exact-search=no")
        assert answered["result"][1] == [f"n{count - 1}"]


def _order(asked: list[Json], number: int) -> Any:
    """Yield the requests in the order number `number`, again and again."""
    rng = Random(number)
    while True:
        yield from rng.sample(asked, len(asked))


def test_strategy_without_requests_is_rejected(tmp_path: Path, capsys: Capture) -> None:
    """`capacity` without requests rejects a strategy, as it places sizes by score."""
    (tmp_path / "now.json").write_bytes(as_bytes(cluster(2)))
    assert main(["capacity", "--strategy=affinity", str(tmp_path / "now.json")]) == 2
    assert "--strategy is for requests (--replay)" in capsys.readouterr().err


def test_forecast_reports_a_size_that_never_fits(tmp_path: Path) -> None:
    """A forecast reports the orders that end at a size that fits on no empty node."""
    found = forecast(tmp_path, [500, 50000])
    assert found["rejected_initially"] == len(found["counts"]) == 9
    assert set(found["counts"]) == {0, 1}
    assert forecast(tmp_path / "fits", [500])["rejected_initially"] == 0


def test_forecast_reads_compressed_files_among_others(tmp_path: Path, capsys: Capture) -> None:
    """`capacity --replay` reads compressed files too, whatever their names."""
    past = tmp_path / "past"
    past.mkdir()
    for name, memory in (("0.json.gz", 900), ("1.json", 1700)):
        raw = as_bytes({**cluster(1), "request": asking(memory=memory)})
        (past / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    (tmp_path / "now.json").write_bytes(as_bytes(modest(cluster(1, memory=8000))))
    main(["capacity", "--json", "--n1=off", f"--replay={past}", str(tmp_path / "now.json")])
    found = json.loads(capsys.readouterr().out)["forecast"]
    assert found["instance_count"] == 2
    assert set(found["counts"]) <= {5, 6}


def test_forecast_leaves_damaged_files_out_by_name(tmp_path: Path, capsys: Capture) -> None:
    """`capacity --replay` skips damaged files, and names them on stderr."""
    past = tmp_path / "past"
    past.mkdir()
    (past / "cut.json").write_text('{"request": {"type"')
    (past / "bytes.json").write_bytes(b"\x00\xff")
    (past / "packed.json").write_bytes(b"\x1f\x8bxxxx")
    (past / "list.json").write_text("[]")
    asked = allocate_rbd(cluster(2, memory=8000), memory=2500)
    (past / "good.json").write_bytes(as_bytes(asked))
    (tmp_path / "now.json").write_bytes(as_bytes(cluster(2, memory=8000)))
    words = ["capacity", "--n1=off", f"--replay={past}", str(tmp_path / "now.json")]
    assert main(words) == 0
    reported = capsys.readouterr()
    assert "by 1 earlier request for an instance" in reported.out
    assert "6 more fit: the median of 9 orders, from 6 to 6" in reported.out
    left_out = [line for line in reported.err.splitlines() if line.endswith("left out")]
    assert len(left_out) == 4
    assert all(any(name in line for line in left_out)
               for name in ("cut.json", "bytes.json", "packed.json", "list.json"))  # fmt: skip


def test_forecast_does_not_wait_for_a_writer_of_a_pipe(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`capacity --replay` skips an entry that is not a regular file, without opening it."""
    past = tmp_path / "past"
    past.mkdir()
    os.mkfifo(past / "pipe.json")
    (past / "folder.json").mkdir()
    (past / "good.json").write_bytes(as_bytes(allocate(cluster(2), memory=2500)))
    (tmp_path / "now.json").write_bytes(as_bytes(modest(cluster(2, memory=8000))))
    opened: list[str] = []

    def reading(path: str, limit: int) -> bytes:
        opened.append(Path(path).name)
        return b"" if path.endswith("pipe.json") else read_file(path, limit)

    monkeypatch.setattr("iallocator.commands.earlier_requests.read_file", reading)
    assert main(["capacity", f"--replay={past}", str(tmp_path / "now.json")]) == 0
    assert opened == ["good.json"]
    left_out = [line for line in capsys.readouterr().err.splitlines() if "no file" in line]
    assert [Path(line.split(": ")[1]).name for line in left_out] == ["folder.json", "pipe.json"]
