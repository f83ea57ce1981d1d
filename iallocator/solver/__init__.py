"""Exact search after greedy placement has failed: integer programs, and their answers.

`problem` describes what is to be decided.  `highs` hands it to the solver (HiGHS, an optional
dependency), and solves again until an answer passes the rules that are not linear.
`placement` turns instances, nodes and limits into a problem.
"""
