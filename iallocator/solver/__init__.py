"""Exact search after greedy placement has failed: integer programs, and their answers.

`problem` describes the decisions. `highs` passes a problem to the solver (HiGHS, an optional
dependency), and solves it again until an answer meets the constraints that are not linear.
`placement` turns instances, nodes and limits into a problem.
"""
