"""Test `iallocator.packing`."""
