"""Requests for new instances that were made before, as questions about a cluster as it is now."""

from __future__ import annotations

from pathlib import Path

from iallocator.engine import effective_settings, request_in
from iallocator.errors import RequestError, UsageError, tell
from iallocator.files import read_file
from iallocator.requests import SETTINGS, Allocate
from iallocator.wire.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.planners.capacity.forecast import Past

__all__ = ["past_requests"]


def past_requests(folder: str, settings: Settings, cluster: Cluster) -> list[Past]:
    """The requests for new instances in `folder`, captured calls or others, about `cluster`.

    Raises
    ------
    UsageError
        If there is none.
    """
    from iallocator.calls.history import read_history

    found: list[Past] = []
    known: dict[str, Settings] = {}
    paths = [entry.request for entry in read_history(folder)]
    for path in paths or _documents(folder):
        if not Path(path).is_file():  # a pipe would be waited for
            tell(f"iallocator: {path}: no file; left out")
            continue
        try:
            document = decode(read_file(path, settings.max_input))
            found += _asked_again(document, cluster, settings, known)
        except RequestError as error:
            tell(f"iallocator: {path}: {error}; left out")
        except UsageError as error:  # which names the file, or what the cluster does not have
            tell(f"iallocator: {error}; left out")
    if not found:
        raise UsageError(f"--replay {folder}: no request for new instances")
    return found


def _documents(folder: str) -> list[str]:
    """The JSON files in `folder`, compressed or not, by name."""
    every = sorted(map(str, Path(folder).iterdir()))
    return [path for path in every if path.endswith((".json", ".json.gz"))]


def _asked_again(
    document: Any, cluster: Cluster, settings: Settings, known: dict[str, Settings]
) -> list[Past]:
    """The new instances that a document asks for, as if it asked `cluster` for one at a time.

    `known`: what requests set -> the settings that follow, for those that set the same.
    """
    found: list[Past] = []
    for raw in _one_by_one(document.get("request"), settings.behaviour.reads_groups_of_batch):
        request = request_in({"request": raw}, cluster, settings)
        assert isinstance(request, Allocate)
        key = repr(sorted(request.asked.items()))
        if key not in known:
            known[key] = effective_settings(cluster, request.asked, settings, [])
        groups = {group.name for group in cluster.groups}
        if request.group_name is not None and request.group_name not in groups:
            raise RequestError("request", f"there is no group {request.group_name} any more")
        found.append((request, known[key]))
    return found


def _one_by_one(raw: Any, by_groups: bool) -> list[dict[str, Any]]:
    """A request for new instances as requests for one each; none for any other.

    `by_groups`: whether those of a batch may name their group and nodes.
    """
    if not isinstance(raw, dict) or raw.get("type") not in ("allocate", "multi-allocate"):
        return []
    if raw["type"] == "allocate":
        return [raw]
    common = {key: raw[key] for key in raw if key in SETTINGS or key == "placement_keys"}
    left_out = () if by_groups else ("group_name", "restrict-to-nodes")
    batch = raw.get("instances")
    return [
        {**{k: v for k, v in one.items() if k not in left_out}, **common, "type": "allocate"}
        for one in (batch if isinstance(batch, list) else ())
        if isinstance(one, dict)
    ]
