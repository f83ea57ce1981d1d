"""Test that locked requirements fit pyproject.toml, and have hashes and no address."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from tests.paths import ROOT

DESCRIBED = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = DESCRIBED["project"]
EXTRAS = PROJECT["optional-dependencies"]
FILES = {
    "development": [*DESCRIBED["build-system"]["requires"], *EXTRAS["dev"]],
    "plugin": [*EXTRAS["exact"], *EXTRAS["html"]],
}
"""Locked file -> what it contains beside the dependencies of the project."""

PYTHONS = ("3.11", "3.12", "3.13")


def needed(words: list[str]) -> Iterator[Requirement]:
    """Yield the requirements `words`; names of extras are replaced by their requirements."""
    for one in map(Requirement, words):
        if one.name == PROJECT["name"]:
            for extra in one.extras:
                yield from needed(EXTRAS[extra])
        else:
            yield one


def locked(file: str) -> list[tuple[Requirement, list[str]]]:
    """Return each requirement of a locked file with its hashes; assert that it has no more."""
    found = []
    text = (ROOT / f"requirements/{file}.txt").read_text().replace("\\\n", "")
    for line in text.splitlines():
        if not line.startswith("#"):
            words, *hashes = re.split(r"\s+--hash=", line.strip())
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), line
            found.append((Requirement(words), hashes))
    return found


def versions(file: str, python: str) -> dict[str, str]:
    """Return the locked versions of packages for a version of Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    found: dict[str, str] = {}
    for one, _ in locked(file):
        if one.marker is None or one.marker.evaluate(environment):
            (exact,) = one.specifier
            assert exact.operator == "=="
            assert one.name not in found
            found[one.name] = exact.version
    return found


def test_every_dependency_has_a_lowest_version_and_a_highest_major_version() -> None:
    """Each dependency has a lowest version and a highest major version.

    `make test-newest` tries a new major version before it is permitted.
    """
    for one in needed([*PROJECT["dependencies"], *FILES["development"]]):
        bounds = {bound.operator: bound.version for bound in one.specifier}
        assert bounds.keys() == {">=", "<"}, one
        assert bounds["<"].isdigit(), one


@pytest.mark.parametrize("file", FILES)
def test_locked_requirements_have_hashes_and_no_address(file: str) -> None:
    """Locked requirements have hashes and no address, so that any package index can be used."""
    assert all(hashes for _, hashes in locked(file))
    text = (ROOT / f"requirements/{file}.txt").read_text()
    assert not re.search(r"://|^-|/", text, re.MULTILINE)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("file", FILES)
def test_locked_requirements_fit_what_the_project_needs(file: str, python: str) -> None:
    """Locked requirements fit pyproject.toml; `make requirements` renews them."""
    known = versions(file, python)
    for one in needed([*PROJECT["dependencies"], *FILES[file]]):
        assert known[one.name] in one.specifier, one
    assert known.items() <= versions("development", python).items()
