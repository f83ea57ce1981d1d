"""Every problem of a document, for people; the parser stops at the first.

Loaded only for ``--validate``: jsonschema alone takes longer to load than an answer.
"""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.wire.read import decode
from iallocator.wire.validation.consistency import inconsistencies
from iallocator.wire.validation.schema_errors import request_validator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["NEEDED", "OPTIONAL", "UNREAD", "problems"]

NEEDED, OPTIONAL, UNREAD = "needed", "optional", ""
"""What a reader of a document does with its request: some read the cluster alone."""

_WORDED_BETTER = frozenset({"minItems", "maxItems", "uniqueItems"})
"""Keywords whose violations `iallocator.wire.validation.consistency` finds too, and says better."""


def problems(raw: bytes, request: str = NEEDED) -> list[str]:
    """Every problem of the request document `raw`, sorted; none if it can be answered.

    `request`: whether one must be there, and is looked at.  Each problem is ``path:
    expected ..., got ...``, as in the error that the parser raises for the first that it
    meets.  What cannot be decoded has that one problem.
    Cost: a tenth of a second to load jsonschema, then a third of a second per MB.
    """
    try:
        document = decode(raw)
    except RequestError as error:
        return [str(error)]
    if request == UNREAD:
        document.pop("request", None)
    bare = request != NEEDED and "request" not in document
    found = {str(error) for error in _misfits(document, bare)}
    found.update(str(error) for error in inconsistencies(document))
    return sorted(found)


def _misfits(document: dict[str, Any], bare: bool) -> Iterator[RequestError]:
    """Where the document does not fit its schema; `bare`: it may be without a request."""
    for error in request_validator().iter_errors(document):
        if bare and list(error.absolute_path) == ["request"]:
            continue
        if error.validator not in _WORDED_BETTER:
            yield RequestError("/".join(map(str, error.absolute_path)), error.message)
