"""Test `repair` against harep on a simulated running cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import which

import pytest

from iallocator.cli import main
from iallocator.model.tags import REPAIR_TYPES
from iallocator.tags.autorepair import AUTOREPAIR_PREFIX
from tests.aliases import Capture
from tests.builders import Json
from tests.execution.running import Running
from tests.live.cluster_answers import instance, node, rapi_answers
from tests.live.fakes import fake_luxi
from tests.paths import ROOT

pytestmark = pytest.mark.skipif(which("harep") is None, reason="harep is not installed")

JOBS = {7: "success", 8: "error", 9: "running", 10: "queued", 11: "canceled", 12: "success"}
SUSPENSIONS = ("", ":", ":1", ":99999999999", ":soon", ":0x10", "ed", ":-5")
RESULTS = ("success", "failure", "enoperm", "maybe")


def _permissions(random: Random, chance: float) -> Iterator[str]:
    """Yield random tags that permit or suspend repairs, for one object."""
    if random.random() < chance:
        yield from random.sample((*REPAIR_TYPES, "nonsense", "Failover"), random.choice((1, 1, 2)))
    if random.random() < chance / 3:
        yield f"suspend{random.choice(SUSPENSIONS)}"


def _records(random: Random) -> Iterator[str]:
    """Yield random tags that record repairs, some of them invalid."""
    for identity in random.sample("abc", random.choice((0, 0, 0, 1, 1, 2, 3))):
        kind = random.choice((*REPAIR_TYPES, *REPAIR_TYPES, "other"))
        jobs = "+".join(map(str, random.sample(sorted(JOBS), random.choice((0, 1, 1, 2)))))
        seconds = random.choice((10, 20, 30, 40))
        for _ in range(random.choice((1, 1, 2))):
            if random.random() < 0.4:
                yield f"pending:{kind}:{identity}:{seconds}:{jobs}"
            else:
                result = random.choice(RESULTS)
                yield f"result:{kind}:{identity}:{seconds + 5}:{result}:{jobs}"


def _tags(words: Iterator[str]) -> list[str]:
    return [AUTOREPAIR_PREFIX + word for word in dict.fromkeys(words)]


def _scenario(random: Random) -> Json:
    """Return two groups with free capacity and offline nodes, and instances of all kinds."""
    answers = rapi_answers()
    answers["nodes"] = [
        node(
            f"node{n}",
            **{"group.uuid": "uuid-one" if n < 9 else "uuid-two"},
            offline=n in (2, 3, 9),
        )
        for n in range(1, 15)
    ]
    answers["info"] |= {"master": "node1", "tags": _tags(_permissions(random, 0.5))}
    for group in answers["groups"]:
        group["tags"] = _tags(_permissions(random, 0.4))
    answers["instances"] = [_instance(random, n) for n in range(random.randint(3, 7))]
    return answers


def _instance(random: Random, number: int) -> Json:
    """Return an instance on nodes of one group, with tags or without."""
    group = random.choice(((1, 2, 3, 4, 5), (9, 10, 11)))
    nodes = [f"node{n}" for n in random.sample(group, 2)]
    template = random.choice(("drbd", "drbd", "plain", "diskless", "sharedfile"))
    words = [*_permissions(random, 0.5), *_records(random)]
    random.shuffle(words)
    found = instance(f"i{number}", *(nodes if template == "drbd" else nodes[:1]), memory=64)
    return {
        **found, "tags": _tags(iter(words)), "disk_template": template, "forthcoming": False,
        "nic.networks": [],
    }  # fmt: skip


def _playing(random: Random) -> Running:
    scenario = Running(_scenario(random))
    scenario.held = True
    for number in range(1, max(JOBS) + 1):
        status = JOBS.get(number, "success")
        scenario.jobs[number] = {
            "ops": [{"OP_ID": "OP_TEST_DELAY"}],
            "after": [],
            "status": status,
            "done": 0,
        }
    return scenario


def _plain(tag: str) -> str:
    """Return a tag without the identifier and the time of a repair that has just begun."""
    parts = tag[len(AUTOREPAIR_PREFIX) :].split(":")
    if len(parts) > 2 and len(parts[2]) > 1:
        parts[2] = "new"
    if len(parts) > 3 and int(parts[3]) > 1000:
        parts[3] = "now"
    return ":".join(parts)


def _of_harep(path: str) -> Json | None:
    """Return counts, repairs and changed tags from harep's output; None if harep fails."""
    done = subprocess.run(
        ["harep", f"-L{path}", "--dry-run"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        assert "rror" in done.stderr, done
        return None
    counts = dict(
        re.findall(r"^(Healthy|Failure|Pending repair|Needs repair): (\d+)$", done.stdout, re.M)
    )
    repairs = re.findall(r"^Executing Ar(\w+) repair on (\S+)$", done.stdout, re.M)
    changes = re.findall(
        r"^>>> (Adding|Removing) the following tags? (?:to|from) (\S+):\n((?:\s*\".*\"\n?)+)",
        done.stdout,
        re.M,
    )
    reported = [
        (verb[:3], name, tag) for verb, name, tags in changes for tag in re.findall(r'"(.*)"', tags)
    ]
    return {
        "counts": {name: int(count) for name, count in counts.items()},
        "repairs": {name: re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower() for kind, name in repairs},
        "tags": {
            (verb, name, _plain(tag)) for verb, name, tag in reported if _lasts(name, tag, reported)
        },
    }


def _lasts(name: str, tag: str, reported: list[tuple[str, str, str]]) -> bool:
    """Return whether no other change of the run reverts the change of `tag`."""
    return not {("Add", name, tag), ("Rem", name, tag)} <= set(reported)


def _of_ours(path: str, capsys: Capture) -> Json | None:
    """Return counts, repairs and changed tags from `repair --json`; None if it fails."""
    status = main(["repair", f"-L{path}", "--json"])
    out = capsys.readouterr().out
    if status == 2:
        return None
    document = json.loads(out)
    changes = {"Add": "add", "Rem": "remove"}
    return {
        "counts": document["state_counts"],
        "repairs": {one["instance"]: one["repair"] for one in document["instances"] if "to" in one},
        "tags": {
            (verb, one["instance"], _plain(tag))
            for one in document["instances"]
            for verb, key in changes.items()
            for tag in one.get("tag_changes", {key: ()})[key]
        },
    }


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 300))]
)
def test_repair_does_what_harep_does(seed: int, tmp_path: Path, capsys: Capture) -> None:
    """`repair` has the states, repairs and tags of harep if all instances fit.

    If a repair has several tags, harep keeps the ineffective ones.
    """
    with fake_luxi(tmp_path, _playing(Random(seed)).answer) as server:
        ours, theirs = _of_ours(server.path, capsys), _of_harep(server.path)
    if ours is not None and theirs is not None:
        more = ours["tags"] - theirs["tags"]
        assert {verb for verb, _, _ in more} <= {"Rem"}
        ours["tags"] -= {one for one in more if one[2].split(":")[2] in "abc"}
    assert ours == theirs


def _text_of(command: list[str], path: str) -> tuple[int, str, str]:
    """Return status and output without jobs, and without identifiers and times of new repairs."""
    done = subprocess.run(
        [*command, f"-L{path}", "--dry-run"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    out = re.sub(r"[0-9a-f]{8}-[-0-9a-f]{27}", "ID", done.stdout)
    out = re.sub(r":1[0-9]{9}:", ":NOW:", out)
    return done.returncode, re.sub(r"(?m)^jobs: .*$", "JOBS", out), done.stderr


@pytest.mark.parametrize(
    "seed",
    [1, 5, 7, 13, 28, 34, *(pytest.param(n, marks=pytest.mark.slow) for n in range(40, 300))],
)
def test_link_harep_prints_what_harep_prints(seed: int, tmp_path: Path) -> None:
    """The link `harep` prints the output of harep; with ``--dry-run``, opcodes name new nodes."""
    own = [sys.executable, "-m", "iallocator", "htools", "harep"]
    with fake_luxi(tmp_path, _playing(Random(seed)).answer) as server:
        assert _text_of(own, server.path) == _text_of(["harep"], server.path)
