"""Test the pages of the manual: form, links, examples, and completeness."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from iallocator.commands import COMMANDS, form_of, options_of
from iallocator.constraints.table import REASONS
from iallocator.documents.metrics import METRIC_DESCRIPTIONS
from iallocator.options.table import COMMON
from iallocator.scoring.metrics import STATISTICS
from iallocator.tags.foreign import OUR_TAGS
from tests.paths import ROOT

MANUAL = sorted((ROOT / "docs").rglob("*.md"))
"""Every page in docs/."""


class Block(NamedTuple):
    """A fenced block of a page: the words after the fence, and its lines."""

    mark: str
    text: str


FENCED = re.compile(r"(?m)^```(.*)\n((?:.*\n)*?)```$")


def name_of(path: Path) -> str:
    """Return the path from the root of the project, for the names of tests."""
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    return [Block(*found) for found in FENCED.findall(path.read_text(encoding="utf-8"))]


def prose(path: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCED.sub("", path.read_text(encoding="utf-8"))


def tables(path: Path) -> Iterator[list[str]]:
    """Yield the lines of each table of a page."""
    for found in re.findall(r"(?m)(?:^\|.*\|\n)+", prose(path) + "\n"):
        yield found.splitlines()


PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")),
    *MANUAL,
    *sorted((ROOT / "benchmarks").glob("*.md")),
]

HOW_TO, TUTORIAL = (sorted((ROOT / "docs" / kind).glob("*.md")) for kind in ("how-to", "tutorial"))

WITH_COMMANDS = [
    path
    for kind in ("how-to", "tutorial", "reference", "explanation")
    for path in sorted((ROOT / "docs" / kind).glob("*.md"))
]
"""Pages on which each block with a command must say how it is tested."""

SHOWN = re.compile(
    r"`(iallocator [a-z][^`\n]*)`|(?m:^    (iallocator [a-z].*?)(?:  .*)?$)"
    r"|(?m:^[$#] (iallocator [a-z][^|\n]*))"
)


def test_examples_show_what_the_program_prints() -> None:
    """The output in each block marked "run" is that of the program, in any time zone."""
    command = [sys.executable, str(ROOT / "tools" / "examples")]
    there = {**os.environ, "TZ": "Asia/Tokyo"}
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert (ROOT / "README.md").read_text().count("```console run") == 4


def test_readme_is_short() -> None:
    """The README has at most 120 lines, and two commands within the first ten lines."""
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert any("make demo" in line for line in lines[:10])
    assert any("make test" in line for line in lines[:10])


SECTIONS = ("Problem", "Approach", "Cost", "Source", "Alternatives", "Code")
"""The sections of a design page, in order; a proof may precede the cost."""

DESIGN = [path for path in sorted((ROOT / "docs/design").glob("*.md")) if path.stem != "README"]


@pytest.mark.parametrize("path", DESIGN, ids=lambda path: path.stem)
def test_design_page_has_all_sections_and_is_listed(path: Path) -> None:
    """Each design page has all sections, and is in the table of contents."""
    found = re.findall(r"(?m)^## (.*)$", path.read_text())
    assert [title for title in found if title in SECTIONS] == list(SECTIONS)
    assert f"({path.name})" in (path.parent / "README.md").read_text()


@pytest.mark.parametrize("path", HOW_TO, ids=name_of)
def test_how_to_has_all_sections(path: Path) -> None:
    """Each how-to has goal, prerequisites, commands, expected output and undo."""
    text = path.read_text()
    assert text.splitlines()[2].startswith("Goal: ")
    expected = ["Prerequisites", "Commands", "Expected output", "Undo"]
    assert re.findall(r"(?m)^## (.*)$", text) == expected


@pytest.mark.parametrize("path", MANUAL, ids=name_of)
def test_page_starts_with_its_purpose(path: Path) -> None:
    """The first paragraph of each page names its purpose."""
    title, empty, first = path.read_text().splitlines()[:3]
    assert title.startswith("# ")
    assert not empty
    assert first.startswith(("This page ", "This tutorial ", "These pages ", "Goal: "))


CONTENTS = {
    "commands": ROOT / "docs/reference/commands/iallocator.md",
    "fields": ROOT / "docs/reference/documents.md",
}
"""Folders with a table of contents of their own."""


@pytest.mark.parametrize("path", MANUAL, ids=name_of)
def test_page_is_in_the_table_of_contents(path: Path) -> None:
    """Each page is in the table of contents of the manual, or of the design pages."""
    contents = CONTENTS.get(path.parent.name, ROOT / "docs" / "README.md")
    if path not in (contents, *CONTENTS.values(), *DESIGN):
        assert f"({path.relative_to(contents.parent)})" in contents.read_text()


@pytest.mark.parametrize("path", [ROOT / "README.md", *WITH_COMMANDS], ids=name_of)
def test_block_with_a_command_says_how_it_is_tested(path: Path) -> None:
    """Each block with a command is marked "run", "e2e", or "shown" with a reason."""
    wrong = [
        block.mark
        for block in blocks(path)
        if block.mark.startswith("console")
        and not re.fullmatch(r"console (run(: after .+)?|e2e|shown: .+)", block.mark)
    ]
    wrong += [block.mark for block in blocks(path) if re.match(r"[$#] \S", block.text)
              and not block.mark.startswith(("console", "ini", "text"))]  # fmt: skip
    wrong += re.findall(r"(?m)^    \S.*$", prose(path))
    assert not wrong


def test_end_to_end_tests_run_every_page_with_marked_commands() -> None:
    """The pages with blocks marked "e2e" are those that the end-to-end test runs."""
    text = (ROOT / "tests/e2e/scenario/manual.py").read_text()
    listed = re.findall(r'(?m)^    "([a-z-]+/[a-z-]+)",$', text.partition("PAGES = (")[2])
    marked = [
        str(path.relative_to(ROOT / "docs").with_suffix(""))
        for path in MANUAL
        if any(block.mark == "console e2e" for block in blocks(path))
    ]
    assert sorted(listed) == sorted(marked)


@pytest.mark.parametrize("path", [ROOT / "README.md", *MANUAL], ids=name_of)
def test_table_has_a_header(path: Path) -> None:
    """Each table of the manual has a header."""
    for head, rule, *rows in tables(path):
        assert re.fullmatch(r"\|(:?-+:?\|)+", rule), head
        assert all(cell.strip() for cell in head.strip("|").split("|")), head
        assert rows, head


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_have_a_target(path: Path) -> None:
    """Each link of the manual leads to an existing file and heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        name, _, heading = target.partition("#")
        other = path.parent / name if name else path
        assert other.exists(), target
        if heading:
            assert heading in headings(other), target


