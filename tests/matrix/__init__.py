"""Test features × paths: in each case, one feature decides the answer of one path."""
