"""The HTTP server that only answers questions."""
