#!/usr/bin/python3
"""Check answers with Ganeti's own code, without a cluster.

The script reads from standard input a JSON list of objects with a ``request`` (the document) and a
``response`` (the document, or the text that the allocator printed).  It prints a JSON list with one
entry each: null, or the objection of Ganeti. Ganeti has no objection to a rejection (``"success":
false``) of the right form.

Run it with Debian's own /usr/bin/python3, which finds the modules of the packages ``ganeti`` and
``ganeti-3.0``.  It ends with status 2 if they are not installed.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SHARE = Path("/usr/share/ganeti")

Document = dict[str, Any]


class ObjectionError(Exception):
    """Raised for an answer that passes Ganeti's validation but fails in later code."""


class _Config:
    """Stand-in for Ganeti's configuration that answers a few queries, with names as identifiers."""

    def __init__(self, request: Document) -> None:
        self._instances = request["instances"]

    def GetInstanceInfo(self, name: str) -> Any:  # noqa: N802 - Ganeti's name
        record = type("Instance", (), {})()
        record.primary_node = self._instances[name]["nodes"][0]
        return record

    def GetNodeNames(self, identifiers: list[str]) -> list[str]:  # noqa: N802 - Ganeti's name
        return list(identifiers)


class Ganeti:
    """Ganeti's modules, prepared for use outside its daemons.

    Raises
    ------
    ImportError
        When Ganeti is not installed.
    """

    def __init__(self) -> None:
        versions = [_SHARE / "default", *sorted(_SHARE.glob("[0-9]*"), reverse=True)]
        sys.path[:0] = [str(path) for path in versions if (path / "ganeti").is_dir()][:1]
        self._allocator = importlib.import_module("ganeti.masterd.iallocator")
        self._opcodes = importlib.import_module("ganeti.opcodes")
        module = self._allocator
        self._kinds = {
            "allocate": module.IAReqInstanceAlloc,
            "multi-allocate": module.IAReqMultiInstanceAlloc,
            "allocate-secondary": getattr(module, "IAReqInstanceAllocateSecondary", None),
            "relocate": module.IAReqRelocate,
            "node-evacuate": module.IAReqNodeEvac,
            "change-group": module.IAReqGroupChange,
        }

    def objection(self, request: Document, response: Document | str) -> str | None:
        """Return Ganeti's objection to a response.

        Parameters
        ----------
        request : dict
            The request document.
        response : dict or str
            The answer of the allocator.

        Returns
        -------
        str or None
            The objection of the validator; None if the validator accepts the answer.
        """
        try:
            result = self._validated(request, response)
            if result is not None:
                for found in _consequences(request, result):
                    return found
                if request["request"]["type"] in ("node-evacuate", "change-group"):
                    self._load_jobs(request, result[2])
        except ObjectionError as error:
            return str(error)
        except Exception as error:  # whatever Ganeti raises ends the user's job
            return f"{type(error).__name__}: {error}"
        return None

    def _validated(self, request: Document, response: Document | str) -> Any:
        """Return the result that Ganeti would use, or None after a rejection."""
        asked = request["request"]
        kind = self._kinds.get(asked["type"])
        if kind is None:
            raise ObjectionError(f"this Ganeti makes no requests of type {asked['type']}")
        # Their constructors need a live cluster and a complete request; the methods do not.
        made = kind.__new__(kind)
        if asked["type"] == "allocate":
            made.disk_template = asked["disk_template"]
        elif asked["type"] == "relocate":
            made.inst_uuid = asked["name"]
            made.relocate_from_node_uuids = asked["relocate_from"]
        run = self._allocator.IAllocator.__new__(self._allocator.IAllocator)
        run.cfg, run.req, run.in_data = _Config(request), made, request
        run.out_text = response if isinstance(response, str) else json.dumps(response)
        run._ValidateResult()
        return run.result if run.success else None

    def _load_jobs(self, request: Document, jobs: list[list[Document]]) -> None:
        for operation in (operation for job in jobs for operation in job):
            loaded = self._opcodes.OpCode.LoadOpCode(dict(operation))
            loaded.Validate(True)
            if loaded.instance_name not in request["request"]["instances"]:
                raise ObjectionError(f"a job for {loaded.instance_name}, which was not asked for")
            for field in ("remote_node", "target_node"):
                node = getattr(loaded, field, None)
                if node is not None and node not in request["nodes"]:
                    raise ObjectionError(f"a job names the unknown node {node}")


def _consequences(request: Document, result: Any) -> Iterator[str]:
    """Yield the errors that a result of the right form would cause."""
    asked = request["request"]
    kind = asked["type"]
    if kind == "multi-allocate":
        placed, failed = result
        wanted = {entry["name"]: entry for entry in asked["instances"]}
        for name, nodes in placed:
            yield from _placement(request, wanted.get(name), name, nodes)
        unsettled = ({name for name, _ in placed} | set(failed)) ^ wanted.keys()
        if unsettled:
            yield f"not accounted for, or not asked for: {sorted(unsettled)}"
    elif kind in ("node-evacuate", "change-group"):
        moved, failed, _jobs = result
        for _name, _group, nodes in moved:
            yield from _unknown(request, nodes)
        unsettled = {name for name, *_ in [*moved, *failed]} ^ set(asked["instances"])
        if unsettled:
            yield f"not accounted for, or not asked for: {sorted(unsettled)}"
    elif kind == "allocate-secondary":
        yield from _unknown(request, [result])
    else:
        yield from _placement(request, asked, asked["name"], result)
        yield from _same_group(request, asked["name"], result)


def _placement(
    request: Document, wanted: Document | None, name: str, nodes: list[str]
) -> Iterator[str]:
    if wanted is None:
        yield f"{name} was not asked for"
    elif len(nodes) != wanted["required_nodes"]:
        yield f"{name} is given {len(nodes)} nodes, needs {wanted['required_nodes']}"
    yield from _unknown(request, nodes)


def _unknown(request: Document, nodes: list[str]) -> Iterator[str]:
    for node in nodes:
        if node not in request["nodes"]:
            yield f"unknown node {node}"
    if len(set(nodes)) != len(nodes):
        yield f"the same node twice: {', '.join(nodes)}"


def _same_group(request: Document, name: str, nodes: list[str]) -> Iterator[str]:
    # An allocation for an instance that exists re-creates its disks, with only its own group
    # locked: Ganeti fails an assertion if another group is chosen.
    present = request["instances"].get(name)
    if present:
        groups = {request["nodes"][node]["group"] for node in [present["nodes"][0], *nodes]}
        if len(groups) > 1:
            yield f"{name} exists, and would leave its group"


def main() -> int:
    """Check the pairs on standard input.

    Returns
    -------
    int
        Exit status.
    """
    try:
        ganeti = Ganeti()
    except ImportError as error:
        print(
            f"validate.py: Ganeti's Python modules are not installed for {sys.executable}: {error}",
            file=sys.stderr,
        )
        return 2
    pairs = json.load(sys.stdin)
    print(json.dumps([ganeti.objection(pair["request"], pair["response"]) for pair in pairs]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
