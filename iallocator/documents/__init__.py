"""Collect as plain data the facts in texts and pages that the document of ``--json`` leaves out.

Only this package and the planners convert objects to documents. `iallocator.render` reads only such
documents and facts.
"""
