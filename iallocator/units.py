"""The units that many modules convert, and the bounds of time.

The package keeps memory and disk in MiB and time in seconds; all other units exist in options,
texts and foreign documents only.
"""

from __future__ import annotations

__all__ = ["DAY", "GIB", "HOUR", "LATEST", "MIB"]

MIB = 2**20
"""Bytes of a MiB."""

GIB = 1024
"""MiB of a GiB."""

HOUR, DAY = 3600.0, 86400.0
"""Seconds of an hour and of a day."""

LATEST = 253_402_300_799
"""Seconds since 1970: the last second of a year with four digits; later times are mistakes."""
