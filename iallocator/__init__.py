"""iallocator: a placement program for Ganeti clusters.

The program reads a request document, which contains the whole cluster. It answers with the nodes on
which instances are placed.
"""

__version__ = "1.0.0"
