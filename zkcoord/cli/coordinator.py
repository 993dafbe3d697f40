"""`zkcoord coordinator`: options, then `zkcoord.coordinator.service`."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from zkcoord.config.option_spec import Use
from zkcoord.config.settings import coordinator_settings
from zkcoord.config.sources import add_flags, resolve

EPILOG = """\
examples:
  zkcoord coordinator --zookeeper zk1:2181,zk2:2181,zk3:2181/kafka
  zkcoord coordinator --zookeeper zk1:2181/kafka --broker-id 3 --http-port 9405
  zkcoord coordinator --config /etc/zkcoord.toml --no-journal
  # with a web page at 127.0.0.1:9407 (zkcoord console)
  zkcoord coordinator --zookeeper zk1:2181/kafka --console

Every option may stand in the file (lease_max_ms = 12000) or in the environment
(ZKCOORD_LEASE_MAX_MS=12000); a flag wins over the environment, that over the file. Start as many as
you like on different machines: one leads, the others stand by. SIGTERM ends a coordinator cleanly.
`zkcoord coordinator step-down` has another one lead.
"""


def add_parser(subparsers: Any) -> None:
    """Add `coordinator`."""
    parser = subparsers.add_parser(
        "coordinator",
        help="serve the consumer groups of an ensemble",
        description="Stand for election; lead, or stand by.",
        epilog=EPILOG,
    )
    add_flags(parser, Use.COORDINATOR)


def run(args: argparse.Namespace) -> int:
    """0 after a signal, 1 after a failure. Raises `ConfigurationError`."""
    from zkcoord.assignors.plugins import find
    from zkcoord.cli.console_beside import ConsoleBeside
    from zkcoord.coordinator.service import serve
    from zkcoord.core.assignment import ASSIGNORS

    settings = resolve(Use.COORDINATOR, vars(args), os.environ)
    found = find(ASSIGNORS)
    checked = coordinator_settings(settings, (*ASSIGNORS, *found.names), os.environ)
    beside = ConsoleBeside(settings, os.environ) if settings.switch("console") else nullcontext()
    with beside:
        return serve(replace(checked, notes=(*checked.notes, *found.notes)))
