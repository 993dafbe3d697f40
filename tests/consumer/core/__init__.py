"""The agent's core, without threads, network and clock."""
