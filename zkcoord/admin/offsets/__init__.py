"""Resets of stored offsets: targets, log ends, conditional writes."""
