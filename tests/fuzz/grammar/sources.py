"""Generate clusters in other formats, and further files, and break them."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from iallocator.commands import COMMANDS
from iallocator.sources.live.load import QUERY_FIELDS as FIELDS_OF
from tests.builders import Json

from ..case import LUXI
from .breaking import broken
from .encoding import damaged, packed, written
from .scenario import scenario
from .wording import table, value_of

__all__ = [
    "beside", "captured", "configuration", "document", "live", "simulated", "text", "through_luxi",
]  # fmt: skip

TESTS = Path(__file__).parents[2]

Files = dict[str, bytes]


def document(rng: Random, most: int = 3) -> bytes:
    """Return a request document that is broken in up to `most` ways."""
    whole = scenario(rng)
    broken(rng, whole, most)
    return _carried(rng, written(whole))


def _carried(rng: Random, raw: bytes) -> bytes:
    """Return `raw`, mostly unchanged, else compressed or damaged."""
    drawn = rng.random()
    if drawn < 0.06:
        return damaged(rng, raw)
    return packed(rng, raw) if drawn < 0.09 else raw


@cache
def _recorded(name: str) -> str:
    return (TESTS / "live" / "recorded" / name).read_text()


def live(rng: Random) -> tuple[list[str], Files]:
    """Return options and files of a running cluster: RAPI answers and reports of daemons."""
    files = {}
    spoilt = rng.choice(ANSWERS)
    for name in ANSWERS:
        answer = json.loads(_recorded(name))
        if name == spoilt or rng.random() < 0.1:
            answer = _broken_answer(rng, answer)
        files[f"rapi/{name}"] = _carried(rng, written(answer))
    words = ["--rapi=file://rapi"]
    if rng.random() < 0.4:
        files["mond"] = written(_broken_answer(rng, json.loads(_recorded("mond.json"))))
        words += ["--mond-data=mond", *rng.sample(MEASURED, rng.randint(0, 2))]
    return words, files


def through_luxi(rng: Random) -> tuple[list[str], Files]:
    """Return options and files of LUXI answers with a few broken fields."""
    spoilt = rng.choice(("QueryClusterInfo", *FIELDS_OF))
    files = {}
    for what, answer in _answers_of_daemons().items():
        output = json.loads(json.dumps(answer))
        if what == spoilt or rng.random() < 0.1:
            output = _broken_answer(rng, output)
        files[f"{LUXI}{what}"] = written(output)
    return ["--luxi=luxi.sock"], files


@cache
def _answers_of_daemons() -> Json:
    """Return the recorded LUXI answers with the fields that the program requests."""
    output = json.loads(_recorded("luxi.json"))
    found: Json = {"QueryClusterInfo": output["QueryClusterInfo"]}
    for what, fields in FIELDS_OF.items():
        names = [field["name"] for field in output[what]["fields"]]
        where = [names.index(field) for field in fields.split()]
        rows = [[row[at] for at in where] for row in output[what]["data"]]
        found[what] = {"fields": [], "data": rows}
    return found


ANSWERS = ("groups.json", "info.json", "instances.json", "networks.json", "nodes.json")

MEASURED = ("--mond", "--mond-xen", "--exit-on-missing-mond-data")


def _broken_answer(rng: Random, answer: Any) -> Any:
    """Return an answer with broken content in a valid envelope, or a broken envelope."""
    held: Json = {"answer": deepcopy(answer)}  # a case must not change the next one
    broken(rng, held)
    return held.get("answer")


def text(rng: Random) -> tuple[list[str], Files]:
    """Return a text file with swapped sections, lines and fields, or wrong numbers."""
    parts = [part.split("\n") for part in _sample(rng).split("\n\n")]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        _disturb(rng, parts)
    raw = "\n\n".join("\n".join(lines) for lines in parts).encode("utf-8", "surrogatepass")
    return ["--text-data=data"], {"data": _carried(rng, raw)}


@cache
def _samples() -> tuple[str, ...]:
    found = sorted(TESTS.parent.glob("fixtures/*/*/cluster.data"))
    return tuple(path.read_text() for path in found if path.stat().st_size < 4000)


def _sample(rng: Random) -> str:
    return rng.choice(_samples())


FIELDS = (
    "", "-1", "0", "1.5", "1e3", "9" * 30, "nan", "Y", "N", "S", "M", "X", "drbd", "plain",
    "running", "ADMIN_down", "ERROR_up", "a,b", ",", "|", "1;2", "1,1,1", "\ud800",
    "\x00", "x" * 2000, " ",
    "preferred", "node1", "group1", "rbd,rbd", "1,2,3,4,5,6;7", "٣",
)  # fmt: skip


def _disturb(rng: Random, parts: list[list[str]]) -> None:
    kind = rng.randrange(7)
    if kind == 0:
        rng.shuffle(parts)
    elif kind == 1:
        parts.insert(rng.randrange(len(parts) + 1), list(rng.choice(parts)))
    elif kind == 2 and len(parts) > 1:
        del parts[rng.randrange(len(parts))]
    else:
        lines = rng.choice(parts)
        at = rng.randrange(len(lines))
        fields = lines[at].split("|")
        one, two = rng.randrange(len(fields)), rng.randrange(len(fields))
        if kind == 3:
            fields[one], fields[two] = fields[two], fields[one]
        elif kind == 4:
            fields[one] = rng.choice(rng.choice(rng.choice(parts)).split("|"))
        elif kind == 5:
            fields = [*fields[:one], *fields[two:]]
        else:
            fields[one] = rng.choice(FIELDS)
        lines[at] = "|".join(fields)


def simulated(rng: Random) -> tuple[list[str], Files]:
    """Return options that specify clusters without instances, some of them wrong."""
    words = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        fields = [
            rng.choice(("preferred", "p", "last_resort", "unallocable", "", "x")),
            rng.choice(("0", "1", "3", "8", "-1", "x")), rng.choice(SIZES), rng.choice(SIZES),
            rng.choice(("0", "1", "8", "9007199254740993")), rng.choice(("0", "1", "x")),
        ]  # fmt: skip
        words.append("--simulate=" + ",".join(fields[: rng.choice((5, 5, 6, 6, 4))]))
    return words, {}


SIZES = (
    "100g",
    "4096",
    "0",
    "1",
    "8t",
    "9007199254740992",
    "9" * 20,
    "1.5g",
    "4 G",
    "-1",
    "gg",
    "16G",
)


def beside(rng: Random, command: str) -> tuple[list[str], Files]:
    """Return options and files that `command` reads besides the cluster."""
    if command in ("balance", "check", "squeeze", "balance-groups") and rng.random() < 0.3:
        rows = [" ".join([rng.choice(("i0", "i1", "gone", "")), *rng.choices(LOADS, k=k)])
                for k in rng.choices((4, 4, 4, 3, 5, 0), k=rng.randint(0, 4))]  # fmt: skip
        raw = rng.choice(("\n", "\n", "\r\n", "\r")).join(rows).encode("utf-8", "surrogatepass")
        return ["--dynu-file=loads"], {"loads": _carried(rng, raw)}
    if command == "capacity" and rng.random() < 0.4:
        words, files = captured(rng)
        return [f"--replay={words[-1]}"], files
    return [], {}


LOADS = (
    "0",
    "1",
    "0.5",
    "1e6",
    "1e15",
    "9007199254740993",
    "1e308",
    "-1",
    "nan",
    "inf",
    "x",
    "1e-300",
)


def captured(rng: Random) -> tuple[list[str], Files]:
    """Return a folder of captured calls, of which some are incomplete or broken."""
    files: Files = {}
    for number in range(1, rng.randint(1, 4)):
        path = f"calls/{number:06}"
        whole = {
            "request.json.gz": packed(rng, document(rng, 2)),
            "response.json.gz": packed(rng, b'{"success":true,"info":"i","result":["n0"]}'),
            "call.json": written(_broken_answer(rng, dict(CALL) | {"number": number})),
            "args": rng.choice((b"", b"--top=2\n", b"\xff", b"--gone", b"--n1=off\n--optimal\n")),
            "conf": configuration(rng)[1]["conf"],
        }
        for kind, raw in whole.items():
            if rng.random() < 0.85:
                files[f"{path}.{kind}"] = raw
    files.setdefault("calls/other", b"")
    return ["calls"], files


CALL = {
    "time": "2025-01-01T00:00:00.000Z", "started": 1735689600.0, "seconds": 0.1, "status": 0,
    "type": "allocate", "outcome": "success", "names": ["new"], "version": "1", "pid": 1,
}  # fmt: skip


def configuration(rng: Random) -> tuple[list[str], Files]:
    """Return a configuration file: valid TOML, nearly valid TOML, or something else."""
    lines = []
    for section in ("", *rng.sample(list(COMMANDS), 2)):
        lines += [f"[{section}]"] if section else []
        lines += [_setting(rng, section) for _ in range(rng.randint(0, 2))]
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    return ["--config=conf"], {"conf": damaged(rng, raw) if rng.random() < 0.1 else raw}


def _setting(rng: Random, section: str) -> str:
    option = rng.choice(table(section))
    name = option.names[0].removeprefix("--")
    fitting = "true" if option.read is None else f'"{value_of(rng, option)}"'
    value = fitting if rng.random() < 0.6 else rng.choice(VALUES)
    return f"{name} {'=' if rng.random() < 0.95 else rng.choice((' ', '.a ='))} {value}"


VALUES = (
    "true", "false", "1", "3", "-1", "0.5", "1e400", "nan", "inf", '"yes"', '"no"', '"n0"', "[]",
    '["n0", "n1"]', "[1, 2]", "{}", "2020-01-01", '"""a\nb"""', "'strict'", '"off"', '""', "0x7f",
)  # fmt: skip
"""Values of each type of TOML, some of them unusual."""
