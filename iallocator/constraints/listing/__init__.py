"""Constraints and findings about tags as people read them: every one that is expressed somewhere."""
