"""Execute plans on a running cluster: by jobs, with a journal, one execution at a time.

`runner` is the entry. It uses the `queue.JobQueue` and the `cluster_check.ClusterCheck` of a
cluster.
"""
