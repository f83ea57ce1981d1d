"""Test the man pages and completions, which are generated from the option tables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iallocator.commands import COMMANDS, options_of
from iallocator.commands.usage import description, exit_statuses
from iallocator.options.table import COMMON
from tests.paths import ROOT


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build man pages and completions, and return the folder with both."""
    folder = tmp_path_factory.mktemp("manuals")
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "man", "-d", folder / "cache",
         "-c", "docs", ".", folder / "man"],
        cwd=ROOT, check=True,
    )  # fmt: skip
    subprocess.run(
        [sys.executable, ROOT / "tools" / "completions", folder / "completion"], check=True
    )
    return folder


@pytest.fixture(scope="module")
def pages(made: Path) -> dict[str, str]:
    """Return the text of each man page on one line, without marks of the typesetter."""
    return {
        path.stem: " ".join(
            re.sub(r"\\f[BIRP]", "", path.read_text())
            .replace("\\(aq", "'")
            .replace("\\", "")
            .split()
        )
        for path in (made / "man").glob("*.1")
    }


def test_generated_pages_are_up_to_date() -> None:
    """The generated pages of the manual equal the output of the generator."""
    command = [sys.executable, str(ROOT / "tools" / "reference"), "--check"]
    there = {**os.environ, "TZ": "Asia/Tokyo"}
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_shows_two_examples_and_its_exit_statuses(command: str) -> None:
    """The page of each command has two examples and its exit statuses."""
    page = (ROOT / f"docs/reference/commands/{command}.md").read_text()
    assert page.count("```console ") == 2
    for status in exit_statuses(command):
        assert f"\n| {status} | " in page


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_page_of_a_command_names_each_of_its_options(command: str, pages: dict[str, str]) -> None:
    """The man page of a command has every spelling of every option, with its description."""
    page = pages[f"iallocator-{command}" if command else "iallocator"]
    for option in options_of(command) if command else COMMON:
        for spelling in option.names:
            assert spelling in page
        assert " ".join(option.help.split()).replace("\\", "") in page


def test_description_of_a_command_names_no_module() -> None:
    """The description of a command names no modules and functions."""
    for name in COMMANDS:
        assert not re.findall(r"[a-z]+[_.][a-z_.]+\b(?<!\.)", description(name)), name


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_pages_are_typeset_without_a_warning(made: Path) -> None:
    """The man pages are typeset without a warning."""
    for page in sorted((made / "man").iterdir()):
        command = ["groff", "-ww", "-Kutf8", "-man", "-Tutf8", str(page)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == "", page.name


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("iallocator bal", {"balance", "balance-groups"}),
        ("iallocator balance --look", {"--lookahead"}),
        ("iallocator -v squeeze --mas", {"--master=", "--master-node="}),
        ("iallocator --strat", {"--strategy="}),
    ],
)
def test_bash_completes_commands_and_their_options(
    line: str, expected: set[str], made: Path
) -> None:
    """In bash, exactly the valid words are completed."""
    words = line.split()
    script = (
        f". {made}/completion/iallocator; COMP_WORDS=({' '.join(words)}); "
        f"COMP_CWORD={len(words) - 1}; compopt() {{ :; }}; _iallocator; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_reads_its_completion(made: Path) -> None:
    """The completion script is valid for zsh."""
    subprocess.run(["zsh", "-n", made / "completion" / "_iallocator"], check=True)
