"""Where the published schemas are.

They live in ``schemas/`` at the top of the repository, which is beside the package in
a checkout and in an editable install; a wheel carries them inside the package.
"""

from __future__ import annotations

import json
from pathlib import Path

from iallocator.errors import IallocatorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["directory", "load"]

_PACKAGE = Path(__file__).resolve().parents[2]
_PLACES = (_PACKAGE / "schemas", _PACKAGE.parent / "schemas")
_SUFFIX = ".schema.json"


def directory() -> Path:
    """The folder that holds the schemas.

    Raises
    ------
    IallocatorError
        If they are not installed.
    """
    for place in _PLACES:
        if (place / f"request{_SUFFIX}").is_file():
            return place
    raise IallocatorError(f"the schemas are missing: not in {_PLACES[0]}, not in {_PLACES[1]}")


def load() -> dict[str, Any]:
    """All schemas: file name, which is also the schema's ``$id``, to content."""
    return {
        path.name: json.loads(path.read_bytes()) for path in sorted(directory().glob("*" + _SUFFIX))
    }
