"""A second way to break input, independent of the first: by what the parts of it mean.

The first damager draws values from a list and puts them anywhere.  This one builds small
clusters whose features are dense, and knows references, numbers, tags, encodings and options:
it breaks them where a program may have relied on them.
"""
