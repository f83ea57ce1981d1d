"""Plan moves between the node groups of a cluster: redistribute, compress, balance groups.

An instance may move to another group if one node of that group has access to all storage pools of
the instance. These planners leave out a group that shares no storage pool with another group.
"""
