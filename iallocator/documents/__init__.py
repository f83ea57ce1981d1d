"""Results as plain data: what text, tables and pages show, beside what ``--json`` writes.

Only this package and the planners turn objects into documents. `iallocator.render` reads nothing
else.
"""
