"""Check the man pages and completions, which are generated from the option table."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iallocator.commands import COMMANDS, options_of, settings_of
from iallocator.options.table import COMMON

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run ``tools/manuals``, and return the folder with its output."""
    folder = tmp_path_factory.mktemp("manuals")
    subprocess.run([sys.executable, ROOT / "tools" / "manuals", folder], check=True)
    return folder


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_page_of_a_command_names_each_of_its_options(command: str, made: Path) -> None:
    """The page has every spelling of every option, with its description."""
    name = f"iallocator-{command}" if command else "iallocator"
    page = (made / "man" / f"{name}.1").read_text().replace("\\-", "-")
    for option in options_of(command) if command else COMMON:
        for spelling in option.names:
            assert f"\\fB{spelling}\\fR" in page
        assert option.help in page


def test_description_of_a_command_names_no_module() -> None:
    """Names of modules and functions mean nothing to an administrator."""
    for name in COMMANDS:
        described = (settings_of(name).__doc__ or "").replace(f"iallocator {name}", "")
        assert not re.findall(r"`[a-z]+[_.][a-z_.]+`", described), name


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_pages_are_typeset_without_a_warning(made: Path) -> None:
    """The typesetter prints no warning, so no word is mistaken for one of its requests."""
    for page in sorted((made / "man").iterdir()):
        command = ["groff", "-ww", "-man", "-Tutf8", str(page)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stderr == "", page.name


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("iallocator bal", {"balance", "balance-groups"}),
        ("iallocator balance --look", {"--lookahead"}),
        ("iallocator -v squeeze --mas", {"--master="}),
        ("iallocator --strat", {"--strategy="}),
    ],
)
def test_bash_completes_commands_and_their_options(
    line: str, expected: set[str], made: Path
) -> None:
    """The shell offers exactly the words that are valid there."""
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
    """The shell accepts the script."""
    subprocess.run(["zsh", "-n", made / "completion" / "_iallocator"], check=True)
