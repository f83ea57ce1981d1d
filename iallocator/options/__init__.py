"""Define the settings of the program, the parser of command lines, and the table of all options."""
