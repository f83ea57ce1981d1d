"""Side by side with `hail`: the same generated documents, answer for answer."""
