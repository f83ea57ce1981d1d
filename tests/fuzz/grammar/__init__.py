"""Break input by the meaning of its parts.

The other damager puts values from a list at random places. This one builds small clusters with many
features. It knows references, numbers, tags, encodings and options, and breaks them where a program
may have relied on them.
"""
