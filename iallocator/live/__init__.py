"""Clients for a running cluster: LUXI on the master node, RAPI from any host.

The callers decide which questions and jobs to send. This package is loaded only if the command line
names a running cluster.
"""
