"""What the published schemas say of a document, as anybody else would ask them."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from iallocator.wire.validation.validate import load

__all__ = ["OF_COMMAND", "SCHEMAS", "conforms", "validator"]

SCHEMAS = load()
"""File name -> content."""

OF_COMMAND = {
    **dict.fromkeys(
        ("balance", "balance-groups", "check", "compress", "make-room", "place", "reboot",
         "redistribute", "squeeze"),
        "plan",
    ),
    **{name: name for name in ("capacity", "constraints", "repair", "show")},
}  # fmt: skip
"""Command -> which schema what it writes with ``--json`` is by."""


@cache
def validator(reference: str) -> Draft202012Validator:
    """The validator for a file, or for a part of it: ``plan.schema.json#/$defs/transition``."""
    registry: Any = Registry().with_resources(
        (name, DRAFT202012.create_resource(content)) for name, content in SCHEMAS.items()
    )
    return Draft202012Validator({"$ref": reference}, registry=registry)


def conforms(document: Any, kind: str) -> None:
    """Raise `jsonschema.ValidationError` if `document` is not by the schema of that `kind`."""
    validator(f"{kind}.schema.json").validate(document)
