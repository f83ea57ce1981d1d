"""Test every number of the input: in options, by their tables, and in fields of every source.

A new option or field needs no entry in this module: both are found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.commands import COMMANDS, options_of
from iallocator.errors import UsageError
from iallocator.options.table import COMMON, Option

from .__main__ import examine
from .case import LUXI, Case, Outcome, run
from .grammar import sources
from .grammar.scenario import scenario
from .oracles import complaints

Files = dict[str, bytes]
Source = tuple[list[str], Files]

NONE = (
    "nan", "NaN", "inf", "-inf", "+inf", "Infinity", "1e309", "-1e309", "1e400", "1_000", "0x10",
    "\N{ARABIC-INDIC DIGIT THREE}", "\N{VULGAR FRACTION ONE HALF}", "1e", "--1", "1.2.3", "",
)  # fmt: skip
"""Texts that are no number, or a number that a float cannot represent."""

LONG = ("9" * 400, "-" + "9" * 400)
"""Whole numbers of many digits."""

LADDER = ("-9007199254740992", "-1", "-1e-300", "0", "1e-320", "1e-9", "1", "20", "10000",
          "1000000", "9007199254740992")  # fmt: skip
"""Numbers from the lowest to the highest that any option accepts."""

SPECS = ("{0},{0},{0}", "1g,1g,{}", "1g,1g,1,{}", "{},1g,1")
"""Forms of several numbers with commas, into which one odd number is put."""

HIGHEST = 2.0**93
"""The largest size in bytes, 2 ** 53 TiB."""

IN_SOURCES = (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 400, b"-1", b"1e-320", b"0",
              b"9007199254740992", b"9007199254740993", b"1e308", b"0.1")  # fmt: skip

IN_TEXT = [raw.decode() for raw in IN_SOURCES] + ["nan", "inf", "1_0", "٣"]


def tables() -> Iterator[tuple[str, Option]]:
    """Yield command and option for all options with a value; "" stands for requests."""
    for command in ("", *COMMANDS):
        for option in options_of(command) if command else COMMON:
            if option.read is not None:
                yield command, option


def value_of(option: Option, text: str) -> Any:
    """Return the value that the option reads from `text`, or None if it rejects the text."""
    assert option.read is not None
    try:
        return option.read(text)
    except (ValueError, UsageError):
        return None


def numeric(option: Option) -> bool:
    """Return whether the option takes exactly one number."""
    taken = [text for text in LADDER if isinstance(value_of(option, text), int | float)]
    return bool(taken) and value_of(option, "x") is None


def numbers_in(value: Any) -> Iterator[float]:
    """Yield all numbers in a value, at any depth."""
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from numbers_in(one)
    elif hasattr(value, "__slots__"):
        for name in value.__slots__:
            yield from numbers_in(getattr(value, name, None))


def numeric_options() -> list[tuple[str, Option]]:
    """Return all options with a number, each common option once."""
    return [(command, option) for command, option in tables() if numeric(option)]


def test_options_accept_only_finite_numbers() -> None:
    """Every number that an option accepts is finite and within its range."""
    seen = 0
    for _, option in tables():
        alone = numeric(option)
        given = (*NONE, *LONG, *LADDER)
        for text in (*given, *(shape.format(one) for one in given for shape in SPECS)):
            value = value_of(option, text)
            assert not (alone and text in NONE and value is not None), (option.names, text)
            for number in numbers_in(value):
                seen += 1
                assert isfinite(number), (option.names, text)
                assert abs(number) <= HIGHEST, (option.names, text)
    assert seen > 500
    assert len(numeric_options()) > 60


def fitting_case(command: str, words: list[str]) -> Case:
    """Return a run of `command` with options, on a small cluster that suits it."""
    document = scenario(Random("numbers/7"))
    question = ["allocate", "--memory=1G", "--disk=1G"] if command == "ask" else []
    place = {"history": ["calls"], "replay": ["case"]}.get(command, ["doc"])
    raw = json.dumps(document).encode()
    files = {"doc": raw, "case/request.json": raw, **sources.captured(Random(3))[1]}
    return Case("", (*([command] if command else []), *question, *words, *place), files)


def errors_of(case: Case, done: Outcome | None = None) -> list[str]:
    """Return the errors of a run of `case`, with the case."""
    found = complaints(case, done or run(case))
    return [f"{' '.join(case.arguments)}", *found] if found else []


LIMITED = {"time_limit", "days", "job_delay"}
"""Options that wait, or end a search; they are tested without ``--time-limit``."""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_lowest_and_highest_number_of_each_option_cause_no_crash(command: str) -> None:
    """With the lowest and highest number of each option, the answer is complete and valid.

    It fits its schema and has only finite numbers.
    """
    for option in (one for name, one in numeric_options() if name == command):
        taken = [text for text in LADDER if value_of(option, text) is not None]
        shape = [] if command in ("", "snapshot", "show") else ["--json"]
        known = {one.target for one in (options_of(command) if command else COMMON)}
        if "time_limit" in known and option.target not in LIMITED:
            shape.append("--time-limit=1")
        for text in {taken[0], taken[-1]}:
            words = [
                f"{option.names[0]}={text}",
                *(one for one in shape if one != "--json" or "json" in known),
            ]
            assert errors_of(fitting_case(command, words)) == []


def test_configurations_accept_only_finite_numbers() -> None:
    """A configuration file with a number that is not finite is rejected, for each option."""
    for command, option in numeric_options():
        if option.target in ("config", "no_config"):
            continue
        for text in ("nan", "inf", "1e400"):
            section = f"[{command}]\n" if command else ""
            raw = f"{section}{option.names[0].removeprefix('--')} = {text}\n".encode()
            case = fitting_case(command, ["--config=conf"])
            done = run(case._replace(files={**case.files, "conf": raw}))
            assert (done.status, errors_of(case, done)) == (2, []), raw


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield kind of place, container and key of each number in `value`.

    Members of a list are of one kind.
    """
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in pairs:
        kind = (*path, key if isinstance(key, str) and path[:1] != ("nodes",) else "*")
        if isinstance(one, dict | list):
            yield from leaves(one, kind)
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield kind, value, key


