"""Which groups of this coordinator are in trouble, by its own records."""
