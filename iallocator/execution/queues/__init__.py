"""The job queue of a cluster: what an execution asks of it, and its two doors, LUXI and RAPI."""
