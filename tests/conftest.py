"""Isolate all tests from the configuration, the speed and the time of the machine."""

import os

from hypothesis import HealthCheck, settings

from iallocator import deadline

os.environ["IALLOCATOR_CONFIG"] = ""
os.environ["SOURCE_DATE_EPOCH"] = "1767323400"  # the time in JSON documents: 2026-01-02T03:10:00Z

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

deadline.LAST_RESORT = 86400.0  # searches are to end by their work
