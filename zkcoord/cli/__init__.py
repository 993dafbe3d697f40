"""The command line: one module per command, each `add_parser` and `run`; `main` finds them."""
