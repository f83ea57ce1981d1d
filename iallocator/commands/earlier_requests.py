"""Read captured requests, to repeat them with their original or with the present settings."""

from __future__ import annotations

import os
from pathlib import Path

from iallocator.calls.history import request_files
from iallocator.calls.layout import referred, request_path
from iallocator.commands import options_of
from iallocator.configuration import configure
from iallocator.engine import effective_settings, request_in
from iallocator.errors import RequestError, UsageError, tell
from iallocator.files import read_file
from iallocator.options.parser import parse, words_of
from iallocator.options.settings import REQUEST_SETTINGS
from iallocator.options.table import COMMON
from iallocator.replay.cases import case_of
from iallocator.wire.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeVar

    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.planners.capacity.forecast import Past
    from iallocator.replay.cases import Case

    Own = TypeVar("Own", bound=Settings)

__all__ = ["as_then", "case_named", "change_since_capture", "past_requests"]

OF_NODES = {"disk_reserve", "memory_ratio"}
"""Settings of past requests that are ignored: the nodes have the values of the present cluster."""

NOT_OF_A_CALL = {"config", "no_config", "ialloc_src"}


def past_requests(folder: str, settings: Settings, cluster: Cluster) -> list[Past]:
    """Return the requests for new instances in `folder`, read as requests about `cluster`.

    The folder has captured calls, or else files with requests. A file that cannot be used is
    reported on stderr and left out.

    Raises
    ------
    UsageError
        If the folder has no usable request for new instances.
    """
    requests: list[Past] = []
    known: dict[str, Settings] = {}  # settings in a request -> the effective settings
    groups = {group.name for group in cluster.groups}
    for _, path in request_files(folder):
        if not Path(path).is_file():  # reading a pipe would block
            tell(f"iallocator: {path}: no file; left out")
            continue
        try:
            document = decode(read_file(path, settings.max_input))
            again: list[Past] = []
            by_groups = settings.behaviour.reads_groups_of_batch
            for raw in _one_by_one(document.get("request"), by_groups):
                read = request_in({"request": raw}, cluster, settings)
                assert read is not None
                (request,) = read.new
                request_facts = {k: v for k, v in request.asked.items() if k not in OF_NODES}
                key = repr(sorted(request_facts.items()))
                if key not in known:
                    known[key] = effective_settings(cluster, request_facts, settings, [])
                if request.group_name is not None and request.group_name not in groups:
                    raise RequestError(
                        "request", f"there is no group {request.group_name} any more"
                    )
                again.append((request, known[key]))
            requests += again
        except RequestError as error:
            tell(f"iallocator: {path}: {error}; left out")
        except UsageError as error:  # its text has the file or the unknown object
            tell(f"iallocator: {error}; left out")
    if not requests:
        raise UsageError(f"--replay {folder}: no request for new instances")
    return requests


def _one_by_one(raw: Any, by_groups: bool) -> list[dict[str, Any]]:
    """Split a request for new instances into requests for one each; return [] for other requests.

    `by_groups`: whether each instance of a batch may name its group and nodes.
    """
    if not isinstance(raw, dict) or raw.get("type") not in ("allocate", "multi-allocate"):
        return []
    if raw["type"] == "allocate":
        return [raw]
    common = {key: raw[key] for key in raw if key in REQUEST_SETTINGS or key == "placement_keys"}
    left_out = () if by_groups else ("group_name", "restrict-to-nodes")
    batch = raw.get("instances")
    return [
        {**{k: v for k, v in one.items() if k not in left_out}, **common, "type": "allocate"}
        for one in (batch if isinstance(batch, list) else ())
        if isinstance(one, dict)
    ]


def case_named(files: Sequence[str]) -> Case | None:
    """Return the captured call that one of `files` names, like ``FOLDER#7``; None if none does."""
    for name in files:
        if referred(name) is not None:
            return case_of(request_path(name))
    return None


def as_then(case: Case, given: Own, command: str) -> Own:
    """Return the settings of a captured call, overridden by `given`, those of the command line.

    The present configuration file for requests is ignored.
    """
    table = options_of(command)
    own = {option.target for option in table} - {option.target for option in COMMON}
    targets = (given.chosen | (given.origins.keys() & own)) - NOT_OF_A_CALL
    settings = type(given)()
    parse([*case.options(), *words_of(given, targets, table)], settings, table)
    if case.configured:
        configure(settings, case.conf, (), ())
    return settings


def change_since_capture(case: Case, response: dict[str, Any]) -> list[str]:
    """Return a remark if the present answer to a captured call differs from the captured answer."""
    if not os.path.isfile(case.response):
        return ["This call was not answered then."]
    then = decode(read_file(case.response))
    if all(then.get(key) == response.get(key) for key in ("success", "result")):
        return []
    return [f"The answer then was another: iallocator replay '{case.name}' shows how it differs."]
