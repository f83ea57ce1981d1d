"""Lives that are kept in a file: what was lived is not lived again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.life import __main__ as program
from benchmarks.life.life import Outcome
from benchmarks.life.records import Job, Records

ONE = Job("drbd", "hail", 0, 800, False)
LIVED = Outcome(800, 108, 2, 3584, 0.875, 3734.25, 0.5, 3)


def test_records_kept_in_a_file_are_read_from_it(tmp_path: Path) -> None:
    """Every member of job and outcome comes back as it was; other jobs are not known."""
    path = tmp_path / "lives.jsonl"
    Records(path).add(ONE, LIVED)
    Records(path).add(ONE._replace(seed=1), LIVED._replace(rejected=9))
    again = Records(path)
    assert ONE in again
    assert again.results([ONE, ONE._replace(seed=1)]) == {
        "drbd": {"hail": [LIVED, LIVED._replace(rejected=9)]}
    }
    for other in ({"seed": 2}, {"mends": True}, {"requests": 10}, {"policy": "off"}):
        assert ONE._replace(**other) not in again


def test_records_without_a_file_are_kept_as_long_as_they_live() -> None:
    """Scenarios and policies stand in the order of the jobs, lives in that of the seeds."""
    records = Records(None)
    jobs = [ONE._replace(policy=policy, seed=seed) for seed in (1, 0) for policy in ("b", "a")]
    for number, job in enumerate(jobs):
        records.add(job, LIVED._replace(lost=number))
    found = records.results(jobs)["drbd"]
    assert list(found) == ["b", "a"]
    assert [one.lost for one in found["b"]] == [0, 2]


def test_records_of_lives_without_later_members_have_their_defaults(tmp_path: Path) -> None:
    """Files from before repairs were told from the rest stay of use."""
    path = tmp_path / "lives.jsonl"
    outcome = {k: v for k, v in LIVED._asdict().items() if k not in ("calm", "broken")}
    path.write_text(json.dumps({"life": list(ONE), "outcome": outcome}) + "\n")
    assert Records(path).results([ONE])["drbd"]["hail"] == [LIVED._replace(calm=1.0, broken=0)]


def test_program_lives_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run with one more seed lives one more; what is in the folder is of both."""
    lived: list[Job] = []

    def lives(job: Job) -> Outcome:
        lived.append(job)
        return LIVED._replace(rejected=job.seed)

    monkeypatch.setattr(program, "_live", lives)
    out = tmp_path / "not" / "there"
    words = ["--only=shared", "--policies=no-new", "--requests=10", "--jobs=1", f"--out={out}"]
    assert program.main(["--seeds=1", *words]) == 0
    assert program.main(["--seeds=2", *words]) == 0
    assert [job.seed for job in lived] == [0, 1]
    assert "| shared | no-new | 800 | 0.5 |" in capsys.readouterr().out
    assert "| shared | no-new | 800 | 0.5 |" in (out / "life-table.md").read_text()
    assert (out / "life.svg").read_text().count("<circle") == 2


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--only=shard", "'shard' is none of drbd, shared, mixed, groups"),
        ("--policies=no-new,", "'' is none of hail, strict, no-new"),
        ("--seeds=0", "'0' is no whole number from 1 on"),
        ("--first=-1", "'-1' is no whole number from 0 on"),
    ],
)
def test_program_with_a_wrong_word_says_what_it_takes(
    word: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is lived."""
    with pytest.raises(SystemExit) as ended:
        program.main([word])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
