"""Break input by the meaning of its parts.

This damager builds small clusters with many features. It knows references, numbers, tags, encodings
and options, and breaks them where a program may have relied on them. The other damager,
`tests.fuzz.make`, puts values from a list at random places.
"""
