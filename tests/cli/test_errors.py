"""Test the messages for errors on the command line and in files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from iallocator.cli import main
from iallocator.commands import COMMANDS
from tests.aliases import Capture
from tests.builders import allocate, as_bytes, cluster, group, instance
from tests.command import complaint, printed, run
from tests.paths import ROOT

TEXT = Path(__file__).parents[2] / "fixtures/balance/all-groups/cluster.data"
"""Path of a stored cluster in htools' text format."""

DOMAIN = ".example.com"


@pytest.fixture
def document(tmp_path: Path) -> str:
    """Return the path of a request about nodes and instances with long names."""
    scenario = cluster(nodes=3, instances={"web.example.com": instance("node1")})
    text = as_bytes(allocate(scenario, "new.example.com")).decode()
    for name in ("node1", "node2", "node3"):
        text = text.replace(f'"{name}"', f'"{name}{DOMAIN}"')
    path = tmp_path / "document"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("balanc FILE", "balanc: no such command or file (did you mean balance"),
        ("balanc --all-groups FILE", "balanc: no such command or file (did you mean balance"),
        ("balance -O nod1 FILE", "--offline: unknown node nod1 (did you mean node1.example.com, "),
        (
            "balance --exclude-instances=wep FILE",
            "--exclude-instances: unknown instance wep (did you mean web.example.com?)",
        ),
        ("explain --instance nev FILE", "--instance: the request is not about nev (did you mean n"),
        ("balance -G defualt FILE", "--group: unknown group defualt (did you mean default?); the"),
        ("ask change-group web --to defualt FILE", "--to: unknown group defualt (did you mean def"),
        ("--strategy=pacemaker-balancd FILE", "--strategy: expected one of score, lost-allocation"),
        ("ask allocate --memory 1G --disk 1G --template drdb FILE", "--template: expected one of "),
        (
            "ask allocate --memory 1G --disk-template drbd FILE",
            "--disk-template drbd needs --disk SIZE",
        ),
        (
            "ask allocate --memory 1G --disk 1G --disk-template diskless FILE",
            "--disk-template diskless takes no --disk",
        ),
        ("ask allocate --memory 1G --template drbd FILE", "--template drbd needs --disk SIZE"),
        ("ask allocate --disk 1G --template drbd FILE", "ask allocate needs --memory SIZE"),
        (
            "ask alocate FILE",
            "ask one of allocate, evacuate, relocate, change-group, got 'alocate' (did you mean "
            "allocate",
        ),
        ("balance --html a --html b FILE", "--html: expected one value, got a and b"),
        ("balance --graph=a --graph=b FILE", "--graph: expected one value, got a and b"),
        ("check --metrics a --metrics b FILE", "--metrics: expected one value, got a and b"),
        ("balance -Ca -Cb FILE", "-C: expected one value, got a and b"),
        ("balance -t FILE -t other", "-t: expected one value, got /"),
        (
            "balance --mond-data a --mond-data b FILE",
            "--mond-data: expected one value, got a and b",
        ),
        (
            "squeeze -m HOST --master node1",
            "--master: expected one value, got HOST and node1; --master is the address of RAPI, "
            "the master node is --master-node",
        ),
        ("--validate -", "standard input: expected a JSON document, got nothing; name FILE or "),
        ("-", "standard input: expected a JSON document, got nothing; name FILE or "),
        ("show --no-config --config FILE", "--config and --no-config exclude each other"),
        (
            "check --n1 strict --no-capacity-checks FILE",
            "--no-capacity-checks and --n1 strict exclude each other",
        ),
        ("xyzzy", "xyzzy: no such command or file; iallocator help lists"),
        ("help blance", "blance: no such command or file (did you mean balance"),
        (
            "balance --lookahed FILE",
            "unknown option --lookahed (did you mean --lookahead, --ahead or --overload?); ",
        ),
        ("balance --min FILE", "option --min may be any of --min-disk, --min-score, "),
        ("reboot --stick=3 FILE", "reboot takes no --stickiness: every instance must leave a node"),
        ("balance -O nope FILE", "--offline: unknown node nope"),
        ("balance -O nod FILE", "--offline: unknown node nod"),
        ("balance --select-instances=nope FILE", "--select-instances: unknown instance nope"),
        ("balance --exclude-instances=nope FILE", "--exclude-instances: unknown instance nope"),
        ("balance -G nope FILE", "--group: unknown group nope; the cluster has default"),
        ("squeeze --prefer nope FILE", "--prefer: unknown node nope"),
        ("--restrict-allocation-to=nope FILE", "--restrict-allocation-to: unknown node nope"),
        ("capacity --restrict-allocation-to=nope FILE", "--restrict-allocation-to: unknown node"),
        ("explain --node=nope FILE", "--node: unknown node nope"),
        ("constraints --instance=nope FILE", "--instance: unknown instance nope"),
        ("ask evacuate nope FILE", "evacuate: unknown node nope"),
        (
            "ask change-group web --to nope FILE",
            "--to: unknown group nope; the cluster has default",
        ),
        ("balance --graph=a.png FILE", "--graph: expected FILE.svg, or another name for DOT"),
        ("explain --graph a.PDF FILE", "--graph: expected FILE.svg, or another name for DOT"),
        ("balance --min-disk=2 FILE", "--min-disk: expected a number from 0 to 1, got '2'"),
        (
            "balance --html=x --bandwidth=2t FILE",
            "--bandwidth: expected a size from 1 to 1000000 MiB, such as 100, 500m or 1g, got '2t'",
        ),
        ("balance -l -3 FILE", "--max-length: expected a whole number from 0 to "),
        ("balance -t FILE", "FILE: expected htools' text format, got what looks like JSON"),
        (
            f"balance {TEXT}",
            f"{TEXT}: expected JSON, got what looks like htools' text format: use -t",
        ),
    ],
)
def test_unknown_word_is_reported_with_a_suggestion(
    words: str, reported: str, document: str
) -> None:
    """An unknown word is reported with a similar one; the exit status is 2."""
    arguments = words.replace("FILE", document).split()
    found = complaint(run(*arguments)).replace("-l:", "--max-length:")
    assert found.replace("-O:", "--offline:").replace(document, "FILE").startswith(reported)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--strategy=pacemaker-balancd"], "pacemaker-balanced"),
        (["ask", "allocate", "--memory=1G", "--disk=1G", "--template=drdb"], "drbd"),
        (["constraints", "--strength=shold"], "should"),
        (["replay", "--keys=success,scors"], "scores"),
    ],
)
def test_wrong_word_of_an_option_is_reported_with_a_suggestion(
    words: list[str], meant: str, document: str
) -> None:
    """A wrong value of an option is reported with the possible values and a similar one."""
    assert f"(did you mean {meant}" in complaint(run(*words, document))


