"""A session's view of the world: watch first, read in one request, hand over what changed."""
