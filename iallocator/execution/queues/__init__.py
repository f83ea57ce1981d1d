"""The job queue of a running cluster: what an execution asks of it, and its two doors, LUXI and RAPI."""
