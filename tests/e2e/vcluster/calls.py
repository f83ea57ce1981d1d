"""Read the recorded requests and answers of the allocator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Instance -> its nodes in an answer, primary first.
Promise = dict[str, tuple[str, ...]]


class CallError(Exception):
    """Raised for an answer that violates Ganeti's protocol."""


@dataclass(frozen=True)
class Call:
    """One run of the allocator.

    Attributes
    ----------
    stem : str
        Common beginning of the names of the call's files.
    request : dict
        The request document.
    status : int
        Exit status.
    text : str
        Standard output.
    errors : str
        Standard error.
    arguments : str
        Command line.
    """

    stem: str
    request: dict[str, Any]
    status: int
    text: str
    errors: str
    arguments: str

    @property
    def kind(self) -> str:
        """Return the type of the request."""
        return str(self.request["request"]["type"])

    @property
    def response(self) -> dict[str, Any]:
        """Return the response document.

        Raises
        ------
        CallError
            If stdout is not a response document.
        """
        try:
            document = json.loads(self.text)
        except ValueError as error:
            raise CallError(f"no JSON document on stdout: {error}") from error
        if not isinstance(document, dict) or not {"success", "info", "result"} <= document.keys():
            raise CallError(f"not a response: {self.text[:200]}")
        return document

    @property
    def success(self) -> bool:
        """Return whether the allocator ran and found a solution."""
        try:
            return self.status == 0 and self.response["success"] is True
        except CallError:
            return False

    @property
    def failed(self) -> list[str]:
        """Return the instances that a successful answer to a batch lists as failed."""
        result = self.response["result"]
        if self.kind not in ("multi-allocate", "node-evacuate", "change-group"):
            return []
        return [entry if isinstance(entry, str) else entry[0] for entry in result[1]]

    def promise(self) -> Promise:
        """Return the nodes of instances in the answer.

        Returns
        -------
        dict of str to tuple of str
            Nodes by instance.

        Raises
        ------
        CallError
            When the answer has another form.
        """
        asked, result = self.request["request"], self.response["result"]
        try:
            if self.kind == "allocate":
                return {asked["name"]: tuple(result)}
            if self.kind == "multi-allocate":
                return {name: tuple(nodes) for name, nodes in result[0]}
            if self.kind == "allocate-secondary":
                return {asked["name"]: (self._present(asked["name"])[0], result)}
            if self.kind == "relocate":
                present = self._present(asked["name"])
                stays = [node for node in present if node not in asked["relocate_from"]]
                return {asked["name"]: (*stays, *result)}
            return {name: tuple(nodes) for name, _group, nodes in result[0]}
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise CallError(f"result of an unexpected form: {result!r}") from error

    def promised_groups(self) -> dict[str, str]:
        """Return the group that the answer names for each moved instance, if it names groups."""
        if self.kind not in ("node-evacuate", "change-group"):
            return {}
        return {name: group for name, group, _nodes in self.response["result"][0]}

    def _present(self, name: str) -> list[str]:
        nodes: list[str] = self.request["instances"][name]["nodes"]
        return nodes


def read(directory: Path) -> list[Call]:
    """Return all complete calls, in their order.

    Parameters
    ----------
    directory : pathlib.Path
        The folder with the captures.

    Returns
    -------
    list of Call
        The calls.
    """
    complete = sorted(directory.glob("*.rc"), key=lambda path: int(path.name.split("-", 1)[0]))
    return [_read_one(directory / path.stem) for path in complete]


def _read_one(stem: Path) -> Call:
    def text(suffix: str) -> str:
        path = Path(f"{stem}{suffix}")
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    return Call(
        stem=stem.name,
        request=json.loads(text(".request.json")),
        status=int(text(".rc")),
        text=text(".response.json"),
        errors=text(".stderr"),
        arguments=text(".argv").strip(),
    )
