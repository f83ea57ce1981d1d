"""Several instances at once: one after the other, together by exact search, at the optimum."""
