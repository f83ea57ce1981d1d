"""The units that many modules convert, and the bounds of time.

The package keeps memory and disk in MiB and time in seconds; all other units exist in options,
texts and foreign documents only.
"""

from __future__ import annotations

__all__ = ["DAY", "GIB", "HOUR", "LATEST", "MIB"]

MIB = 2**20
"""Bytes."""

GIB = 1024
"""MiB."""

HOUR, DAY = 3600.0, 86400.0
"""Seconds."""

LATEST = 253_402_300_799
"""Seconds since 1970: the last second of a year with four digits; later times are mistakes."""
