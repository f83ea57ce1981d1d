"""Features × paths: in each cell one feature decides the answer of one path."""
