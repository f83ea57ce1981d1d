"""Test the planners, alone and in comparison with the programs of htools."""
