"""What counts for all tests: no settings of the machine that they run on, and not its speed."""

import os

from hypothesis import HealthCheck, settings

from iallocator import deadline

os.environ["IALLOCATOR_CONFIG"] = ""

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

deadline.LAST_RESORT = 86400.0  # searches are to end by their work
