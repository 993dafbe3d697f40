"""The list of groups in a terminal: `zkcoord top`."""
