"""iallocator: a placement program for Ganeti clusters.

Reads a request document with the whole cluster, answers where instances go.
"""

__version__ = "1.0.0"
