"""What is wrong with a group for longer than a moment, why, and what to do: pure rules."""
