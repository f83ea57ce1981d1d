"""Test that `--exclusion-tags` has the effect of a cluster tag in every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS
from iallocator.commands.common_options import accepted
from iallocator.options.table import COMMON
from tests.aliases import Capture
from tests.builders import Json, as_bytes
from tests.command import printed, without_identity
from tests.live.cluster_answers import rapi_answers, write_answers

from .excluded import EXCLUDED

OPTION = next(option for option in COMMON if option.target == "exclusion_tags")

ORIGINS = {"config", "constraints"}
"""Commands that print where a tag is set, which differs between option and tag."""


@pytest.fixture(autouse=True)
def _same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let repairs have fixed times and names."""
    monkeypatch.setattr("uuid.uuid4", lambda: "name")
    monkeypatch.setattr("iallocator.planners.repair.round.time.time", lambda: 1.0)


def output_of(folder: Path, capsys: Capture, command: str, document: Json, *more: str) -> Any:
    """Return the exit status, stdout and stderr of a command."""
    path = folder / "document"
    path.write_bytes(as_bytes(document))
    words = [*EXCLUDED[command][1], *more, *(["-I"] if command == "ask" else []), str(path)]
    status = main([command, *words] if command else words)
    out, err = capsys.readouterr()
    return status, without_tags(without_identity(out)), err


def without_tags(text: str) -> str:
    """Return the output `text` without the lines about cluster tags."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("Tags: "))


def tagged(document: Json) -> Json:
    """Return `document` with the exclusion tags as tags of the cluster."""
    return {**document, "cluster_tags": [*document["cluster_tags"], "htools:iextags:srv"]}


def test_every_command_that_takes_the_option_is_tried() -> None:
    """Every command with --exclusion-tags, except `replay`, is tested with that option.

    `replay` takes the options of a request from the stored case.
    """
    assert set(EXCLUDED) - {""} == {c for c in COMMANDS if accepted(c, OPTION)} - {"replay"}


@pytest.mark.parametrize("command", EXCLUDED, ids=lambda command: command or "request")
def test_option_has_the_effect_of_a_tag_of_the_cluster(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    """The output with --exclusion-tags is the output with the cluster tag instead."""
    if command == "report":
        pytest.importorskip("jinja2", reason="the template library is not installed")
    document = EXCLUDED[command][0]
    plain = output_of(tmp_path, capsys, command, document)
    by_option = output_of(tmp_path, capsys, command, document, "--exclusion-tags=srv")
    assert plain[0] in (0, 1)
    assert by_option != plain
    if command not in ORIGINS:
        assert by_option == output_of(tmp_path, capsys, command, tagged(document))


@pytest.mark.parametrize("command", ["ask", "balance", "show"])
def test_option_acts_on_a_running_cluster(command: str, tmp_path: Path, capsys: Capture) -> None:
    """For a running cluster, the output with --exclusion-tags is that with the cluster tag."""
    answers = rapi_answers()
    for one in answers["instances"][:2]:
        one["tags"] = ["own:a"]
    address = write_answers(tmp_path / "plain", answers)
    words = {"ask": ("evacuate", "node1"), "balance": ("-p",), "show": ()}[command]
    plain = printed(command, *words, "-m", address)
    by_option = printed(command, *words, "-m", address, "--exclusion-tags=own")
    answers["info"]["tags"].append("htools:iextags:own")
    assert main([command, *words, "-m", write_answers(tmp_path / "tagged", answers)]) == 0
    assert by_option != plain
    assert without_tags(by_option) == without_tags(capsys.readouterr().out)
