"""Planning between the groups of a super cluster: `redistribute`, `compress`, `balance_groups`.

An instance may leave its group for any other that reaches its storage pools: its partition.
A group stands in as many partitions as it reaches pools.
"""
