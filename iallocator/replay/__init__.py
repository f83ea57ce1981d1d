"""Find stored requests, run them again, and compare the answers with the stored answers."""
