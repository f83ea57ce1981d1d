"""Planning between the groups of a super cluster: `redistribute`, `compress`, `balance_groups`.

A partition is the set of groups with access to one storage pool. An instance may move to any other
group of its partition. A group belongs to one partition for each pool to which it has access.
"""
