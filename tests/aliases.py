"""Types that many tests use."""

from __future__ import annotations

import pytest

__all__ = ["Capture"]

Capture = pytest.CaptureFixture[str]
"""What a test reads of its standard output and standard error."""
