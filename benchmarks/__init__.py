"""Benchmarks: whole processes, ours and the peer's in turn."""
