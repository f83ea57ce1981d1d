"""Test `iallocator.packing`, which packs items into bins."""
