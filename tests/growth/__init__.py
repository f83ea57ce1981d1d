"""Tests of how time and memory grow."""
