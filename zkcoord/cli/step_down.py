"""`zkcoord coordinator step-down`: have another coordinator lead."""

from __future__ import annotations

import argparse
import json
import os
import threading
from functools import partial
from typing import Any

from zkcoord.admin.common import Progress
from zkcoord.admin.step_down import is_same, name_of, step_down
from zkcoord.config.option_spec import Use
from zkcoord.config.options import ACL_OPTIONS, BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import add_flags, resolve
from zkcoord.errors import ConfigurationError
from zkcoord.terminal import out
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import layout_named

TIMEOUT_MS = 30_000
LOOK_MS = 10

EPILOG = """\
examples:
  zkcoord coordinator step-down --zookeeper zk1:2181/kafka
  zkcoord coordinator step-down --zookeeper zk1:2181/kafka --json --timeout-ms 5000
"""


def add_parser(subparsers: Any) -> None:
    """Add `coordinator step-down`."""
    parser = subparsers.add_parser(
        "coordinator step-down",
        help="have another coordinator lead",
        description=(
            "Have the coordinator that leads resign, and wait until one leads again. No consumer"
            " notices."
        ),
        epilog=EPILOG,
    )
    parser.add_argument(
        "--timeout-ms",
        type=int,
        default=TIMEOUT_MS,
        metavar="MS",
        help=f"how long to wait for the next one (default: {TIMEOUT_MS})",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of a sentence")
    add_flags(parser, Use.GROUPS, (*ACL_OPTIONS, *BROKER_OPTIONS))


def run(args: argparse.Namespace) -> int:
    """0; what cannot be done is raised (`ZkcoordError`)."""
    settings = resolve(Use.GROUPS, vars(args), os.environ)
    if args.timeout_ms < 1:
        raise ConfigurationError(f"--timeout-ms is {args.timeout_ms}: write 1 or more")
    with SyncClient(zk_options(settings)) as client:
        rest = partial(threading.Event().wait, LOOK_MS / 1000)
        done = step_down(
            client,
            layout_named(settings.text("layout")),
            boot_ms,
            args.timeout_ms,
            rest,
            Progress("zkcoord coordinator step-down"),
        )
    same = is_same(done.old, done.new)
    again = " again: is it the only candidate?" if same else ""
    said = f"{name_of(done.new)} leads after {name_of(done.old)}, {done.took_ms} ms later{again}"
    if args.json:
        out(
            json.dumps(
                {
                    "old": name_of(done.old),
                    "new": name_of(done.new),
                    "same": same,
                    "took_ms": done.took_ms,
                },
                indent=1,
            )
            + "\n",
            done=said,
        )
    else:
        out(f"{said}\n", done=said)
    return 0
