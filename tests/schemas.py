"""Validate documents against the published schemas, as another program would."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from iallocator.wire.validation import load

__all__ = ["OF_COMMAND", "SCHEMAS", "conforms", "validator"]

SCHEMAS = load()
"""File name -> content, for all published schemas."""

OF_COMMAND = {
    **dict.fromkeys(
        ("balance", "balance-groups", "check", "compress", "maintain", "make-room", "place",
         "reboot", "redistribute", "rescue", "squeeze"),
        "plan",
    ),
    **dict.fromkeys(("ask", "explain"), "explanation"),
    **{
        name: name
        for name in ("capacity", "config", "constraints", "history", "metrics", "repair", "show")
    },
}  # fmt: skip
"""Command -> schema of its output with ``--json``."""


@cache
def validator(reference: str) -> Draft202012Validator:
    """Return the validator for a schema file, or a part of one.

    An example of a part is ``plan.schema.json#/$defs/transition``.
    """
    registry: Any = Registry().with_resources(
        (name, DRAFT202012.create_resource(content)) for name, content in SCHEMAS.items()
    )
    return Draft202012Validator({"$ref": reference}, registry=registry)


def conforms(document: Any, kind: str) -> None:
    """Raise `jsonschema.ValidationError` if `document` violates the schema of that `kind`."""
    validator(f"{kind}.schema.json").validate(document)
