"""Test that every feature of the matrix can be disabled, and that its cases then fail."""

from __future__ import annotations

from .features import FEATURES
from .paths import PATHS
from .switch_off import BESIDES, passing_cases
from .switches import SWITCHES


def test_features_all_have_a_switch() -> None:
    """Each feature of the matrix has a switch for the place that implements it."""
    assert SWITCHES.keys() == FEATURES.keys()
    assert all(feature in FEATURES and path in PATHS for feature, path in BESIDES)


def test_tests_of_a_feature_fail_if_the_feature_is_off() -> None:
    """If a feature is disabled, all of its cases fail.

    The shortest row is tested; ``python -m tests.matrix.switch_off`` tests all.
    """
    assert passing_cases("keep-running") == []
