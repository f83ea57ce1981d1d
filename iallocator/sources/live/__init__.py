"""Read running clusters: the answers of LUXI, RAPI and the monitoring daemons.

The answers of each source become `Answers`, and these a document, as Ganeti writes for its
allocators. Other code does not depend on the source.
"""