def test_question_without_a_template_takes_the_first_that_fits_its_disks() -> None:
    """`ask` without a template uses the first one of the policy that fits the given disks.

    The default policy begins with a template without disks.
    """
    source = ("--simulate", "preferred,2,100g,8g,4", "--memory=1g")
    assert "\n  diskless, " in printed("ask", "allocate", *source)
    assert "\n  file, " in printed("ask", "allocate", *source, "--disk=1g")


def test_one_file_given_twice_is_accepted() -> None:
    """A command accepts two options that name one file."""
    assert printed("show", "-t", str(TEXT), f"--text-data={TEXT}") == printed(
        "show", "-t", str(TEXT)
    )


@pytest.mark.parametrize(("most", "output"), [(2, "2 moves"), (1, "1 move"), (0, "0 moves")])
def test_plan_that_reaches_its_limit_of_moves_names_the_option(most: int, output: str) -> None:
    """A plan that reaches its limit of moves names the limit and the option."""
    text = printed("balance", "-l", str(most), str(ROOT / "docs/examples/cluster.json"))
    assert f"  limit of {output} reached (--max-length)\n" in text


def test_evacuation_without_a_node_to_leave_says_so() -> None:
    """If no node is offline or drained, `balance --evac-mode` gives that as the reason."""
    reason = "no node of the group is offline or drained (--evac-mode)"
    assert reason in printed("balance", "--evac-mode", "-t", str(TEXT))
    node = "-O" + TEXT.read_text().split("\n\n")[1].split("|")[0]
    assert reason not in printed("balance", "--evac-mode", node, "-t", str(TEXT))


