"""Test the configuration file: its effects and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.options import settings as options
from tests.aliases import Capture
from tests.builders import allocate_rbd, as_bytes, cluster, rbd


class Desk:
    """A folder with a request and a configuration file, in which commands run."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        self.request = folder / "request.json"
        self.file = folder / "iallocator.conf"
        self._capsys = capsys
        self.put()

    def put(self, **changes: Any) -> None:
        """Replace the request by one on a cluster with the members `changes`."""
        old = {"old": rbd("node1")}
        document = {**allocate_rbd(cluster(3, instances=old)), **changes}
        self.request.write_bytes(as_bytes(document))

    def output_of(self, text: str, *words: str) -> tuple[int, str, str]:
        """Return the exit status, stdout and stderr of a command with this configuration."""
        self.file.write_text(text)
        status = main([*words, f"--config={self.file}"])
        streams = self._capsys.readouterr()
        return status, streams.out, streams.err.replace(str(self.file), "FILE")

    def settings(self, text: str, *words: str) -> dict[str, tuple[Any, str]]:
        """Return the settings that ``config`` prints: name -> value and origin."""
        status, out, _ = self.output_of(text, "config", "--json", str(self.request), *words)
        assert status == 0
        rows = json.loads(out.replace(str(self.file), "FILE"))["settings"]
        return {row["name"]: (row["value"], row["origin"]) for row in rows}


@pytest.fixture
def desk(tmp_path: Path, capsys: Capture) -> Desk:
    """Return a desk, a folder with a request and a configuration file, for one test."""
    return Desk(tmp_path, capsys)


def test_file_sets_options_that_no_other_source_sets(desk: Desk) -> None:
    """Tags override the configuration file, and the command line overrides tags and the file.

    ``--optimal=no`` clears a flag that the file sets.
    """
    desk.put(cluster_tags=["iallocator:strategy:affinity"])
    text = 'n1 = "off"\nstrategy = "pacemaker-minimal"\ntop = 3\noptimal = true\nseed = 4\n'
    found = desk.settings(text, "--top=5", "--optimal=no")
    assert found["n1"] == ("off", "FILE")
    assert found["seed"] == (4, "FILE")
    assert found["strategy"] == ("affinity", "tag of the cluster: iallocator:strategy:affinity")
    assert found["top"] == (5, "command line")
    assert found["optimal"] == (False, "command line")


def test_file_changes_answers_of_requests_and_their_explanations(desk: Desk) -> None:
    """The configuration file applies to the plugin, to explain, and to commands with a table."""
    assert len(json.loads(desk.output_of("top = 2", str(desk.request))[1])["solutions"][0]) > len(
        json.loads(desk.output_of("", str(desk.request))[1])["solutions"][0]
    )
    for text in ("top = 2", "top = 1\n[explain]\ntop = 2\n[balance]\nnonsense = 3"):
        reported = json.loads(desk.output_of(text, "explain", "--json", str(desk.request))[1])
        assert len(reported["response"]["solutions"][0]["placements"]) == 2


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ('n1 = "off"', (), "off"),
        ("no-capacity-checks = true", (), "off"),
        ('compat = "hail"', (), "strict"),
        ('compat = "hail"\nn1 = "no-new"', (), "no-new"),
        ('n1 = "off"', ("--compat=hail",), "strict"),
        ('n1 = "off"', ("--no-capacity-checks=no",), "no-worse"),
        ('[config]\nn1 = "strict"', (), "strict"),
    ],
)
def test_n1_follows_the_source_with_the_highest_precedence(
    text: str, words: tuple[str, ...], expected: str, desk: Desk
) -> None:
    """The mode of N+1 is the one of the command line, else of the file, else of --compat hail.

    `--compat hail` on the command line precedes a mode in the file.
    """
    assert desk.settings(text, *words)["n1"][0] == expected


def test_cluster_on_the_command_line_replaces_that_of_the_file(desk: Desk) -> None:
    """A cluster on the command line replaces the cluster in the configuration file."""
    table = '[balance]\nrapi = "nowhere.invalid"\ncredentials = "/none"\nverbose = 1\n'
    for words in ((str(desk.request),), ("--simulate=p,2,10g,4g,2",)):
        status, _, err = desk.output_of(table, "balance", *words)
        assert status == 0
        assert err.startswith("read 1 group")


