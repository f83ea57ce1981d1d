"""Scans that are asked for the best move step after step, and keep no moves."""
