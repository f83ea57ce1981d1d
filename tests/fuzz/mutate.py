"""Damage documents and texts: any value at any place, and sometimes single bytes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.builders import Json

from .values import any_value, literal, odd_text, our_tag

__all__ = ["damage", "damage_bytes", "damage_text", "raw_of"]


def raw_of(document: Json) -> bytes:
    """Return the bytes of a document, with `values.LITERALS` replaced by their numbers."""
    return literal(json.dumps(document)).encode("utf-8", "surrogatepass")


def damage(rng: Random, document: Json, most: int = 4) -> None:
    """Replace up to `most` random values in `document`."""
    for _ in range(rng.randint(0, most)):
        rng.choice((_replace, _replace, _drop, _tag, _tag, _scale, _rename, _twin))(rng, document)


def _place(rng: Random, document: Json) -> tuple[Any, Any]:
    """Return a random container in `document`, and a key in it."""
    holder: Any = document
    key: Any = rng.choice(list(holder))
    while rng.random() < 0.8:
        below = holder[key]
        if not isinstance(below, dict | list) or not below:
            break
        holder = below
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    return holder, key


def _replace(rng: Random, document: Json) -> None:
    holder, key = _place(rng, document)
    holder[key] = any_value(rng)


def _drop(rng: Random, document: Json) -> None:
    holder, key = _place(rng, document)
    if holder is not document or len(document) > 1:
        del holder[key]


def _scale(rng: Random, document: Json) -> None:
    holder, key = _place(rng, document)
    value = holder[key]
    if isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = value * rng.choice((0, -1, 1000, 10**7)) + rng.choice((0, 1))


def _tagged(document: Json) -> list[Json]:
    found: list[Json] = []
    for name in ("instances", "nodes", "nodegroups"):
        members = document.get(name)
        if isinstance(members, dict):
            found += [one for one in members.values() if isinstance(one, dict)]
    request = document.get("request")
    return [*found, request] if isinstance(request, dict) else found


def _tag(rng: Random, document: Json) -> None:
    """Add tags that may have a meaning, to one object or to many."""
    owners = _tagged(document)
    for owner in rng.sample(owners, min(len(owners), rng.choice((1, 2, 5)))):
        tags = owner.setdefault("tags", [])
        if isinstance(tags, list):
            tags.append(our_tag(rng))
    if rng.random() < 0.2 and isinstance(document.get("cluster_tags"), list):
        document["cluster_tags"].append(our_tag(rng))


def _rename(rng: Random, document: Json) -> None:
    """Rename a node, an instance or a group, everywhere or at one place."""
    table = document.get(rng.choice(("instances", "nodes", "nodegroups")))
    if isinstance(table, dict) and table:
        old, new = rng.choice(list(table)), odd_text(rng)
        if rng.random() < 0.7:
            text = json.dumps(document).replace(json.dumps(old), json.dumps(new))
            document.clear()
            document.update(json.loads(text))
        else:
            table[new] = table.pop(old)


def _twin(rng: Random, document: Json) -> None:
    """Replace a member of a table by a copy of another member."""
    table = document.get(rng.choice(("instances", "nodes", "nodegroups")))
    if isinstance(table, dict) and table:
        name = rng.choice(list(table))
        table[f"{name}-twin"] = json.loads(json.dumps(table[name]))


def damage_text(rng: Random, text: str) -> str:
    """Return a text file with random changes of fields or lines."""
    lines = text.split("\n")
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(lines))
        fields = lines[at].split("|")
        spot = rng.randrange(len(fields))
        kind = rng.randrange(6)
        if kind == 0:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 1 and len(lines) > 1:
            del lines[at]
        else:
            value = any_value(rng)
            fields[spot] = literal(json.dumps(value)).strip('"') if kind > 2 else odd_text(rng)
            lines[at] = "|".join(fields)
    return "\n".join(lines)


def damage_bytes(rng: Random, raw: bytes) -> bytes:
    """Return `raw` truncated, with changed bytes, or in another format."""
    kind = rng.randrange(4)
    if kind == 0:
        return raw[: rng.randrange(len(raw) + 1)]
    if kind == 1:
        changed = bytearray(raw or b" ")
        for _ in range(rng.randint(1, 5)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    if kind == 2:
        return b"\xef\xbb\xbf" + raw
    return rng.choice((b"", b"null", b"[]", b"{}", b"[" * 3000, b"\x1f\x8b" + raw, b'"x"', b"\xff"))
