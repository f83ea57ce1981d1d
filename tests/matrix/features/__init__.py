"""Import the features of the matrix: each module adds its rows, in this order."""

from . import nodes  # isort: split

from . import groups  # isort: split

from . import tags  # isort: split

from . import relations  # isort: split

from . import n1  # isort: split

from .table import FAILS_OVER, FEATURES, HERE, STAYS, WAITS, Feature

__all__ = [
    "FAILS_OVER", "FEATURES", "HERE", "STAYS", "WAITS", "Feature", "groups", "n1", "nodes",
    "relations", "tags",
]  # fmt: skip
