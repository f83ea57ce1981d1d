"""The long life of a cluster, simulated: what is refused, what is lost when nodes fail."""
