"""A second, independent way to break input: by the meaning of its parts.

The first damager puts values from a list anywhere. This one builds small clusters with many
features. It knows references, numbers, tags, encodings and options, and breaks them where a program
may have relied on them.
"""
