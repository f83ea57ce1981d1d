"""The settings of the program, what a command line says of them, and the table of all options."""
