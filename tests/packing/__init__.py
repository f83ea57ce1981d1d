"""Tests of `iallocator.packing`."""
