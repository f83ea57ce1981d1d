"""What counts for all tests: no settings of the machine that they run on."""

import os

os.environ["IALLOCATOR_CONFIG"] = ""
