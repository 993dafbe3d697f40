"""Client-led groups at the coordinator, through nodes."""
