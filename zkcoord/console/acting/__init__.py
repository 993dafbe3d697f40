"""What the console's readers may do, where they are allowed to: the command line's own commands."""
