"""Whether all of a group find room in others, asked quickly, and in which order of nodes."""
