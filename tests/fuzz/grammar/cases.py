"""Generate fuzz cases by the meaning of the parts of input; equal numbers give equal cases."""

from __future__ import annotations

from random import Random

from iallocator.commands import COMMANDS

from ..case import Case
from . import sources
from .wording import QUESTIONS, options

__all__ = ["make"]

PLANNING = tuple(sorted(COMMANDS.keys() - {"replay", "history", "explain", "ask", "config"}))
"""Commands that accept a cluster from any source."""

PLACES = (sources.text, sources.live, sources.simulated, sources.through_luxi)


def make(number: int) -> Case:
    """Return the random case number `number`; equal numbers give equal cases."""
    rng = Random(f"grammar/{number}")
    build = rng.choice(
        (_request, _request, _request, _request, _explain, _planner, _planner, _planner, _elsewhere,
         _elsewhere, _asked, _history, _replay, _configured)
    )  # fmt: skip
    return build(rng, f"{build.__name__[1:]} {number}")


def _files(rng: Random) -> dict[str, bytes]:
    return {"doc": sources.document(rng)}


def _request(rng: Random, name: str) -> Case:
    words = [*options(rng, "", rng.choice((0, 1, 2, 4))), "--time-limit=1"]
    if rng.random() < 0.05:
        words += rng.choice(
            (["--log=log"], ["--capture=."], ["--capture=gone"], ["--max-input=1k"])
        )
    return Case(name, (*words, "doc"), _files(rng))


def _explain(rng: Random, name: str) -> Case:
    return Case(name, ("explain", *options(rng, "explain"), "--time-limit=1", "doc"), _files(rng))


def _command(rng: Random) -> list[str]:
    command = rng.choice(PLANNING)
    words = [command, *options(rng, command)]
    if command not in ("constraints", "show", "snapshot", "report", "repair"):
        words.append("--time-limit=1")
    return words


def _planner(rng: Random, name: str) -> Case:
    words = _command(rng)
    more, files = sources.beside(rng, words[0])
    return Case(name, (*words, *more, "doc"), _files(rng) | files)


def _elsewhere(rng: Random, name: str) -> Case:
    words = _command(rng)
    place, files = rng.choice(PLACES)(rng)
    more, others = sources.beside(rng, words[0])
    if words[0] == "make-room":  # a request about that cluster
        more, others = [*more, "doc"], others | _files(rng)
    return Case(name, (*words, *place, *more), files | others)


def _asked(rng: Random, name: str) -> Case:
    question = rng.choice(QUESTIONS)
    words = ("ask", *question, *options(rng, "ask"), "--time-limit=1")
    if rng.random() < 0.3:
        place, files = rng.choice(PLACES)(rng)
        return Case(name, (*words, *place), files)
    return Case(name, (*words, "doc"), _files(rng))


def _history(rng: Random, name: str) -> Case:
    folder, files = sources.captured(rng)
    if rng.random() < 0.3:
        call = rng.choice(("calls#1", "calls#000001", "calls#", "calls#-1", "calls#1#1", "calls#٣"))
        return Case(name, ("explain", *options(rng, "explain"), call), files)
    return Case(name, ("history", *options(rng, "history"), *folder), files)


def _replay(rng: Random, name: str) -> Case:
    folder, files = sources.captured(rng)
    files["case/request.json"] = sources.document(rng, 1)
    files["case/args"] = rng.choice((b"", b"--top=2\n", b"--gone", b"\xff", b"balance\n--json\n"))
    if rng.random() < 0.5:
        files["case/response.json"] = rng.choice((b"{}", b"", b"[]", b'{"success":true}', b"\xff"))
    return Case(
        name, ("replay", *options(rng, "replay"), *rng.choice((folder, ["case"], ["."]))), files
    )


def _configured(rng: Random, name: str) -> Case:
    words, files = sources.configuration(rng)
    command = rng.choice(("config", "config", "", "balance", "check"))
    return Case(name, (*([command] if command else ()), *words, "doc"), _files(rng) | files)