MARK = 7770777
"""Number that stands for the number to be inserted."""


def spoilt(document: Any, chances: Random, most: int) -> Iterator[bytes]:
    """Yield the document with one number of each kind replaced."""
    kinds: dict[tuple[str, ...], tuple[Any, Any]] = {}
    for kind, container, key in leaves(document):
        kinds.setdefault(tuple(kind[-3:]), (container, key))
    picked = sorted(kinds)
    for kind in chances.sample(picked, min(most, len(picked))):
        container, key = kinds[kind]
        before, container[key] = container[key], MARK
        raw = json.dumps(document).encode()
        container[key] = before
        yield raw.replace(str(MARK).encode(), chances.choice(IN_SOURCES))


def documents(chances: Random, most: int) -> Iterator[Source]:
    """Yield captured documents with one number replaced."""
    for raw in spoilt(scenario(Random("numbers/7")), chances, most):
        yield ["doc"], {"doc": raw}


def answers(chances: Random, most: int) -> Iterator[Source]:
    """Yield answers of RAPI and measured loads with one number replaced."""
    names = [*sources.ANSWERS, "mond.json"]
    whole = {name: sources._recorded(name).encode() for name in names}
    for name in names:
        for raw in spoilt(json.loads(whole[name]), chances, most):
            files = {f"rapi/{one}": text for one, text in (whole | {name: raw}).items()}
            yield ["--rapi=file://rapi", "--mond-data=rapi/mond.json"], files


def daemons(chances: Random, most: int) -> Iterator[Source]:
    """Yield answers of LUXI with one number replaced."""
    whole = sources._answers_of_daemons()
    for name, answer in whole.items():
        for raw in spoilt({"": json.loads(json.dumps(answer))}, chances, most):
            files = {f"{LUXI}{one}": json.dumps(output).encode() for one, output in whole.items()}
            files[f"{LUXI}{name}"] = raw[raw.index(b":") + 1 : -1]
            yield ["--luxi=luxi.sock"], files


def texts(chances: Random, most: int) -> Iterator[Source]:
    """Yield text files with one number replaced."""
    for _ in range(most * 2):
        lines = chances.choice(sources._samples()).split("\n")
        at = chances.choice([k for k, line in enumerate(lines) if "|" in line])
        fields = lines[at].split("|")
        parts = fields[(k := chances.randrange(len(fields)))].split(",")
        parts[chances.randrange(len(parts))] = chances.choice(IN_TEXT)
        fields[k] = ",".join(parts)
        lines[at] = "|".join(fields)
        yield ["-t", "data"], {"data": "\n".join(lines).encode()}


def loads(chances: Random, most: int) -> Iterator[Source]:
    """Yield files of loads of instances with one number replaced."""
    raw = json.dumps(scenario(Random("numbers/7"))).encode()
    for text in chances.sample(IN_TEXT, min(most, len(IN_TEXT))):
        row = ["1", "1", "1", "1"]
        row[chances.randrange(4)] = text
        yield ["-Uloads", "doc"], {"doc": raw, "loads": f"i0 {' '.join(row)}\n".encode()}


