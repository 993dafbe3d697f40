"""Every parser of what comes from outside, under inputs that nobody has thought of (`make fuzz`)."""
