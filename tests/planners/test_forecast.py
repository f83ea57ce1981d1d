"""``iallocator capacity --replay``: how many more like those of the past fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from tests.builders import allocate, as_bytes, cluster
from tests.schemas import conforms

Json = dict[str, Any]
Output = pytest.CaptureFixture[str]


def forecast(folder: Path, capsys: Output, sizes: list[int], *words: str) -> Json:
    """Return what is forecast for two empty nodes of 8000 MiB after requests of these sizes."""
    empty = cluster(2, memory=8000)
    (folder / "past").mkdir(exist_ok=True)
    for number, memory in enumerate(sizes):
        asked = allocate(empty, memory=memory, disk_template="rbd")
        (folder / "past" / f"{number}.json").write_bytes(as_bytes(asked))
    (folder / "now.json").write_bytes(as_bytes(empty))
    main(["capacity", "--json", "--n1=off", f"--replay={folder}/past", *words,
          str(folder / "now.json")])  # fmt: skip
    document = json.loads(capsys.readouterr().out)
    conforms(document, "capacity")
    found: Json = document["forecast"]
    return found


def test_forecast_of_equal_sizes_is_as_many_as_fit(tmp_path: Path, capsys: Output) -> None:
    """Three of 2500 MiB on each node, in any order."""
    found = forecast(tmp_path, capsys, [2500])
    assert (found["asked"], found["counts"], found["reasons"]) == (1, [6] * 9, ["FailMem"] * 9)


def test_forecast_of_several_sizes_has_a_range(tmp_path: Path, capsys: Output) -> None:
    """The order matters; the same orders each time, and none holds more than the memory."""
    found = forecast(tmp_path, capsys, [500, 1000, 5000])
    assert found["lowest"] < found["highest"]
    assert found["lowest"] <= found["median"] <= found["highest"]
    assert found["counts"] == forecast(tmp_path, capsys, [500, 1000, 5000])["counts"]
    assert found["highest"] <= 2 * 8000 // 500


def test_forecast_ends_at_the_limit(tmp_path: Path, capsys: Output) -> None:
    """``--max-length`` holds for each order."""
    assert forecast(tmp_path, capsys, [100], "-l2")["counts"] == [2] * 9


def test_folder_without_new_instances_is_refused(tmp_path: Path, capsys: Output) -> None:
    """Exit status 2."""
    (tmp_path / "now.json").write_bytes(as_bytes(cluster(2)))
    assert main(["capacity", f"--replay={tmp_path}", str(tmp_path / "now.json")]) == 2
    assert "no request for new instances" in capsys.readouterr().err
