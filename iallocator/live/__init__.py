"""A running cluster, through its two doors: LUXI on the master itself, RAPI from anywhere.

Clients only: what is said through them is the business of those who use them.  Nothing
here is loaded unless a running cluster is named on the command line.
"""
