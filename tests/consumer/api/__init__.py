"""The consumer's own methods."""
