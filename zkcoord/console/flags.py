"""Flags of `zkcoord console`, and those that `zkcoord top` has, too: whom to look at, how often,
and where journals are.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path

from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS
from zkcoord.config.settings import journal_dir
from zkcoord.config.sources import Settings, add_flags, resolve
from zkcoord.errors import ConfigurationError
from zkcoord.znodes.names import shown

HEADER = re.compile(r"[a-z0-9-]{1,100}")
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


@dataclass(frozen=True)
class ActingSettings:
    """How readers who act say who they are: by tokens of a file, or by a header (lower case) of
    these proxies; `audit_log` is where it is written down what they did.
    """

    token_file: str
    header: str
    proxies: frozenset[str]
    audit_log: Path


def add_acting_flags(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    acting = parser.add_argument_group("readers who may act (off, unless one of these is given)")
    acting.add_argument(
        "--actions-token-file",
        default="",
        metavar="PATH",
        help="lines of NAME TOKEN, of readers who may sign in and act; nobody else may read it",
    )
    acting.add_argument(
        "--actions-user-header",
        default="",
        metavar="HEADER",
        help="a header in which a proxy says who asks; whom it names may act",
    )
    acting.add_argument(
        "--actions-proxies",
        default="",
        metavar="ADDRESS,...",
        help="the addresses of these proxies; nobody else's header counts",
    )
    acting.add_argument(
        "--audit-log",
        default="",
        metavar="PATH",
        help="who did what, a line of JSON each (default: console/actions.jsonl beside the journals"
        " of this user)",
    )


def acting_settings(args: argparse.Namespace) -> ActingSettings | None:
    """What is said of them; None: nobody may act. Raises `ConfigurationError`."""
    header, token_file = args.actions_user_header.strip().lower(), args.actions_token_file
    proxies = frozenset(filter(None, (one.strip() for one in args.actions_proxies.split(","))))
    if bool(header) != bool(proxies):
        raise ConfigurationError(
            "--actions-user-header and --actions-proxies belong together: whose header counts, and"
            " which one"
        )
    if header and not HEADER.fullmatch(header):
        raise ConfigurationError(
            f"--actions-user-header is {shown(header)}: write a header's name, as X-Forwarded-User"
        )
    for proxy in proxies:
        try:
            ipaddress.ip_address(proxy)
        except ValueError:
            raise ConfigurationError(
                f"--actions-proxies names {shown(proxy)}: write addresses, as 127.0.0.1"
            ) from None
    if not header and not token_file:
        if args.audit_log:
            raise ConfigurationError(
                "--audit-log is for what readers do: name who may act (--actions-token-file)"
            )
        return None
    usual = journal_dir(resolve(Use.JOURNAL, {}, {}), os.environ).parent
    return ActingSettings(
        token_file, header, proxies, Path(args.audit_log or usual / "console" / "actions.jsonl")
    )


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