@pytest.mark.parametrize("words", [(), ("balance",), ("explain",), ("make-room", "-t", str(TEXT))])
def test_invalid_document_is_reported_with_the_name_of_its_file(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """An invalid document is reported with its file name, unless it is from stdin."""
    path = tmp_path / "broken.json"
    path.write_text('{"nodes":')
    output = complaint(run(*words, str(path)))
    assert output.startswith(f"{path}: invalid JSON: ")
    assert complaint(run(*words, stdin=path.read_bytes())) == output.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    "words",
    ["--prefer", "unknown", "--min-disk", "--exclude-instances"],
)
def test_long_words_are_shortened_in_messages(words: str, document: str) -> None:
    """A message shortens a long argument that it quotes."""
    long = "y" * 5000
    arguments = {
        "--prefer": ["squeeze", f"--prefer={long}", document],
        "unknown": ["balance", f"--{long}", document],
        "--min-disk": ["balance", f"--min-disk={long}", document],
        "--exclude-instances": ["balance", f"--exclude-instances={long}", document],
    }[words]
    assert len(complaint(run(*arguments))) < 250


@pytest.mark.parametrize(
    ("raw", "reported"),
    [
        (b"\xff\xfe{\x00", "not UTF-8 (byte 1)"),
        (b'{"nodes": {"a": {"x": 1, "y": 2, "x": 3}}}',
         'nodes/a: expected each member once, got "x" again'),
        (b'[{"x": 1, "x": 3}]', '0: expected each member once, got "x" again'),
        (b"[" * 500 + b'{"x": 1, "x": 3}' + b"]" * 500, ""),
    ],
)  # fmt: skip
def test_bytes_that_are_not_a_document_are_reported_in_one_line(
    raw: bytes, reported: str, tmp_path: Path
) -> None:
    """A file that is no document is reported with a position, without terms of parsers."""
    path = tmp_path / "document"
    path.write_bytes(raw)
    assert reported in complaint(run(str(path)))


def test_duplicate_member_of_a_large_document_is_an_error(tmp_path: Path) -> None:
    """A duplicate member of a large document is an error, though a faster parser reads it."""
    path = tmp_path / "document"
    blank = b" " * 3_000_000
    path.write_bytes(b'{"a": {"b": 1, "b": 1}, "c": "' + blank + b'"}')
    assert complaint(run(str(path))) == f'{path}: a: expected each member once, got "b" again'


def test_duplicate_member_without_effect_is_a_warning(document: str, capsys: Capture) -> None:
    """A duplicate member that has no effect is a warning; the last one counts.

    A test document of Ganeti has such a member.
    """
    path = Path(document)
    assert main([document]) == 0
    plain = capsys.readouterr()
    assert "Warning" not in plain.err
    path.write_text('{"enabled_hypervisors": ["kvm"],' + path.read_text().lstrip()[1:])
    assert main([document]) == 0
    reported = capsys.readouterr()
    assert reported.out == plain.out
    assert "Warning: enabled_hypervisors is there twice; the last one counts\n" in reported.err


def test_byte_order_mark_before_a_document_is_left_out(document: str) -> None:
    """A byte order mark before a document does not change the output."""
    plain = printed(document)
    path = Path(document)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert printed(document) == plain


