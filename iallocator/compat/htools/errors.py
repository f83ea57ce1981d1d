"""The errors that end a program of htools."""

from __future__ import annotations

__all__ = ["NamedError", "OptionError", "OptionValueError", "ProgramError"]


class ProgramError(Exception):
    """The program ends with exit status 1 after this text on stderr."""


class NamedError(ProgramError):
    """Report an error of which the message begins with the name of the program."""


class OptionValueError(Exception):
    """The value of an option is invalid: exit status 1."""


class OptionError(Exception):
    """An option is unknown or ambiguous, or its value is missing: exit status 2."""
