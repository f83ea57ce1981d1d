"""Documents: the only code that sees the raw structures of requests and responses."""
