"""Report the first error in a JSON document in the words of htools."""

from __future__ import annotations

import re

from iallocator.wire.codec import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never

__all__ = ["syntax_error"]

ERROR_CONTEXT = 8
"""The most characters of the text after an error that a message shows."""

BLANK = re.compile(r"\s*")
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?")
EXPONENT = re.compile(r"[eE][-+]?([0-9]*)")
HEX = re.compile(r"[0-9a-fA-F]{4}")


class _Wrong(Exception):  # noqa: N818 - not an error of this program
    """The text is not a JSON document."""


def syntax_error(text: str) -> str:
    """Return the message about the first syntax error in `text`; "" if there is none.

    `text` begins with a brace or a bracket.
    """
    scan = _Scan(text)
    try:
        scan.value()
    except _Wrong as wrong:
        return str(wrong)
    rest = text[scan.blanks() :]
    return f"Invalid tokens at end of JSON string: {dumps(rest[:ERROR_CONTEXT])}" if rest else ""


class _Scan:
    """A position in a text, from which values are read."""

    __slots__ = ("_at", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def blanks(self) -> int:
        """Return the position of the next character that is not a blank."""
        match = BLANK.match(self._text, self._at)
        return match.end() if match else self._at

    def value(self) -> None:
        """Read one JSON value from the position; raise `_Wrong` at the first error."""
        text, at = self._text, self._at
        first = text[at : at + 1]
        if first == '"':
            self._string()
        elif first in ("{", "["):
            self._sequence(first)
        elif first in ("t", "f"):
            word = "true" if first == "t" else "false"
            if not text.startswith(word, at):
                self._fail("Unable to parse JSON Bool: ")
            self._at = at + len(word)
        elif text.startswith("null", at):
            self._at = at + 4
        elif first.isdigit() or first == "-":
            self._number()
        else:
            self._fail("Malformed JSON: invalid token in this context ")

    def _fail(self, problem: str, at: int | None = None) -> Never:
        place = self._at if at is None else at
        raise _Wrong(problem + self._text[place : place + ERROR_CONTEXT])

    def _number(self) -> None:
        match = JSON_NUMBER.match(self._text, self._at)
        if match is None:
            self._fail("Unable to parse JSON Rational: ", self._at + 2)
        self._at = match.end()
        exponent = EXPONENT.match(self._text, self._at)
        if exponent is not None:
            if not exponent[1]:
                self._fail("Unable to parse JSON exponential: ", exponent.end())
            self._at = exponent.end()

    def _string(self) -> None:
        text, at = self._text, self._at
        if text[at : at + 1] != '"':
            self._fail("Malformed JSON: expecting string: ")
        at += 1
        while text[at : at + 1] != '"':
            if at >= len(text):
                raise _Wrong("Unable to parse JSON String: unterminated String: ")
            if text[at] < " ":
                self._fail("Illegal unescaped character in string: ", at)
            if text[at] == "\\":
                at += 1
                if text[at : at + 1] not in tuple('"\\/bfnrtu'):
                    raise _Wrong(
                        f"Unable to parse JSON String: invalid escape char: '{text[at : at + 1]}'"
                    )
                if text[at] == "u" and not HEX.match(text, at + 1):
                    raise _Wrong("Unable to parse JSON String: invalid hex: []")
            at += 1
        self._at = at + 1

    def _sequence(self, first: str) -> None:
        """Read the members of an object or of an array."""
        is_object = first == "{"
        self._at += 1
        self._at = self.blanks()
        end = "}" if is_object else "]"
        if self._text.startswith(end, self._at):
            self._at += 1
            return
        while True:
            if is_object:
                self._string()
                colon = self.blanks()
                if not self._text.startswith(":", colon):
                    self._fail("Malformed JSON labelled field: ")
                self._at = colon + 1
                self._at = self.blanks()
            self.value()
            place = self.blanks()
            following = self._text[place : place + 1]
            if following not in (",", end) or not following:
                kind = "object: unterminated sequence" if is_object else "array: unterminated array"
                self._fail(f"Unable to parse JSON {kind}: ")
            self._at = place + 1
            if following == end:
                return
            self._at = self.blanks()