def test_words_of_a_request_are_not_a_cluster(desk: Desk) -> None:
    """The words of a question after `ask` do not replace the cluster of the configuration file."""
    words = ["ask", "allocate", "--memory=1G", "--disk=1G", "--template=plain", "-v"]
    status, _, err = desk.output_of('[ask]\nsimulate = "p,7,100g,8g,4"\n', *words)
    assert status == 0
    assert err.startswith("read 1 group, 7 nodes")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "tpo = 3",
            "tpo: unknown option --tpo (did you mean --top or --log?)",
        ),
        ('top = "3"', "top: expected a number, without quotes, got '3'"),
        ("strategy = 3.5", "strategy: expected one of score"),
        ("strategy = true", "strategy: expected one of score"),
        ("tag-prefix = 3", "tag-prefix: expected a string, got 3"),
        ("restrict-allocation-to = [3]", "restrict-allocation-to: expected names"),
        ("seed = 1979-05-27", "seed: expected a string, a number, true, false or a list"),
        ('optimal = "yes"', "optimal: expected true or false, got 'yes'"),
        ("verbose = -1", "verbose: expected true or false, got -1"),
        ("validate = true", "validate: only on the command line"),
        ("luxi = true", "luxi: only in the table of a command"),
        ("[balanse]", "[balanse]: no such command (did you mean balance?)"),
        ("top = ", "invalid TOML: "),
        ("a = " + "[" * 100_000, "invalid TOML: "),
    ],
)
@pytest.mark.parametrize("command", ["", "balance"])
def test_invalid_file_causes_one_line_and_status_2(
    text: str, expected: str, command: str, desk: Desk
) -> None:
    """With an invalid configuration file, commands end with one line and status 2."""
    status, out, err = desk.output_of(text, *filter(None, [command]), str(desk.request))
    assert (status, out) == (2, "")
    assert err.startswith(f"iallocator: FILE: {expected}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("top = 3", "top: balance takes no --top: a plan is one answer, not a ranked list"),
        ("exec = true", "exec: only on the command line: a change of the cluster is never"),
        ("max-lenght = 3", "max-lenght: unknown option --max-lenght (did you mean --max-length"),
        ("[balance.deeper]", "deeper: unknown option"),
    ],
)
def test_invalid_table_is_reported_by_its_command(text: str, expected: str, desk: Desk) -> None:
    """A command and `config` report an invalid table of the command; requests ignore it."""
    text = text if text.startswith("[") else f"[balance]\n{text}"
    for command in ("balance", "config"):
        status, _, err = desk.output_of(text, command, str(desk.request))
        assert status == 2
        assert err.startswith(f"iallocator: FILE [balance]: {expected}")
    assert desk.output_of(text, str(desk.request))[0] == 0


def test_file_is_found_by_the_environment_or_at_its_default_path(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The default configuration file is optional; one named by the environment must exist."""
    desk.file.write_text("nonsense = 1")
    monkeypatch.setattr(options, "CONFIGURATION", str(desk.file))
    assert main([str(desk.request)]) == 0  # the environment names no file
    monkeypatch.delenv(options.NAMED_BY)
    assert main([str(desk.request)]) == 2
    assert main([str(desk.request), "--no-config"]) == 0
    desk.file.unlink()
    assert main([str(desk.request)]) == 0
    capsys.readouterr()
    monkeypatch.setenv(options.NAMED_BY, str(desk.file))
    assert main([str(desk.request)]) == 2
    assert capsys.readouterr().err == f"iallocator: {desk.file}: No such file or directory\n"


def test_cases_are_replayed_without_the_settings_of_this_machine(desk: Desk) -> None:
    """`replay` runs cases with the configuration beside them, not with that of the machine.

    Only the command `replay` itself reads the machine's file.
    """
    folder = str(desk.request.parent)
    assert desk.output_of("", "replay", "--update", folder)[0] == 0
    assert desk.output_of("top = 3", "replay", folder)[0] == 0
    assert desk.output_of("[replay]\ntop = 3", "replay", folder)[0] == 1
    assert "none of moves" in desk.output_of('[replay]\nkeys = ["moves"]', "replay", folder)[1]


@pytest.mark.parametrize("arguments", ["--verbose", "config --json"])
def test_file_beside_a_case_replaces_that_of_the_machine(
    arguments: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration beside a case replaces that of the machine in `replay`."""
    folder = desk.request.parent
    (folder / "args").write_text(arguments)
    assert desk.output_of("", "replay", "--update", str(folder))[0] == 0
    machine = folder / "machine.conf"
    machine.write_text("top = 3")
    monkeypatch.setenv(options.NAMED_BY, str(machine))
    assert main(["replay", str(folder)]) == 0
    (folder / "conf").write_text("top = 2")
    assert main(["replay", str(folder)]) == 1


def test_strategy_in_the_table_of_capacity_is_rejected_where_it_cannot_act(desk: Desk) -> None:
    """`capacity` rejects a strategy in its own table of the file, and ignores one at the top."""
    status, _, err = desk.output_of('[capacity]\nstrategy = "score"', "capacity", str(desk.request))
    assert (status, err) == (
        2, "iallocator: --strategy is for requests (--replay): sizes are placed by score\n",
    )  # fmt: skip
    assert desk.output_of('strategy = "score"', "capacity", "-l1", str(desk.request))[0] == 0
