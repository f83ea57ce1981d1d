"""Every feature of the matrix can be switched off, to see whether its cells notice."""

from __future__ import annotations

from .features import FEATURES
from .paths import PATHS
from .switch_off import BESIDES, unnoticed
from .switches import SWITCHES


def test_features_all_have_a_switch() -> None:
    """A new feature has to say which one place carries it."""
    assert SWITCHES.keys() == FEATURES.keys()
    assert all(feature in FEATURES and path in PATHS for feature, path in BESIDES)


def test_cells_of_a_row_notice_that_its_feature_is_off() -> None:
    """The shortest row; ``python -m tests.matrix.switch_off`` asks all."""
    assert unnoticed("keep-running") == []
