"""Carrying a plan out on a running cluster: by jobs, with a journal, one execution at a time.

`runner` is the way in; what it needs of a cluster is `queue.JobQueue` and `ground.Ground`.
"""
