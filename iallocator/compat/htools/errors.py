"""The errors that end a program of htools with exit status 1."""

from __future__ import annotations

__all__ = ["NamedError", "ProgramError"]


class ProgramError(Exception):
    """The program ends with exit status 1 after this text on stderr."""


class NamedError(ProgramError):
    """Report an error of which the message begins with the name of the program."""
