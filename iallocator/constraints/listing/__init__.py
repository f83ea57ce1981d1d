"""Constraints, and findings about tags, as people read them: all that a document expresses."""
