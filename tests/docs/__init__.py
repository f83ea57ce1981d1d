"""Papers: README, docs, man pages and completions say what is so."""
