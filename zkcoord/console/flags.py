"""Flags that `zkcoord console` and `zkcoord top` have in common: whom to look at, how often, and
where journals are.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS
from zkcoord.config.settings import journal_dir
from zkcoord.config.sources import Settings, add_flags, resolve
from zkcoord.errors import ConfigurationError

OWN = ("journal_dir", "http_names")
"""Flags that are a coordinator's options, too, and read otherwise here."""

INTERVAL_MS = 2_000
INTERVAL_MS_MIN = 500
INTERVAL_MS_MAX = 600_000


def add_watching_flags(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument(
        "--journal-dir",
        action="append",
        metavar="DIR",
        help="a coordinator's journal; may be repeated (default: where a coordinator of this user"
        " keeps it)",
    )
    parser.add_argument(
        "--interval-ms",
        type=int,
        default=INTERVAL_MS,
        metavar="MS",
        help=f"from one look at all groups to the next (default: {INTERVAL_MS})",
    )
    add_flags(parser, Use.GROUPS, ACL_OPTIONS)


def watching_settings(args: argparse.Namespace) -> Settings:
    """The options of the ensemble and its brokers. Raises `ConfigurationError`."""
    if not INTERVAL_MS_MIN <= args.interval_ms <= INTERVAL_MS_MAX:
        raise ConfigurationError(
            f"--interval-ms is {args.interval_ms}: write {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX}"
        )
    given = {name: value for name, value in vars(args).items() if name not in OWN}
    return resolve(Use.GROUPS, given, os.environ)


def folders(args: argparse.Namespace) -> list[Path]:
    """Of the journals to follow."""
    if args.journal_dir:
        return [Path(folder) for folder in dict.fromkeys(args.journal_dir)]
    return [journal_dir(resolve(Use.JOURNAL, {}, os.environ), os.environ)]
