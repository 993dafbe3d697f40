"""`zkcoord groups evict`: a member is put out of its group now."""

from __future__ import annotations

import argparse
import json
import threading
from functools import partial
from typing import Any

from zkcoord.admin.common import Progress, some, whoami
from zkcoord.admin.coordinator_request import CoordinatorRequest, RequestPatience
from zkcoord.admin.evict_member import Evict, EvictionPlan
from zkcoord.cli.dry_run import add_dry_run_flags, refuse_both
from zkcoord.config.option_spec import Use
from zkcoord.config.options import BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings, add_flags
from zkcoord.errors import ConfigurationError
from zkcoord.terminal import out, printable
from zkcoord.zk.acl.inherited import AclsThere
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.metadata import ranges_of
from zkcoord.znodes.names import validate_group
from zkcoord.znodes.paths import layout_named

TIMEOUT_MS = 30_000
LOOK_MS = 50

EPILOG = """\
examples:
  # their names: CONSUMER-ID
  zkcoord groups describe billing --members --zookeeper zk1:2181/kafka
  # what would be done
  zkcoord groups evict billing billing_host-1700000000000-5f2a90c4 --zookeeper zk1:2181/kafka
  # do it
  zkcoord groups evict billing billing_host-1700000000000-5f2a90c4 --execute ...

It goes as when a member does not answer: its registration is deleted, so that nothing it commits
counts from then on, and others get what it had once its owner nodes are gone (at once where its
process sees that it is out, else within the longest lease).

A process that lives comes back by itself, under a new name: a consumer of zkcoord's loses its
partitions (on_partitions_lost) and joins again with its next poll, so that one that hangs in its
handler is given nothing meanwhile; a client of a gateway is told that it is no member any more and
joins again; a Spark query does what its onSessionLoss says (rejoin or fail). To keep one out, stop
its process. To have nobody consume, zkcoord groups pause. A static member has no grace after it.
Old consumers cannot be evicted: they would go on.
"""


def add_parser(commands: Any) -> None:
    """Add `evict`."""
    parser = commands.add_parser(
        "evict",
        help="put a member out of its group",
        description="Have the coordinator put a member out of its group now. A dry run, unless"
        " --execute is given. A living process returns under a new name by itself.",
        epilog=EPILOG,
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("member", metavar="MEMBER", help="its name (CONSUMER-ID)")
    add_dry_run_flags(parser, "evict it", "done")
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
    """0; what cannot be done is raised (`ZkcoordError`)."""
    validate_group(args.group)
    refuse_both(args)
    if args.timeout_ms < 1:
        raise ConfigurationError(f"--timeout-ms is {args.timeout_ms}: write 1 or more")
    layout, options = layout_named(settings.text("layout")), zk_options(settings)
    progress = Progress("zkcoord groups")
    with SyncClient(options) as client:
        rest = partial(threading.Event().wait, LOOK_MS / 1000)
        asked = CoordinatorRequest(
            client,
            layout,
            args.group,
            AclsThere(client, options),
            RequestPatience(boot_ms, args.timeout_ms, rest, progress),
        )
        eviction = Evict(asked, args.member, whoami())
        if not args.execute:
            plan = eviction.plan()
            _print(args.json, plan, None)
            if not args.json:
                progress.note("nothing was done; add --execute")
            return 0
        try:
            done = eviction.execute()
        except KeyboardInterrupt:
            progress.note(
                "interrupted: the coordinator takes the request up all the same"
                if asked.node
                else "interrupted: nothing was asked for"
            )
            raise
        finally:
            progress.end()
    _print(args.json, done.plan, done.took_ms)
    return 0


def _print(as_json: bool, plan: EvictionPlan, took_ms: int | None) -> None:
    """What would be done (`took_ms` None), or was."""
    member, owns = plan.member, some(plan.partitions) or "nothing"
    if as_json:
        document = {
            "executed": took_ms is not None,
            "group": plan.group,
            "member": member.name,
            "client": member.client or None,
            "host": member.host or None,
            "gateway": member.gateway or None,
            "partitions": ranges_of(plan.partitions),
            "took_ms": took_ms,
        }
        out(json.dumps(document, indent=1) + "\n", done="" if took_ms is None else "it is evicted")
        return
    where = f" ({member.client} at {member.host})" if member.client or member.host else ""
    who = f"{member.name}{where} of {plan.group}"
    if took_ms is None:
        text = f"{who} would be evicted; it owns {owns}: "
    else:
        text = f"{who} is evicted, after {took_ms} ms; it owned {owns}: "
    out(printable(text + plan.returns) + "\n", done="" if took_ms is None else "it is evicted")
