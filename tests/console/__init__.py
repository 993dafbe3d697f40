"""The console's pages, and the same in a terminal."""
