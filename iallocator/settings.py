"""The effective settings, and where each came from.

In order of precedence: the command line; keys of the request; tags of the group; tags of
the cluster; built-in defaults.  A tag is ``iallocator:OPTION:VALUE``, OPTION without its
dashes: ``iallocator:strategy:affinity``, ``iallocator:n1:strict``.  One that cannot be
understood is complained of, and the next source counts.
"""

from __future__ import annotations

from iallocator.options.table import COMMON
from iallocator.requests import SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.options.table import Option

    Found = dict[str, tuple[Any, str]]
    """Setting → value, and where it came from."""

__all__ = ["effective"]

FLAGS = {"yes": True, "no": False}
"""What a tag says of an option that takes no value on the command line."""


def effective(
    settings: Settings, cluster: Cluster, asked: Mapping[str, Any], remarks: list[str]
) -> Settings:
    """`settings` of the command line, completed from the request and from tags.

    `asked` are the settings that the request names.  Groups whose tags differ have
    settings of their own in `Settings.by_group`.  Complaints go to `remarks`.  With
    ``--compat hail`` neither is looked at.  Without any such key or tag, `settings`
    itself is returned; finding that out takes a look at each tag of cluster and groups.
    """
    if not settings.behaviour.reads_settings:
        return settings
    prefix = settings.tag_prefix
    of_cluster = _ours(cluster.tags, prefix)
    of_groups = {
        group.index: tags for group in cluster.groups if (tags := _ours(group.tags, prefix))
    }
    if not (asked or of_cluster or of_groups):
        return settings
    options = {name: o for o in COMMON for name in (o.names[0].lstrip("-"),) if name in SETTINGS}
    found: Found = _read(of_cluster, prefix, options, "tag of the cluster", remarks)
    low = {target for target in found if target not in settings.chosen}
    found = {target: found[target] for target in low}
    for target, value in asked.items():
        if target not in settings.chosen:
            found[target] = value, "the request"
    whole = _completed(settings, found)
    high = settings.chosen | asked.keys()
    groups: dict[int, Settings] = {}
    for index, tags in of_groups.items():
        where = f"tag of group {cluster.groups[index].name}"
        own = _read(tags, prefix, options, where, remarks)
        own = {target: own[target] for target in own if target not in high}
        if own:
            groups[index] = _completed(whole, own)
    whole.by_group = groups
    return whole


def _ours(tags: Iterable[str], prefix: str) -> list[str]:
    return [tag for tag in tags if tag.startswith(prefix)]


def _read(
    tags: Sequence[str],
    prefix: str,
    options: Mapping[str, Option],
    where: str,
    remarks: list[str],
) -> Found:
    """What those of `tags` say that name an option; the last of several counts."""
    found: Found = {}
    for tag in tags:
        name, colon, text = tag[len(prefix) :].partition(":")
        option = options.get(name)
        if option is None or not colon:
            continue
        try:
            found[option.target] = _value(option, text), f"{where}: {tag}"
        except ValueError as error:
            remarks.append(
                f"Warning: {where}: {tag} does not count: expected {error}, got {text!r}"
            )
    return found


def _value(option: Option, text: str) -> Any:
    if option.read is not None:
        return option.read(text)
    if text not in FLAGS:
        raise ValueError("one of yes, no")
    return FLAGS[text]


def _completed(settings: Settings, found: Found) -> Settings:
    """A copy of `settings` with the values in `found`, which remembers their origins."""
    from copy import copy

    whole = copy(settings)
    for target, (value, _) in found.items():
        setattr(whole, target, value)
    whole.origins = {**settings.origins, **{target: found[target][1] for target in found}}
    return whole
