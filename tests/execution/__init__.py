"""Carrying plans out: on a made-up job queue with faults, and against recorded answers."""
