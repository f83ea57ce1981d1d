"""The long life of a cluster, simulated: what is rejected, what is lost when nodes fail."""
