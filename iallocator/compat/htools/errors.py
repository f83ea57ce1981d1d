"""The errors that end a program of htools."""

from __future__ import annotations

__all__ = ["NO_CAPACITY", "NamedError", "OptionError", "OptionValueError", "ProgramError"]

NO_CAPACITY = "Error: Not enough capacity to move {}"
"""The message of hroller if instances of a kind do not fit on other nodes."""


class ProgramError(Exception):
    """The program must print the text of this error to stderr, and end with exit status 1."""


class NamedError(ProgramError):
    """An error with a message that begins with the name of the program."""


class OptionValueError(Exception):
    """The value of an option is invalid; the program ends with exit status 1."""


class OptionError(Exception):
    """An option is unknown or ambiguous, or its value is missing; the exit status is 2."""
