"""Collect as plain data the facts in texts and pages that the document of ``--json`` leaves out.

Only this package and the planners turn objects into documents. `iallocator.render` reads nothing
else.
"""
