"""Compare the answers of this program and of `hail` to generated documents."""
