"""Test the source package, the extras, and the folder of captured calls."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from iallocator import __version__
from iallocator.compat.htools import PROGRAM_PURPOSES
from iallocator.compat.htools.programs import GENERAL, PROGRAMS
from tests.paths import ROOT

BY_ITSELF = {"LICENSE", "bin", "iallocator", "pyproject.toml", "setup.cfg"}
"""Files that setuptools includes without being listed."""

NOT_NEEDED = {".gitignore"}


def tracked() -> set[str]:
    """Return the names of the files and folders at the top of the repository."""
    if which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not in a repository, or no git to ask")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return {line.partition("/")[0] for line in listed.splitlines()}


def test_source_package_is_complete() -> None:
    """MANIFEST.in names every file and folder at the top of the repository."""
    words = {word for line in (ROOT / "MANIFEST.in").read_text().splitlines()
             if not line.startswith("#") for word in line.split()[1:]}  # fmt: skip
    taken = {
        name
        for name in tracked()
        if name in words or any(Path(name).match(word) for word in words if word.startswith("*."))
    }
    assert tracked() - taken - BY_ITSELF - NOT_NEEDED == {"MANIFEST.in"} & tracked()


def test_every_extra_is_in_the_one_for_all() -> None:
    """``.[all]`` includes every extra, and ``.[dev]`` includes ``.[all]``."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = ",".join(sorted(extras.keys() - {"all", "dev"}))
    assert extras["all"] == [f"iallocator[{named}]"]
    assert "iallocator[all]" in extras["dev"]


def test_folders_of_calls_and_loads_are_the_same_in_package_and_manual() -> None:
    """The Debian package creates the folders for captured calls and loads, for root only.

    Their names are those in the manual.
    """
    made = re.findall(r"^install -d -m 700 (.*)$", (ROOT / "tools/make-deb").read_text(), re.M)
    assert len(made) == 1
    created = re.findall(r'"\$root(/[^"]*)"', made[0])
    sources = [ROOT / "packaging/iallocator.conf", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {
        source.name: set(re.findall(r"/var/lib/iallocator/\w+(?=[\s\"`#])", source.read_text()))
        for source in sources
    }
    folders = set().union(*named.values())
    calls, loads = "/var/lib/iallocator/calls", "/var/lib/iallocator/loads"
    others = {f"/var/lib/iallocator/{name}" for name in ("rescue", "totals")}
    assert folders == {calls, loads, *others}
    assert folders <= set(created)
    assert loads in named["balance-every-night.md"]
    for page in ("iallocator.conf", "explain-a-decision.md", "running-clusters.md"):
        assert named[page] == {calls}


def test_the_version_is_that_of_the_change_log_and_the_pages() -> None:
    """Change log, package and pages have one version."""
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
    for page in ("install.md", "upgrade.md"):
        text = (ROOT / "docs/how-to" / page).read_text()
        assert f"iallocator_{__version__}_amd64.deb" in text


def test_every_program_of_htools_has_a_man_page_and_a_completion(tmp_path: Path) -> None:
    """Every program of htools has a man page and a completion with all its options."""
    subprocess.run(
        [sys.executable, str(ROOT / "tools/htools-pages"), str(tmp_path)], check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    for name in PROGRAM_PURPOSES:
        page = (tmp_path / f"man/{name}.1").read_text().replace("\\-", "-")
        completion = tmp_path / f"completion/{name}"
        for option in f"{PROGRAMS[name]} {GENERAL}".split():
            assert f"--{option}" in page
            assert f"--{option}" in completion.read_text()
        subprocess.run(["bash", "-n", str(completion)], check=True)


def test_processes_that_compile_modules_can_import_the_tool() -> None:
    """`tools/write-plugin` does nothing if one of its worker processes imports it.

    From Python 3.13 on, worker processes import the script that started them.
    """
    runpy.run_path(str(ROOT / "tools/write-plugin"), run_name="__mp_main__")
