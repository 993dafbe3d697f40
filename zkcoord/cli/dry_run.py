"""What commands share that change nothing unless `--execute` is given."""

from __future__ import annotations

import argparse

from zkcoord.errors import ConfigurationError


def add_dry_run_flags(parser: argparse.ArgumentParser, does: str, done: str) -> None:
    """Add them: `delete`, `deleted`."""
    parser.add_argument(
        "--execute", action="store_true", help=f"{does}; without it nothing is {done}"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help=f"only show what would be {done} (the default)"
    )


def refuse_both(args: argparse.Namespace) -> None:
    """Raises `ConfigurationError` where both are given."""
    if args.execute and args.dry_run:
        raise ConfigurationError("--execute and --dry-run are both given: leave one of them out")
