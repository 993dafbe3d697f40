"""What pages show, as values. Pure."""
