"""The units that many modules convert, and the bounds of time.

The package keeps memory and disk in MiB and time in seconds; all other units exist in options,
texts and foreign documents only.
"""

from __future__ import annotations

from math import floor, log10

__all__ = ["DAY", "GIB", "HOUR", "LATEST_TIME", "LEAST_FIXED", "MIB", "MOST_FIXED", "shortest"]

MIB = 2**20
"""Bytes of a MiB."""

GIB = 1024
"""MiB of a GiB."""

HOUR, DAY = 3600.0, 86400.0
"""Seconds of an hour and of a day."""

LATEST_TIME = 253_402_300_799
"""Seconds since 1970: the last second of a year with four digits; later times are mistakes."""

LEAST_FIXED, MOST_FIXED = 0.1, 1e7
"""The range of numbers that htools write without an exponent."""


def shortest(number: float) -> str:
    """Return a number as htools write it: short, with a decimal point or an exponent."""
    if not number or LEAST_FIXED <= abs(number) < MOST_FIXED:
        return repr(float(number))
    mantissa, exponent = f"{number!r}e0".split("e")[:2] if "e" in repr(number) else ("", "")
    if not mantissa:
        digits = repr(float(number)).replace(".", "").lstrip("-0").rstrip("0") or "0"
        exponent = str(floor(log10(abs(number))))
        mantissa = ("-" if number < 0 else "") + f"{digits[0]}.{digits[1:] or '0'}"
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{int(exponent)}"
