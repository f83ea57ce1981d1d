"""Read running clusters: the answers of LUXI, RAPI and the monitoring daemons.

The answers of each source become `Answers`, and the `Answers` become a document such as Ganeti
writes for its allocators. Other code does not depend on the source.
"""
