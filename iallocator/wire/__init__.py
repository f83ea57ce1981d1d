"""Read and write documents: only this package uses the raw JSON of requests and responses."""
