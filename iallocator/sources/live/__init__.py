"""Clusters that run: what LUXI, RAPI and the monitoring daemons say of them.

Whatever door is asked, the answers become `Answers`, and those a captured document, as
Ganeti writes for its allocators; from there on nothing knows where it came from.
"""