@pytest.mark.parametrize("checks", [(), ("--validate",)], ids=["answer", "validate"])
@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"version": 3}, "version: expected 2, got 3"),
        ({"nodegroups": {"u1": group("one"), "u2": group("one")}},
         'nodegroups/u2/name: expected different names, got "one" again, as of group "u1"'),
    ],
    ids=["version", "groups"],
)  # fmt: skip
def test_inconsistent_document_is_rejected_with_the_place_except_with_compat_hail(
    change: dict[str, object], reported: str, checks: tuple[str, ...], tmp_path: Path
) -> None:
    """An inconsistent document is rejected with its place, except with --compat hail.

    The version is unknown, or two groups have one name. hail checks neither.
    """
    document = allocate(cluster()) | {"nodegroups": {"u1": group("one")}} | change
    for node in document["nodes"].values():
        node["group"] = "u1"
    path = tmp_path / "document"
    path.write_text(json.dumps(document))
    expected = reported if checks else f"{path}: {reported}"
    assert complaint(run(*checks, str(path))) == expected
    if not checks:
        assert main(["--compat=hail", str(path)]) == 0


def test_incomplete_policy_of_the_cluster_is_completed(tmp_path: Path) -> None:
    """Sizes that are missing in the cluster's policy are those of the default policy."""
    document = allocate(cluster())
    document["ipolicy"] = {"min": {"disk-size": 1024}, "max": {"memory-size": 2048}, "std": {}}
    path = tmp_path / "document"
    path.write_text(json.dumps(document))
    assert main([str(path)]) == 0
    assert printed("--validate", str(path)).endswith(": valid\n")
    document["nodegroups"] = {"u": group(ipolicy={"min": {"disk-size": 1}, "max": {}})}
    for node in document["nodes"].values():
        node["group"] = "u"
    path.write_text(json.dumps(document))
    assert complaint(run(str(path))).startswith(f"{path}: nodegroups/u/ipolicy/min/memory-size: ")


def test_incomplete_policy_of_the_cluster_applies_to_groups_without_one() -> None:
    """An incomplete policy of the cluster applies to groups without a policy."""
    document = allocate(cluster(nodes=2), memory=4096)
    for one in document["nodegroups"].values():
        one.pop("ipolicy", None)
    document["ipolicy"] = {"max": {"memory-size": 2048}}
    assert not json.loads(printed(document=document))["success"]


def test_nothing_on_a_terminal_shows_the_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Without arguments and with a terminal as stdin, the program prints its usage, status 2."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert main([]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("usage: iallocator COMMAND [OPTIONS] [FILE]\n")
    assert main(["balance"]) == 2
    on_terminal = capsys.readouterr().err
    assert on_terminal.startswith("iallocator: no cluster is given: expected FILE (- for stdin), ")
    monkeypatch.setattr(sys, "stdin", None)
    assert f"iallocator: {complaint(run('balance'))}\n" == on_terminal


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ("balance -O node1", "balance --offline=node1.example.com"),
        ("balance --exclude=web", "balance --exclude-instances=web.example.com"),
        ("balance --select-i web", "balance --select-instances=web.example.com"),
        ("squeeze --prefer node2", "squeeze --prefer=node2.example.com"),
        ("capacity --restr node2 -l=2", "capacity --restrict-allocation-to=node2.example.com -l2"),
        ("--restrict-allocation-to node2", "--restrict-allocation-to=node2.example.com"),
        ("explain --node node2", "explain --node node2.example.com"),
        ("explain --instance new", "explain --instance new.example.com"),
        ("constraints --instance web", "constraints --instance web.example.com"),
        ("balance --js", "balance --json"),
        ("balance -p=name", "balance --print-nodes=name"),
    ],
)
def test_abbreviated_names_and_options_are_accepted(
    short: str, whole: str, document: str, capsys: Capture
) -> None:
    """Host names cut at a dot and unique prefixes of options are accepted, as in htools."""
    output = []
    for words in (short, whole):
        assert main([*words.split(), document]) == 0
        output.append(capsys.readouterr())
    assert output[0] == output[1]
    assert output[0].out


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("capacity --memory 2", "capacity takes no --memory: only ask has it"),
        ("balance --disk 5g", "balance takes no --disk: only ask has it"),
        (
            "make-room --memory 1g",
            "make-room takes no --memory: only ask has it; --request 'allocate --memory ...' has "
            "it, too",
        ),
    ],
)
def test_option_of_another_command_is_no_abbreviation(
    words: str, output: str, document: str
) -> None:
    """A prefix is not completed to an option of another command."""
    assert complaint(run(*words.split(), document)) == output


