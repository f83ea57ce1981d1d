"""Check the contents of the source package, the extras, and the folder of captured calls."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parents[2]

BY_ITSELF = {"LICENSE", "bin", "iallocator", "pyproject.toml", "setup.cfg"}
"""Files that setuptools includes by itself."""

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
    """MANIFEST.in names everything at the top of the repository."""
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
    """The package creates the folders for root only; the pages and the settings file name them."""
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
