"""Test features × paths: in each case, one feature decides the answer of one path.

A feature is a fact such as a tag or a limit. A path is a type of request, or a planner.
"""
