"""Options from flags, environment and file."""
