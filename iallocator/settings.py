"""Complete the settings, and record their origins.

Sources in order of precedence: the command line; keys of the request; tags of the group; tags of
the cluster; built-in defaults. A tag is ``iallocator:OPTION:VALUE``, with OPTION without its
dashes: ``iallocator:strategy:affinity``, ``iallocator:n1:strict``. An invalid tag, or a number of a
request that is out of range, causes a warning; the next source is used.
"""

from __future__ import annotations

from iallocator.errors import cut
from iallocator.light import copy
from iallocator.options.table import request_options
from iallocator.options.values import disk_reserve, mebibytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.options.table import Option

    Found = dict[str, tuple[Any, str]]
    """Setting -> its value, and the origin of the value."""

__all__ = ["effective", "reserve_disk"]

OF_THE_RUN = {"time_limit"}
"""Settings that a tag of one group cannot change."""

RESERVE_SETTING, RESERVE_TARGET = "disk-reserve", "disk_reserve"
"""The setting that tags of single nodes can change, too."""

REQUEST = "the request"
"""The origin of a setting that a key of the request sets."""

FLAGS = {"yes": True, "no": False}
"""The values in tags of options that take no value on the command line."""


def effective(
    settings: Settings, cluster: Cluster, requested: Mapping[str, Any], remarks: list[str]
) -> Settings:
    """Return the `settings` of the command line, completed from the request and from tags.

    `requested` are the settings that the request names. Groups with other tags have settings of
    their own in `Settings.by_group`. Warnings are added to `remarks`. With ``--compat hail`` no
    source is read. Without any such key or tag, `settings` itself is returned. Cost: one test of
    each tag of cluster and groups.
    """
    if not settings.behaviour.reads_settings:
        return settings
    prefix = settings.tag_prefix
    of_cluster = _ours(cluster.tags, prefix)
    of_groups = {
        group.index: tags for group in cluster.groups if (tags := _ours(group.tags, prefix))
    }
    if not (requested or of_cluster or of_groups):
        return settings
    options = request_options()
    values: Found = _read(of_cluster, prefix, options, "tag of the cluster", remarks)
    low = {target for target in values if target not in settings.chosen}
    values = {target: values[target] for target in low}
    # Settings of the request, which have the right types, within the bounds of their options
    for target, value in requested.items():
        name = target.replace("_", "-")
        read = options[name].read
        try:
            read_value = read(str(value)) if read and isinstance(value, (int, float)) else value
        except ValueError as error:
            remarks.append(
                f"Warning: request/{name} does not count: expected {error}, got {cut(str(value))}"
            )
            continue
        if target not in settings.chosen:
            values[target] = read_value, REQUEST
    whole = _completed(settings, values)
    high = settings.chosen | {target for target, (_, origin) in values.items() if origin == REQUEST}
    groups: dict[int, Settings] = {}
    for index, tags in of_groups.items():
        where = f"tag of group {cluster.groups[index].name}"
        own = _read(tags, prefix, options, where, remarks)
        for target in OF_THE_RUN & own.keys():
            _, origin = own.pop(target)
            remarks.append(f"Warning: {origin} does not count: it is a setting of the whole run")
        own = {target: own[target] for target in own if target not in high}
        if own:
            groups[index] = _completed(whole, own)
    whole.by_group = groups
    return whole


def reserve_disk(cluster: Cluster, settings: Settings, remarks: list[str]) -> None:
    """Set the disk that stays free on every node, by `settings` and by the tags of the node.

    A tag of the node precedes the tags of its group and of the cluster. An invalid one causes a
    warning in `remarks`.
    """
    start = f"{settings.tag_prefix}{RESERVE_SETTING}:"
    for node in cluster.nodes:
        own = settings.by_group.get(node.group.index, settings)
        text = own.disk_reserve
        origin = own.origins.get(RESERVE_TARGET, f"option --{RESERVE_SETTING}")
        given = RESERVE_TARGET in own.chosen or origin == REQUEST
        for tag in () if given else node.tags:
            if not tag.startswith(start):
                continue
            try:
                text, origin = disk_reserve(tag[len(start) :]), f"tag of node {node.name}: {tag}"
            except ValueError as error:
                remarks.append(
                    f"Warning: tag of node {node.name}: {tag} does not count: expected {error}"
                )
        is_share = text.endswith("%")
        node.kept_share = float(text[:-1]) / 100 if is_share else 0.0
        node.kept_disk = 0 if is_share else mebibytes(text)
        node.kept_by = origin if node.kept_share or node.kept_disk else ""


def _ours(tags: Iterable[str], prefix: str) -> list[str]:
    return [tag for tag in tags if tag.startswith(prefix)]


def _read(
    tags: Sequence[str],
    prefix: str,
    options: Mapping[str, Option],
    where: str,
    remarks: list[str],
) -> Found:
    """Return the settings that `tags` name; the last of several tags counts."""
    values: Found = {}
    for tag in tags:
        name, colon, text = tag[len(prefix) :].partition(":")
        option = options.get(name)
        if option is None or not colon:
            continue
        try:
            if option.read is not None:
                value = option.read(text)
            elif text in FLAGS:
                value = FLAGS[text]
            else:
                raise ValueError("one of yes, no")
            values[option.target] = value, f"{where}: {tag}"
        except ValueError as error:
            remarks.append(
                f"Warning: {where}: {tag} does not count: expected {error}, got {text!r}"
            )
    return values


def _completed(settings: Settings, values: Found) -> Settings:
    """Return a copy of `settings` with the values in `values`, and with their origins."""
    whole = copy(settings)
    for target, (value, _) in values.items():
        setattr(whole, target, value)
    whole.origins = {**settings.origins, **{target: values[target][1] for target in values}}
    return whole
