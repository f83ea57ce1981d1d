"""Break a document slightly: its references, types, numbers or structure."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.builders import Json

from .tagging import mangled, tag

__all__ = ["AGAIN", "RAW", "broken"]


RAW, AGAIN = "\x01", "\x02"
"""Marks: a string after RAW is written unescaped; a key after AGAIN is repeated."""

Spot = tuple[Any, Any]

NUMBERS = (
    0, -1, 1, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, 10**30, 0.1, 1e-7, 1e-300, 1e15,
    1e16, -0.0, 0.9999999999999999, 1.0000000000000002, f"{RAW}1e400", f"{RAW}-1e400", f"{RAW}1E+2",
    f"{RAW}1e-400", f"{RAW}NaN", f"{RAW}Infinity", f"{RAW}0.0e0", f"{RAW}-0", f"{RAW}9{'0' * 308}",
    f"{RAW}1.{'0' * 500}1", f"{RAW}9{'9' * 4400}", f"{RAW}01", f"{RAW}1.", f"{RAW}.5", f"{RAW}0x1f",
)  # fmt: skip


def broken(rng: Random, document: Json, most: int = 3) -> list[str]:
    """Break `document` in up to `most` ways; return the names of the ways."""
    done = []
    for _ in range(rng.choice((0, 1, 1, 1, 2, most))):
        way = rng.choice(WAYS)
        way(rng, document)
        done.append(way.__name__.strip("_"))
    return done


def _spots(value: Any, found: list[Spot]) -> list[Spot]:
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            _spots(value[key], found)
    return found


def _spot(rng: Random, document: Json, *kinds: type) -> Spot | None:
    """Return a random place in `document` with a value of one of the types `kinds`, or None."""
    found = [
        (holder, key)
        for holder, key in _spots(document, [])
        if not kinds or type(holder[key]) in kinds
    ]
    return rng.choice(found) if found else None


def _number(rng: Random, document: Json) -> None:
    """Replace a random number by one near or beyond its sensible values."""
    if spot := _spot(rng, document, int, float):
        holder, key = spot
        value = holder[key]
        near = (value + 1, value - 1, -value, value * 1000, value / 3, value * 2**40, value + 0.5)
        holder[key] = rng.choice(near) if rng.random() < 0.5 else rng.choice(NUMBERS)


def _kind(rng: Random, document: Json) -> None:
    """Set a value of another type that looks similar, at a random place."""
    if spot := _spot(rng, document):
        holder, key = spot
        holder[key] = _in_another_form(rng, holder[key])


def _in_another_form(rng: Random, value: Any) -> Any:
    if isinstance(value, dict):
        return rng.choice(
            (list(value), [list(pair) for pair in value.items()], [value], str(value))
        )
    if isinstance(value, list):
        pairs = {str(k): one for k, one in enumerate(value)}
        return rng.choice(
            (pairs, [value], value * 2, value[::-1], value[:1], ",".join(map(str, value)))
        )
    if isinstance(value, bool):
        return rng.choice((int(value), str(value), not value, float(value), [value], None))
    if isinstance(value, int | float):
        return rng.choice(
            (str(value), float(value), [value], {"size": value}, bool(value), f"{value}M")
        )
    if value is None:
        return rng.choice((0, "", [], {}, False, "null"))
    return rng.choice(
        ([value], {value: value}, f" {value}", value.upper(), value[:-1], value + "\0", value * 2,
         value + "\u200b", list(value), value.encode("utf-8", "surrogatepass").hex(), None,
         f"{value}.example.com")
    )  # fmt: skip


def _reference(rng: Random, document: Json) -> None:
    """Set a reference to an object of another type, at a random place."""
    names = [name for table in TABLES for name in document.get(table) or ()]
    names += [one["name"] for one in _members(document, "nodegroups") if "name" in one]
    used = [
        (holder, key)
        for holder, key in _spots(document, [])
        if isinstance(holder[key], str) and holder[key] in names
    ]
    if used:
        holder, key = rng.choice(used)
        holder[key] = rng.choice(names)


def _exchange(rng: Random, document: Json) -> None:
    """Swap two values of one type in the document."""
    one = _spot(rng, document)
    if one is None:
        return
    other = _spot(rng, document, type(one[0][one[1]]))
    if other is not None:
        first, second = one[0][one[1]], other[0][other[1]]
        text = json.dumps([first, second])
        one[0][one[1]], other[0][other[1]] = json.loads(text)[::-1]


def _members(document: Json, table: str) -> list[Json]:
    held = document.get(table)
    return [one for one in held.values() if isinstance(one, dict)] if isinstance(held, dict) else []


TABLES = ("nodes", "instances", "nodegroups")


def _same_nodes(rng: Random, document: Json) -> None:
    """Set wrong nodes of an instance: one twice, three, none, or nodes of two groups."""
    some = _members(document, "instances")
    nodes = list(document.get("nodes") or ())
    if some and nodes:
        rng.choice(some)["nodes"] = rng.choices(nodes, k=rng.choice((0, 1, 2, 2, 3)))


def _template(rng: Random, document: Json) -> None:
    """Set a disk template that does not fit the nodes or the disks."""
    some = [*_members(document, "instances"), document.get("request")]
    one = rng.choice(some)
    if isinstance(one, dict):
        one["disk_template"] = rng.choice(("drbd", "plain", "rbd", "diskless", "ext", "file"))


def _again(rng: Random, document: Json) -> None:
    """Repeat a random key in its object, with another value."""
    if spot := _spot(rng, document, dict):
        table = spot[0][spot[1]]
        if table:
            key = rng.choice(list(table))
            table[f"{key}{AGAIN}"] = rng.choice((table[key], None, *table.values()))


def _deep(rng: Random, document: Json) -> None:
    """Nest a random value far deeper than in any real document."""
    if spot := _spot(rng, document):
        depth = rng.choice((2, 60, 900, 1100, 40_000))
        left, right = rng.choice((("[", "]"), ('{"a":', "}")))
        spot[0][spot[1]] = RAW + left * depth + "1" + right * depth


def _gone(rng: Random, document: Json) -> None:
    """Remove a random member."""
    if spot := _spot(rng, document):
        del spot[0][spot[1]]


def _longer(rng: Random, document: Json) -> None:
    """Extend a random list or object by many members of its type."""
    if spot := _spot(rng, document, list, dict):
        held = spot[0][spot[1]]
        if isinstance(held, list) and held:
            spot[0][spot[1]] = held * rng.choice((2, 3, 30))
        elif held and len(json.dumps(held)) < 3000:
            name = rng.choice(list(held))
            held |= {f"{name}+{k}": json.loads(json.dumps(held[name])) for k in range(5)}


def _tags(rng: Random, document: Json) -> None:
    """Set tags by their grammar, some of them with one error."""
    owners = [("instance", one) for one in _members(document, "instances")]
    owners += [("node", one) for one in _members(document, "nodes")]
    owners += [("group", one) for one in _members(document, "nodegroups")]
    for owner, one in rng.sample(owners, min(len(owners), rng.choice((1, 3)))):
        kind = owner if rng.random() < 0.9 else rng.choice(("instance", "node", "cluster"))
        made = tag(rng, kind, rng.random() < 0.3)
        made = mangled(rng, made) if rng.random() < 0.6 else made
        if isinstance(one.get("tags"), list):
            one["tags"].append(made)


def _name(rng: Random, document: Json) -> None:
    """Rename an object everywhere: to an unusual or long name, or to the name of another object."""
    table = document.get(rng.choice(TABLES))
    if not isinstance(table, dict) or not table:
        return
    old = rng.choice(list(table))
    new = rng.choice(
        ("\ud800", "a\u2028b", "i0", "n0", "#uname", "*", "a:b", "a,b", "a|b", "a\\", "'", '"',
         "$(x)", "-O", "\u0301", "ı", "ﬀ", "K", "x" * 400, "\t", "__class__", "{0}", "%s", "uuid-a",
         "aa", "~")
    )  # fmt: skip
    text = json.dumps(document).replace(json.dumps(old), json.dumps(new))
    document.clear()
    document.update(json.loads(text))


WAYS = (
    _number, _number, _number, _kind, _kind, _reference, _reference, _exchange, _same_nodes,
    _template, _again, _deep, _gone, _longer, _tags, _tags, _name,
)  # fmt: skip
