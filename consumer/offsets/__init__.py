"""Where committed offsets are kept, where a partition begins, and commits."""
