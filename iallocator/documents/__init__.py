"""Collect as plain data what text and pages show beside the document that ``--json`` writes.

Only this package and the planners turn objects into documents. `iallocator.render` reads nothing
else.
"""
