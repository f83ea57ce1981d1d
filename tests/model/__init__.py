"""The cluster model: policies, instances, tags, moves."""
