"""Proofs that instances cannot all come to other groups, by sums that no packing gets round."""
