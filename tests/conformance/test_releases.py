"""Test the table of Ganeti releases: which release is followed, and what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iallocator.compat import behaviour_of, releases
from iallocator.compat.hail import BEHAVIOUR
from iallocator.compat.releases import RELEASES, followed
from tests.command import complaint, printed, run
from tests.paths import ROOT

from . import htools
from .command_lines import Case

REQUEST = next((ROOT / "fixtures/captured").glob("006-*")) / "request.json"


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which a test sets the installed release, and that of the package."""
    monkeypatch.setattr(releases, "GANETI", str(tmp_path / "ganeti"))
    monkeypatch.setattr(releases, "BUILT_FOR", str(tmp_path / "built-for"))
    return tmp_path


@pytest.mark.parametrize(
    ("installed", "version"), [("3.0", "3.0"), ("3.1", "3.1"), ("3.2", "3.1"), ("2.16", "3.0")]
)
def test_the_installed_ganeti_is_followed(debian: Path, installed: str, version: str) -> None:
    """The release of the installed Ganeti is followed, not that of the package.

    An unknown release behaves as the known one before it.
    """
    (debian / "built-for").write_text("3.0\n" if installed == "3.1" else "3.1\n")
    (debian / "ganeti" / installed).mkdir(parents=True)
    assert followed() == version


def test_the_link_of_the_administrator_decides_between_two_releases(debian: Path) -> None:
    """Of two installed releases, the one that the administrator's link names is followed.

    Debian has several releases side by side during an upgrade.
    """
    for installed in ("3.0", "3.1"):
        (debian / "ganeti" / installed).mkdir(parents=True)
    assert followed() == "3.1"
    (debian / "ganeti/default").symlink_to(debian / "ganeti/3.0")
    assert followed() == "3.0"


def test_without_ganeti_the_release_of_the_package_is_followed(debian: Path) -> None:
    """Without Ganeti, the release of the package is followed, else the oldest one."""
    assert followed() == next(iter(RELEASES))
    (debian / "built-for").write_text("3.1\n")
    assert followed() == "3.1"


@pytest.mark.parametrize("version", RELEASES)
def test_answers_and_plans_of_all_releases_are_equal(version: str) -> None:
    """Answers and plans are equal for all releases with ``--compat hail-VERSION``."""
    assert behaviour_of(f"hail-{version}") is BEHAVIOUR
    both = ("hail", f"hail-{version}")
    assert len({printed("--compat", compat, str(REQUEST)) for compat in both}) == 1
    words = ("squeeze", "--simulate", "p,3,100g,16g,8", "--compat")
    assert len({printed(*words, compat) for compat in both}) == 1


def test_an_unknown_release_is_rejected() -> None:
    """An unknown release of hail is rejected with the list of known ones."""
    done = run("--compat", "hail-2.16", str(REQUEST))
    assert all(f"hail-{version}" in complaint(done) for version in RELEASES)


@pytest.mark.parametrize(
    ("version", "writing", "socket"), [("3.0", "openFile", 3), ("3.1", "withFile", 4)]
)
def test_errors_have_the_words_of_the_release(
    version: str, writing: str, socket: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors have the words of the release, for unwritable files and missing sockets."""
    monkeypatch.setattr(htools, "_release", lambda programs: version)
    node, instance = "n1|100|0|99|100|99|4|N|u|1", "i1|1|1|1|running|Y|n1||plain|"
    text = f"g|u|preferred||\n\n{node}\n\n{instance}\n\n\n"
    done = htools.ours(Case("hbal", ("-t", "c.data", "-Snothing/saved"), {"c.data": text}))
    assert done.status == 1
    assert f"nothing/saved.original: {writing}: does not exist" in done.err
    done = htools.ours(Case("harep", ("-Lnothing.socket",), {}))
    assert f"Network.Socket.connect: <socket: {socket}>: does not exist" in done.err
