"""Encode documents as bytes, and damage the bytes."""

from __future__ import annotations

import gzip
import json
import re
from random import Random
from typing import Any

from .breaking import AGAIN

__all__ = ["damaged", "packed", "written"]


def written(document: Any) -> bytes:
    """Return `document` as JSON, with repeated keys and raw strings as marked in it."""
    text = json.dumps(document)
    text = re.sub(r'"\\u0001((?:[^"\\]|\\.)*)"', lambda found: json.loads(f'"{found[1]}"'), text)
    return text.replace(json.dumps(AGAIN)[1:-1], "").encode()


def packed(rng: Random, raw: bytes) -> bytes:
    """Return `raw` compressed, complete or damaged."""
    packing = gzip.compress(raw, 1, mtime=0)
    kind = rng.randrange(5)
    if kind == 0:
        return packing
    if kind == 1:
        return packing[: rng.randrange(2, len(packing))]
    if kind == 2:
        return packing + rng.choice((b"\0", b"x", packing, raw[:9]))
    changed = bytearray(packing)
    for _ in range(rng.randint(1, 3)):
        at = (
            rng.randrange(2, len(changed)) if kind == 3 else rng.randrange(2, min(12, len(changed)))
        )
        changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def damaged(rng: Random, raw: bytes) -> bytes:
    """Return `raw` with a wrong encoding, a wrong end, or parts in a wrong order."""
    at = rng.randrange(len(raw) + 1)
    kind = rng.randrange(8)
    if kind == 0:
        return raw[:at] + rng.choice(
            (b"\xc3", b"\xe2\x82", b"\xf0\x9f\x92", b"\xed\xa0\x80", b"\xc0\xaf")
        )
    if kind == 1:
        return raw[:at] + rng.choice((b"\xc3", b"\xff", b"\0", b"\x1a", b"\r")) + raw[at:]
    if kind == 2:
        return raw.decode("utf-8", "replace").encode(
            rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7"))
        )
    if kind == 3:
        return raw + rng.choice((raw, b"}", b"\0", b",", b"\n\n", b"//", b"]"))
    if kind == 4:
        return raw[:at]
    if kind == 5:
        end = min(len(raw), at + rng.randint(1, 50))
        return raw[:at] + raw[end:]
    if kind == 6:
        end = min(len(raw), at + rng.randint(1, 50))
        return raw[:end] + raw[at:]
    changed = bytearray(raw or b"x")
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)
