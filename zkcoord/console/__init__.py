"""The console: what the coordinator knows, as pages. `cli/console.py` starts it."""
