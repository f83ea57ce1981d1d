"""Test README, manual, man pages and completions against the program."""
