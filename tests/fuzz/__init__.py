"""Each parser of what comes from outside, given what nobody has thought of (`make fuzz`)."""
