"""What an operator's command reads and changes, without its command line."""
