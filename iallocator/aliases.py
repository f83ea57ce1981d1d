"""Define the types that many modules use in annotations.

They are for readers and the type checker, and have no effect when the program runs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    Json = dict[str, Any]
    """An object of a JSON document."""

    Nodes = tuple[int, ...]
    """Indices of nodes; the nodes of an instance have the primary first."""

    Floats = NDArray[np.float64]
    Truths = NDArray[np.bool_]
    Indices = NDArray[np.intp]
else:
    Json = Nodes = Floats = Truths = Indices = object

__all__ = ["Floats", "Indices", "Json", "Nodes", "Truths"]
