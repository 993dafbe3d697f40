"""The machine of one group, and its parts."""
