"""The member's core, without threads, network and clock."""
