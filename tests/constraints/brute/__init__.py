"""Compare every kind of answer on tiny clusters with all placements, for each constraint.

`rules` states the constraints by the document alone, `draw` makes the clusters, and `questions`
asks the program and compares.
"""