def headings(path: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    found = re.findall(r"(?m)^#+ (.*)$", path.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def shown(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command of iallocator in the lines and blocks of a page."""
    for found in SHOWN.findall(path.read_text()):
        yield shlex.split("".join(found))[1:]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_that_a_page_shows_take_their_options(path: Path) -> None:
    """Each option in a command on a page exists, and takes a value as on the page."""
    for line in shown(path):
        name, words = form_of(line[0], line)
        table = options_of(name) if name in COMMANDS else COMMON
        known = {name for option in table for name in option.names}
        known |= {"--all"} if words[0] == "help" else set()
        given = {word.split("=")[0] for word in words if word.startswith("-") and word != "-"}
        given = {word if word.startswith("--") else word[:2] for word in given}
        assert given <= known, (words, given - known)


def reference(name: str) -> str:
    """Return the text of a reference page."""
    return (ROOT / "docs/reference" / f"{name}.md").read_text()


@pytest.mark.parametrize(("name", "weight"), [(one.name, one.weight) for one in STATISTICS])
def test_page_of_the_statistics_has_each_with_its_weight(name: str, weight: float) -> None:
    """The page of statistics has a row with the weight of each term of the score."""
    assert re.search(rf"(?m)^\| `{name}` \|.*\| {weight} \|$", reference("statistics"))


@pytest.mark.parametrize("reason", [*REASONS, "FailStrategy", "FailGroup"])
def test_page_of_failure_reasons_has_each(reason: str) -> None:
    """The page of failure reasons has a row for each reason, with meaning and remedy.

    ``FailInternal`` is a reason of hail that is never counted.
    """
    row = re.search(rf"(?m)^\| `{reason}` \| .+ \| .+ \|$", reference("failure-reasons"))
    assert row or reason == "FailInternal"


@pytest.mark.parametrize(
    ("owner", "kind"), [(owner, kind) for owner, kinds in OUR_TAGS.items() for kind in kinds]
)
def test_page_of_tags_has_each(owner: str, kind: str) -> None:
    """The page of tags has a row for each tag, with the object that has it."""
    rows = [line.split("|") for line in reference("tags").splitlines() if line.startswith("| `")]
    owners = [cells[2] for cells in rows if f"`iallocator:{kind}" in cells[1]]
    assert any(owner in cell.replace(",", " ").split() for cell in owners)


def test_dashboard_and_alerts_use_metrics_that_exist() -> None:
    """Each metric in the examples for Grafana and Prometheus exists."""
    for file in ("ganeti-alerts.yml", "ganeti-dashboard.json"):
        text = (ROOT / "docs/examples" / file).read_text()
        names = set(re.findall(r"iallocator_(\w+)", text))
        assert names
        assert {re.sub(r"(duration_seconds)_(sum|count)$", r"\1", name) for name in names} <= {
            *METRIC_DESCRIPTIONS
        }, file


# The tool that checks the language.

SHORT = "This page is short. It has two sentences.\n"

UNKNOWN = "no_such_" + "name"

LONG = "This sentence has far too many words, " + "and goes on, " * 9 + "and never ends.\n"


def found(folder: Path, name: str, text: str) -> str:
    """Return the output of `tools/prose` for a file with this text; "" without findings."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "prose"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.md", SHORT, ""),
        ("a.md", LONG, "page.md:1: a sentence of 37 words"),
        ("a.md", SHORT + "\n* Nobody moves.\n", '3: "Nobody": write'),
        ("a.md", "The output is `nobody`.\n", ""),
        ("a.md", "```\nnobody\n```\n", ""),
        ("a.md", f"| a | b |\n|---|---|\n| {LONG.strip()} | x |\n", "3: a sentence"),
        ("a.py", '"""Return the node."""\n', ""),
        ("a.py", '"""The same, but slower."""\n', 'a docstring begins with "The same"'),
        ("a.py", 'def f():\n    """Whether it fits."""\n', '2: a docstring begins with "Whether"'),
        ("a.py", 'X = 1\n"""Whoever asks."""\n', '2: "Whoever"'),
        ("a.py", "X = 1  # who knows\n", '1: "who"'),
        ("a.py", 'X = "who"\n', ""),
        ("a.py", 'def f():\n    """Call `f`, `blocks` or ``g``."""\n', ""),
        ("a.py", f'"""A module.\n\nSee `f.{UNKNOWN}`.\n"""\nf = 1\n', "3: no module contains the"),
    ],
)
def test_text_with_a_discouraged_form_is_reported(
    name: str, text: str, expected: str, tmp_path: Path
) -> None:
    """`tools/prose` reports a discouraged word with its line, but not within code."""
    printed = found(tmp_path, name, text)
    assert expected.removeprefix("page.md:") in printed
    assert bool(printed) is bool(expected)
