"""Test that each command accepts common options with an effect, and rejects others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS, options_of, settings_of, shown_name
from iallocator.commands.common_options import WHERE, accepted, table_of
from iallocator.options.table import COMMON, Option
from tests.aliases import Capture
from tests.builders import allocate, as_bytes, cluster, instance
from tests.command import printed

VALUES = {
    "n1": "off",
    "compat": "hail",
    "inter_group": "yes",
    "exact_search": "no",
    "strategy": "affinity",
    "simulate": "p,1,1g,1g,1",
}
"""Valid values of options that accept no number."""

REJECTED = [
    (command, option)
    for command in sorted(COMMANDS)
    for option in COMMON
    if not accepted(command, option)
]


def ids(value: object) -> str:
    """Return the name of a test case for pytest."""
    return value.names[0] if isinstance(value, Option) else str(value)


def word(option: Option) -> str:
    """Return the option as typed on a command line, with a value if it takes one."""
    if option.read is None:
        return option.names[0]
    return f"{option.names[0]}={VALUES.get(option.target, '1')}"


@pytest.mark.parametrize(("command", "option"), REJECTED, ids=ids)
def test_option_without_effect_is_rejected_with_the_reason(
    command: str, option: Option, capsys: Capture
) -> None:
    """An option without effect is rejected in one line with command and reason, status 2."""
    for name in option.names:
        assert main([command, word(option).replace(option.names[0], name, 1), "-"]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        begin, _, reason = output.err.partition(": ")[2].partition(": ")
        assert begin == f"{shown_name(command)} takes no {name}"
        assert reason.count("\n") == 1
        assert len(reason) > len("it is so\n")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command_lists_its_effective_options(command: str) -> None:
    """The full help of a command lists its own options and effective common ones, each once."""
    own = settings_of(command).options
    lines = printed("help", command, "--all").splitlines()
    assert max(map(len, lines)) <= 100
    entries = [line[2:].partition("  ")[0].split() for line in lines if line.startswith("  -")]
    words = [word.rstrip(",").partition("[")[0] for entry in entries for word in entry]
    names = [word for word in words if word.startswith("-")]
    expected = [name for option in (*own, *table_of(command, own)) for name in option.names]
    assert sorted(names) == sorted(expected)
    assert len(entries) == len(own) + len(table_of(command, own))


def test_every_common_option_lists_the_commands_on_which_it_acts() -> None:
    """The table of common options names every command on which an option has effect."""
    assert WHERE.keys() <= {option.target for option in COMMON}
    for target, (commands, reasons) in WHERE.items():
        assert commands <= COMMANDS.keys(), target
        missing = COMMANDS.keys() - commands - reasons.keys()
        assert "" in reasons or not missing, target
        assert not reasons.keys() & commands, target


@pytest.mark.parametrize(
    ("command", "one", "other"),
    [
        ("check", "--json", "--machine-readable"),
        ("capacity", "--json", "--machine-readable"),
        ("check", "--no-simulation", "--lookahead"),
        ("check", "--no-simulation", "--simulation"),
        ("check", "--machine-readable", "--simulation"),
        ("check", "--no-simulation", "--max-length=3"),
        ("check", "--no-simulation", "--evac-mode"),
        ("balance", "--group=east", "--all-groups"),
        ("squeeze", "--prefer=node1", "--avoid=node2,node1"),
    ],
)
def test_contradictory_options_are_rejected(
    command: str, one: str, other: str, capsys: Capture
) -> None:
    """Two contradictory options are rejected in one line that names both."""
    assert main([command, one, other, "/no/such/file"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert one.partition("=")[0] in output.err
    assert other.partition("=")[0] in output.err


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--cost=3"], "--cost needs --make-room N: it limits the moves of other instances"),
        (
            ["explain", "--graph=steps.svg"],
            "--graph draws the steps of moves, and this answer has none",
        ),
    ],
)
def test_option_without_effect_on_the_input_is_rejected(
    words: list[str], output: str, tmp_path: Path, capsys: Capture
) -> None:
    """An option without effect on the given input is rejected, and no file is written."""
    path = tmp_path / "request.json"
    path.write_bytes(as_bytes(allocate(cluster())))
    assert main([*words, str(path)]) == 2
    assert capsys.readouterr() == ("", f"iallocator: {output}\n")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_no_two_options_of_a_command_share_a_name(command: str) -> None:
    """No two options of a command share a name, even if it replaces an inherited option."""
    names = [name for option in options_of(command) for name in option.names]
    assert sorted(names) == sorted(set(names))


def test_option_that_does_not_exist_is_unknown(capsys: Capture) -> None:
    """An unknown option is rejected with a reference to the help of the command."""
    assert main(["balance", "--guess=2", "-"]) == 2
    said = capsys.readouterr().err
    assert said == "iallocator: unknown option --guess; iallocator help balance --all lists them\n"


def test_validate_of_a_planner_checks_the_cluster(tmp_path: Path, capsys: Capture) -> None:
    """A planner with --validate checks the cluster, not the request of a document."""
    path = tmp_path / "cluster.json"
    document = cluster(instances={"a": instance("node1")})
    for request in (None, {"type": "guess"}):
        path.write_bytes(as_bytes(document if request is None else document | {"request": request}))
        assert main(["balance", "--validate", str(path)]) == 0
        assert capsys.readouterr() == (f"{path}: valid\n", "")
    assert main(["place", "--validate", str(path)]) == 2
    assert "request/type" in capsys.readouterr().err
    del document["nodes"]["node1"]
    path.write_bytes(as_bytes(document))
    assert main(["balance", "--validate", str(path)]) == 2
    expected = 'instances/a/nodes/0: expected a node of the document, got "node1"'
    assert capsys.readouterr() == ("", f"iallocator: {expected}\n")


def test_validate_checks_a_cluster_from_another_source(tmp_path: Path, capsys: Capture) -> None:
    """With --validate, a cluster from another source must be readable, too."""
    path, data = tmp_path / "request.json", tmp_path / "cluster.data"
    path.write_bytes(as_bytes(allocate(cluster())))
    data.write_text("nonsense\n")
    assert main(["--validate", "-t", str(data), str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == f"{path}: valid\n"
    assert output.err.startswith(f"iallocator: {data}:1: ")
    assert main(["balance", "--validate", "-t", str(data)]) == 2
    assert capsys.readouterr().err.startswith(f"iallocator: {data}:1: ")


@pytest.mark.parametrize("command", ["balance", "check", "config", "explain", "show", "repair"])
def test_validate_with_json_prints_one_document(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    """`--validate --json` prints one document, with the exit status of the text."""
    path = tmp_path / "cluster.json"
    document = allocate(cluster(instances={"a": instance("node1")}))
    path.write_bytes(as_bytes(document))
    assert main([command, "--validate", "--json", str(path)]) == 0
    output = capsys.readouterr()
    inputs = [{"name": str(path), "errors": []}]
    found = json.loads(output.out)
    assert (found["valid"], found["inputs"], output.err) == (True, inputs, "")
    del document["nodes"]["node1"]
    path.write_bytes(as_bytes(document))
    assert main([command, "--validate", "--json", str(path)]) == 2
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert (found["valid"], output.err) == (False, "")
    assert "instances/a/nodes" in found["inputs"][0]["errors"][0]


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("", "--top=3"), ("", "--save-cluster=x"), ("", "--log=x"), ("balance", "--html=x"),
        ("balance", "-X"), ("check", "--machine-readable"), ("make-room", "--request=allocate"),
        ("place", "--strategy=minimal"), ("report", "--html=x"), ("show", "-p"),
    ],
)  # fmt: skip
def test_validate_rejects_options_without_effect(
    command: str, word: str, tmp_path: Path, capsys: Capture
) -> None:
    """`--validate` rejects options that it ignores, and writes no output files."""
    path = tmp_path / "cluster.json"
    path.write_bytes(as_bytes(allocate(cluster())))
    assert main([*([command] if command else []), "--validate", word, str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("iallocator: --validate only checks the input: --")
