"""Report every problem of a document, while the parser stops at the first problem.

The published schemas are in ``schemas/`` beside the package in a checkout and in an editable
install, and inside the package in a wheel.  The keywords that the schemas use for values are
redefined here, so that an error of the schema has the words of `iallocator.wire.fields`.  Only this
module imports jsonschema, which takes longer to load than an answer takes.  It is loaded for
``--validate`` only.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from iallocator.errors import IallocatorError, RequestError
from iallocator.model.templates import TEMPLATES
from iallocator.tolerances import LEAST_DIVISOR
from iallocator.wire.codec import decode
from iallocator.wire.consistency import inconsistencies
from iallocator.wire.fields import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["NEEDED", "OPTIONAL", "UNREAD", "directory", "load", "problems", "request_validator"]

if TYPE_CHECKING:
    Raw = dict[str, Any]

    Keyword = Callable[[Any, Any, Any, Raw], Iterator[ValidationError]]


_missing: Any = object()
"""The value in place of a missing required member. It has no JSON type, so no schema accepts it."""

_ANNOTATIONS = frozenset({"title", "description", "default"})
_PLURALS = {"a string": "strings", "an object": "objects"}


@cache
def request_validator() -> Any:
    """Return the validator of whole request documents."""
    return _Validator(_inlined("request.schema.json", load()))


def _inlined(reference: str, schemas: dict[str, Raw]) -> Raw:
    """Return the schema that `reference` names, with all references in it replaced.

    Validation without references takes half the time.
    """
    name, _, pointer = reference.partition("#")
    schema = schemas[name]
    for key in pointer.split("/")[1:]:
        schema = schema[key]
    result: Raw = _replaced(schema, name, schemas)
    return result


def _replaced(value: Any, home: str, schemas: dict[str, Raw]) -> Any:
    """Return `value`, a part of the schema called `home`, with all references replaced."""
    if isinstance(value, list):
        return [_replaced(item, home, schemas) for item in value]
    if not isinstance(value, dict):
        return value
    own = {
        key: _replaced(item, home, schemas)
        for key, item in value.items()
        if key not in ("$schema", "$id", "$defs", "$ref")
    }
    if "$ref" not in value:
        return own
    reference = value["$ref"]
    meant = _inlined(home + reference if reference.startswith("#") else reference, schemas)
    if (meant.keys() & own.keys()) <= _ANNOTATIONS:
        return {**meant, **own}
    return {**own, "allOf": [meant, *own.get("allOf", [])]}


def _complaint(expected: str, value: Any) -> ValidationError:
    what = "but it is missing" if value is _missing else f"got {describe(value)}"
    return ValidationError(f"expected {expected}, {what}")


def _type(validator: Any, types: Any, value: Any, schema: Raw) -> Iterator[ValidationError]:
    allowed = [types] if isinstance(types, str) else types
    if any(validator.is_type(value, name) for name in allowed):
        return
    name = _first_type(schema)
    if name == "number" or (name == "integer" and validator.is_type(value, "number")):
        expected = _range(schema)
    elif name == "array":
        expected = f"a list of {_items(validator, schema)}"
    else:
        expected = {
            "boolean": "true or false", "integer": "an integer",
            "object": "an object", "string": "a string",
        }[name]  # fmt: skip
    yield _complaint(expected, value)


def _first_type(schema: Raw) -> str:
    """Return the first type that a schema allows; null only if no other type is allowed."""
    types = schema["type"]
    return str(types if isinstance(types, str) else types[0])


def _range(schema: Raw) -> str:
    name = _first_type(schema)
    article = "an" if name == "integer" else "a"
    if "not" in schema:  # only for numbers that are too small as divisors
        return f"0, or {article} {name} from {LEAST_DIVISOR} to {schema['maximum']}"
    return f"{article} {name} from {schema['minimum']} to {schema['maximum']}"


def _items(validator: Any, schema: Raw) -> str:
    """Return the noun for the items of a list, for the error about a missing item."""
    for error in validator.descend(_missing, schema.get("items", True)):
        for singular, plural in _PLURALS.items():
            if error.message.startswith(f"expected {singular},"):
                return plural
    return "values"


def _minimum(validator: Any, least: Any, value: Any, schema: Raw) -> Iterator[ValidationError]:
    if validator.is_type(value, "number") and value < least:
        yield _complaint(_range(schema), value)


def _maximum(validator: Any, most: Any, value: Any, schema: Raw) -> Iterator[ValidationError]:
    if validator.is_type(value, "number") and value > most:
        yield _complaint(_range(schema), value)


def _not(validator: Any, gap: Raw, value: Any, schema: Raw) -> Iterator[ValidationError]:
    if validator.is_type(value, "number") and validator.evolve(schema=gap).is_valid(value):
        yield _complaint(_range(schema), value)


def _enum(validator: Any, choices: Any, value: Any, schema: Raw) -> Iterator[ValidationError]:
    if value not in choices:
        yield _complaint("one of " + ", ".join(f'"{choice}"' for choice in choices), value)


def _min_length(validator: Any, least: int, value: Any, schema: Raw) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and len(value) < least:
        yield ValidationError("expected a name, got an empty string")


def _required(
    validator: Any, names: list[str], value: Any, schema: Raw
) -> Iterator[ValidationError]:
    """Yield one error per missing member, with its path and the expected value."""
    if not validator.is_type(value, "object"):
        return
    for name in names:
        if name not in value:
            expected = schema.get("properties", {}).get(name, True)
            errors = list(validator.descend(_missing, expected, path=name))
            yield from errors or [ValidationError(f"expected {name}, but it is missing")]


_KEYWORDS: dict[str, Keyword] = {
    "type": _type,
    "minimum": _minimum,
    "maximum": _maximum,
    "not": _not,
    "enum": _enum,
    "minLength": _min_length,
    "required": _required,
}

_Validator: Any = extend(Draft202012Validator, _KEYWORDS)  # type: ignore[no-untyped-call]


NEEDED, OPTIONAL, UNREAD = "needed", "optional", ""
"""The use of the request in a document by a caller; `UNREAD`: only the cluster is read."""

_WORDED_BETTER = frozenset({"minItems", "maxItems", "uniqueItems"})
"""Keywords that `iallocator.wire.consistency` checks, too, with better messages."""


def problems(raw: bytes, request: str = NEEDED) -> list[str]:
    """Return every problem of the request document `raw`, sorted; empty if it can be answered.

    `request`: whether the request is required, and is checked. Each problem is ``path: expected
    ..., got ...``, as in the error that the parser raises for the first problem. If a document
    cannot be decoded, that is the only problem reported. Cost: a tenth of a second to load
    jsonschema, then a third of a second per MB.
    """
    try:
        document = decode(raw)
    except RequestError as error:
        return [str(error)]
    if request == UNREAD:
        document.pop("request", None)
    bare = request != NEEDED and "request" not in document
    errors = {str(error) for error in inconsistencies(document)}
    for found_error in request_validator().iter_errors(document):
        path = list(map(str, found_error.absolute_path))
        if (bare and path == ["request"]) or found_error.validator in _WORDED_BETTER:
            continue
        errors.add(str(RequestError("/".join(path), found_error.message)))
    return sorted(errors)


_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "schemas", _PACKAGE.parent / "schemas")
_SUFFIX = ".schema.json"

DEFINITIONS = f"defs{_SUFFIX}"
"""The schema with the parts that other schemas share."""


def directory() -> Path:
    """Return the folder with the schemas.

    Raises
    ------
    IallocatorError
        If the schemas are not installed.
    """
    for place in _PLACES:
        if (place / f"request{_SUFFIX}").is_file():
            return place
    raise IallocatorError(f"the schemas are missing: not in {_PLACES[0]}, not in {_PLACES[1]}")


def load() -> dict[str, Any]:
    """Return all schemas: file name, which is also the schema's ``$id`` -> content.

    The disk templates are those of `TEMPLATES`, so that a new one needs only its row there.
    """
    schemas = {
        path.name: json.loads(path.read_bytes()) for path in sorted(directory().glob("*" + _SUFFIX))
    }
    schemas[DEFINITIONS]["$defs"]["template"]["enum"] = sorted(TEMPLATES)
    return schemas
