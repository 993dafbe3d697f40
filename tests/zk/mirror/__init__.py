"""Reading the world, and what changed of it."""
