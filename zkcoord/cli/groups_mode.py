"""`zkcoord groups mode`: whom a group belongs to."""

from __future__ import annotations

import argparse
import json
import threading
from functools import partial
from typing import Any

from zkcoord.admin.common import Progress, argument, whoami
from zkcoord.admin.group_mode import SetMode, mode_of
from zkcoord.admin.group_problems import judged
from zkcoord.cli.groups_text import mode_json, mode_lines
from zkcoord.config.option_spec import Use
from zkcoord.config.options import BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags
from zkcoord.core.model import GroupMode
from zkcoord.core.shared import STRATEGIES
from zkcoord.errors import ConfigurationError
from zkcoord.terminal import out, printable
from zkcoord.zk.acl.inherited import AclsThere
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.led_groups import describe_any_group
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import layout_named

TIMEOUT_MS = 30_000
LOOK_MS = 50

EPILOG = """\
examples:
  # what it is, and what is wrong
  zkcoord groups mode billing --zookeeper zk1:2181/kafka --layout isolated
  # old consumers and zkcoord's share it
  zkcoord groups mode billing mixed --zookeeper zk1:2181/kafka --layout isolated
  # the old ones' partition.assignment.strategy, by version
  zkcoord groups mode billing mixed --strategy legacy-roundrobin-1.0 ...
  # the last old consumer is gone
  zkcoord groups mode billing coordinated --zookeeper zk1:2181/kafka --layout isolated
  # back: zkcoord's members are sent away
  zkcoord groups mode billing legacy --zookeeper zk1:2181/kafka --layout isolated

All may be said while everything runs. What each mode means is in docs/migration.md.
"""


def add_parser(commands: Any) -> None:
    """Add `mode`."""
    parser = commands.add_parser(
        "mode",
        help="whom a group belongs to: old consumers, both, or the coordinator",
        description="Show or change whom a group belongs to.",
        epilog=EPILOG,
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "mode",
        metavar="legacy|mixed|coordinated",
        nargs="?",
        help="the new mode; without it the present one is shown",
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help=(
            f"what the old consumers assign by: {', '.join(STRATEGIES)} (default: {STRATEGIES[0]})"
        ),
    )
    parser.add_argument(
        "--timeout-ms",
        type=int,
        default=TIMEOUT_MS,
        metavar="MS",
        help=f"how long to wait for the coordinator (default: {TIMEOUT_MS})",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    add_flags(parser, Use.GROUPS, BROKER_OPTIONS)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """0; what cannot be done, and a mode that was not reached in time, is raised
    (`ZkcoordError`).
    """
    validate_group(args.group)
    kinds = [kind.value for kind in GroupMode]
    if args.mode is not None and args.mode not in kinds:
        raise ConfigurationError(
            f"there is no mode {args.mode}: write {', '.join(kinds[:-1])} or {kinds[-1]}"
        )
    if args.strategy is not None and args.strategy not in STRATEGIES:
        raise ConfigurationError(
            f"there is no strategy {args.strategy}: write {', '.join(STRATEGIES[:-1])} or"
            f" {STRATEGIES[-1]}"
        )
    if args.strategy is not None and args.mode is None:
        raise ConfigurationError("--strategy is for a new mode: name it, too")
    layout, options, progress = (
        layout_named(settings.text("layout")),
        zk_options(settings),
        Progress("zkcoord groups"),
    )
    with SyncClient(options) as client:
        if args.mode is None:
            taken_up = True
        else:
            mode = mode_of(args.mode, args.strategy or STRATEGIES[0], whoami())
            change = SetMode(
                client,
                layout,
                args.group,
                mode,
                AclsThere(client, options),
                boot_ms,
                args.timeout_ms,
                partial(threading.Event().wait, LOOK_MS / 1000),
                progress,
            )
            try:
                taken_up = change.run()
            except KeyboardInterrupt:
                progress.note(
                    "interrupted: what the mode is now, and whether a coordinator has taken it up,"
                    f" says zkcoord groups mode {argument(args.group)}"
                )
                raise
            finally:
                progress.end()
        found = judged(client, describe_any_group(client, layout, args.group))
    if args.json:
        text = json.dumps({"group": args.group, **mode_json(found)}, indent=1) + "\n"
    else:
        text = "".join(f"{line}\n" for line in map(printable, mode_lines(found)))
    out(text, done=f"{args.group} is in mode {args.mode}" if args.mode else "")
    for bad in found.malformed:
        if bad.what == "mode":
            progress.note(f"the mode of {args.group} counts for nothing: {bad.reason}")
    if not args.json and not taken_up:
        progress.note("nobody leads: it is taken up as soon as a coordinator does")
    return 0
