"""What a document, its tags and the options ask of placements, as primitive constraints.

Complex directives are split: a drbd instance into two roles that must be apart, "not
together" into one constraint in each direction.  `tags` reads the tags of relations between
instances; `relations` answers what they mean for a candidate; `listing` lists every
constraint of a document with where it came from.
"""
