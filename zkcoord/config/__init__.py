"""Options: the table of all of them, where they come from, and typed settings."""
