"""Build documents with control characters, line breaks and bidirectional marks in all texts."""

from __future__ import annotations

from typing import Any

from tests.builders import Json

__all__ = ["EVIL", "poisoned"]


EVIL = "\x1b[31m\n\x9b2J\u202e\u2028\t<x>&\"'"
"""Appended to every text that is not one of a few words."""

WORDS = {
    "type", "disk_template", "admin_state", "alloc_policy", "hypervisor", "evac_mode", "mode",
    "enabled_hypervisors", "disk-templates", "strategy", "n1", "kind", "level", "class",
    "storage_type", "inter-group",
}  # fmt: skip
"""Members with values that are words of the format."""


def poisoned(document: Json) -> tuple[Json, dict[str, str]]:
    """Return the document with `EVIL` in all its texts, and a map of old names to new names."""
    found = [name for table in ("nodes", "nodegroups", "instances") for name in document[table]]
    found += [group["name"] for group in document["nodegroups"].values()]
    request = document.get("request", {})
    new = [request, *request.get("instances", ())]
    found += [one["name"] for one in new if isinstance(one, dict) and "name" in one]
    names = {name: name + EVIL for name in found}

    def changed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {names.get(name, name): changed(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [changed(one, key) for one in value]
        if not isinstance(value, str) or key in WORDS:
            return value
        return names.get(value, value + EVIL)

    result: Json = changed(document)
    return result, names