def lines_of_numbers(chances: Random, most: int) -> Iterator[Source]:
    """Yield specifications of simulated clusters with one number replaced."""
    for text in chances.sample([*IN_TEXT, "0" * 5000], min(most, len(IN_TEXT))):
        fields = ["preferred", "2", "100g", "16g", "4", "1"]
        fields[chances.randrange(1, 6)] = text
        yield [f"--simulate={','.join(fields)}"], {}


def sizes(chances: Random, most: int) -> Iterator[Source]:
    """Yield sizes of instances for `capacity` with one number replaced."""
    for text in chances.sample(IN_TEXT, min(most, len(IN_TEXT))):
        fields = ["1g", "1g", "1", "1"]
        fields[chances.randrange(4)] = text
        option = chances.choice(("--standard-alloc", "--tiered-alloc"))
        words = [f"{option}={','.join(fields)}", "--simulate=preferred,2,100g,16g,4"]
        yield words, {}


SOURCES: dict[str, tuple[Callable[[Random, int], Iterator[Source]], tuple[str, ...]]] = {
    "documents": (documents, ("balance", "check", "capacity", "constraints")),
    "answers": (answers, ("balance", "check", "squeeze")),
    "daemons": (daemons, ("check", "balance")),
    "texts": (texts, ("balance", "check", "capacity", "place")),
    "loads": (loads, ("balance", "check")),
    "simulated": (lines_of_numbers, ("capacity", "check")),
    "sizes": (sizes, ("capacity",)),
}
"""Source of numbers -> generator of its values, and the commands that read it."""


def tried(source: str, seed: int, most: int) -> Iterator[Case]:
    """Yield runs of commands on a source with one number replaced at a time."""
    drawn, commands = SOURCES[source]
    chances = Random(f"{source}/{seed}")
    for words, files in drawn(chances, most):
        command = chances.choice(commands)
        limit = [] if command == "constraints" else ["--time-limit=1"]
        yield Case(source, (command, "--json", *limit, *words), files)


@pytest.mark.parametrize("source", SOURCES)
def test_infinite_number_of_a_source_is_rejected_or_causes_no_crash(source: str) -> None:
    """An infinite number in a source is rejected in one line, or the answer is complete.

    The answer then has only finite numbers.
    """
    statuses = []
    for case in tried(source, 1, 8):
        done = run(case)
        assert errors_of(case, done) == []
        statuses.append(done.status)
    assert 2 in statuses


@pytest.mark.parametrize("command", ["balance", "check", "report", "capacity", "explain"])
def test_page_of_names_with_thousands_of_digits_is_written(command: str) -> None:
    """A page with names that contain numbers of thousands of digits is written."""
    case = fitting_case(command, ["--html=page"])
    raw = case.files["doc"].replace(b'"n1"', b'"n%s"' % (b"1" * 5000))
    assert raw != case.files["doc"]
    assert errors_of(case._replace(files={**case.files, "doc": raw})) == []


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_extreme_numbers_of_a_source_are_rejected_or_cause_no_crash(source: str) -> None:
    """Each kind of extreme number in a source is rejected, or causes no crash."""
    for seed in range(2, 8):
        for case in tried(source, seed, 1000):
            assert errors_of(case) == []


# Every input that ever failed, and some new ones; `make fuzz` tries as many as time allows.


CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus_case_passes(path: Path) -> None:
    """Each case of the corpus, which once failed, has all required properties."""
    case = Case.load(path)
    assert complaints(case, run(case)) == []


@pytest.mark.parametrize(
    ("damager", "start"),
    [("values", start) for start in range(100, 1100, 100)]
    + [("grammar", start) for start in range(0, 2000, 100)],
)
def test_generated_cases_have_all_required_properties(damager: str, start: int) -> None:
    """Generated cases of every kind have complete answers in time, or reported errors."""
    cases = range(start, start + 100)
    assert {number: found for number in cases if (found := examine(number, damager))} == {}


@pytest.mark.parametrize("damager", ["values", "grammar"])
def test_several_processes_check_the_cases(damager: str) -> None:
    """`python -m tests.fuzz -j 2` checks all cases, and prints how many failed."""
    command = [sys.executable, "-m", "tests.fuzz", f"--damager={damager}", "--cases=4", "-j2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("4 cases, 0 failed\n", "", 0)