@pytest.mark.parametrize("words", ["ask evacuate", "ask relocate", "rescue"])
def test_file_in_the_place_of_a_name_is_reported(words: str, document: str) -> None:
    """If a file is given in place of a name, the error mentions the file."""
    reported = complaint(run(*words.split(), document))
    command = words.partition(" ")[0]
    assert reported == (f"{document} is read as the name that {command} needs: name FILE after it")


def test_explanation_of_a_document_without_request_names_ask(tmp_path: Path) -> None:
    """`explain` of a document without a request names the command ask."""
    path = tmp_path / "cluster.json"
    path.write_bytes(as_bytes(cluster()))
    assert complaint(run("explain", str(path))) == (
        f"{path}: the document has no request; iallocator ask answers questions about a cluster"
    )


def test_cluster_without_nodes_has_no_remark_about_other_groups() -> None:
    """For a cluster without nodes, `balance` does not mention other groups."""
    done = run("balance", "--simulate", "preferred,0,100g,16g,4")
    assert done.returncode == 0
    assert not done.stderr


def test_ambiguous_abbreviation_is_rejected(tmp_path: Path) -> None:
    """An ambiguous abbreviation is rejected with all possible names."""
    text = as_bytes(cluster(nodes=2)).decode()
    text = text.replace('"node1"', '"node.a.org"').replace('"node2"', '"node.b.org"')
    path = tmp_path / "document"
    path.write_text(text)
    reported = complaint(run("balance", "-O", "node", str(path)))
    assert reported == "--offline: node may be any of the nodes node.a.org, node.b.org"


@pytest.mark.parametrize("command", ["", *sorted(COMMANDS)])
def test_help_command_is_the_help_of_that_command(command: str) -> None:
    """``iallocator help balance`` prints the output of ``iallocator balance --help``."""
    words = [command] if command else []
    asked = printed("help", *words)
    assert printed(*words, "--help") == asked


def test_print_commands_to_a_file_by_the_short_option(tmp_path: Path) -> None:
    """``-C=FILE`` has the effect of ``--print-commands=FILE``."""
    target = tmp_path / "plan.sh"
    assert main(["balance", f"-C={target}", "-t", str(TEXT)]) == 0
    assert target.read_text().startswith("#!/bin/sh")


def test_number_that_json_cannot_represent_is_reported_with_its_place(
    document: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    """A number that JSON cannot represent is reported in one line with its place."""
    whole = Path(document).read_text().rstrip().removesuffix("}")
    path = tmp_path / "large.json"
    path.write_text(f'{whole}, "other": {{"a": [1, 1e400]}}}}')
    overview = "iallocator.documents.overview.overview"
    monkeypatch.setattr(overview, lambda *_: {"terms": [{"value": float("nan")}]})
    expected = "expected a number that a float can hold, got one that is too large"
    for words, place in (
        (["snapshot", "--form", "json", str(path)], "other/a/1"),
        (["show", "--json", document], "terms/0/value"),
    ):
        assert main(words) == 2
        output = capsys.readouterr()
        assert (output.out, output.err) == ("", f"iallocator: {place}: {expected}\n")
