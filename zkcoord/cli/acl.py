"""`zkcoord acl`: who may do what with zkcoord's nodes, and making it so."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from zkcoord.admin.common import Progress, some
from zkcoord.config.option_spec import Use
from zkcoord.config.options import BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import add_flags, resolve
from zkcoord.errors import ConfigurationError, RefusedError
from zkcoord.terminal import out, printable
from zkcoord.words import counted
from zkcoord.zk.acl.audit import AclAudit, audit, doubtful
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import Denied

NODES_MAX = 1_000_000
PASSES_MAX = 5
OK, FOUND = 0, 3
DOUBT = (
    "others than coordinators could make it until now, and from now on it is believed: see that it"
    " is an operator's or a coordinator's, or delete it"
)

GIVE = (
    "give credentials that may (acl_coordinators), or have ZooKeeper's superuser delete what"
    " somebody else made"
)

EPILOG = f"""\
examples:
  # nodes whose ACL is not that of their place; exit status 3 if there are any
  zkcoord acl audit --config zkcoord.toml
  # what would be changed
  zkcoord acl apply --config zkcoord.toml
  # change it
  zkcoord acl apply --config zkcoord.toml --execute

Who is what is said by acl_coordinators, acl_members and acl_readers (docs/security.md). Both look
at everything under zkcoord's roots, at most {NODES_MAX} nodes.
"""


def add_parser(subparsers: Any) -> None:
    """Add `acl` with its commands."""
    parser = subparsers.add_parser(
        "acl",
        help="who may do what with zkcoord's nodes",
        description=(
            "Compare the ACLs of zkcoord's nodes with what they should be, and make them so."
        ),
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(dest="acl_command", metavar="audit|apply", required=True)
    for name, about in (
        ("audit", "nodes whose ACL is not that of their place"),
        ("apply", "give each node the ACL of its place"),
    ):
        command = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.", epilog=EPILOG
        )
        if name == "apply":
            command.add_argument(
                "--execute",
                action="store_true",
                help="change it; without this only what would be changed is shown",
            )
        command.add_argument("--json", action="store_true", help="JSON instead of text")
        add_flags(command, Use.GROUPS, ("acl", "layout", *BROKER_OPTIONS))


def run(args: argparse.Namespace) -> int:
    """0, or 3 where `audit` has found something; what cannot be done is raised (`ZkcoordError`)."""
    zk = zk_options(resolve(Use.GROUPS, vars(args), os.environ))
    if zk.roles is None:
        raise ConfigurationError(
            "nothing says who may do what: give --acl-coordinators and --acl-members"
            " (docs/security.md)"
        )
    with AclClient(zk) as client:
        found = audit(client, zk.roles, NODES_MAX)
        if args.acl_command == "audit" or not args.execute:
            status = FOUND if args.acl_command == "audit" and found.findings else OK
            try:
                _print(found, args.json)
            except BrokenPipeError:
                if status == OK:
                    raise
            if args.acl_command == "apply":
                _conclude_dry_run(found, args.json)
            return status
        whose = doubtful(client, found)
        # before anything is printed: whoever reads that may be gone
        changed = _apply(client, zk.roles, found, Progress("zkcoord acl apply"))
    said = f"{counted(changed, 'node')} changed"
    if not args.json:
        said = "".join(f"{path}: {DOUBT}\n" for path in whose) + said
    out(
        json.dumps({"changed": changed, "doubtful": whose}) + "\n" if args.json else f"{said}\n",
        done=said,
    )
    return OK


def _conclude_dry_run(found: AclAudit, as_json: bool) -> None:
    """Raises `RefusedError` where --execute would not do all of it."""
    hidden = [finding.path for finding in found.findings if finding.closed]
    if hidden:
        raise RefusedError(
            f"ZooKeeper does not let this client change {some(hidden, 3)} (nothing was changed):"
            f" {GIVE}"
        )
    if not as_json:
        Progress("zkcoord acl").note("nothing was changed; add --execute")


def _apply(client: AclClient, roles: Roles, found: AclAudit, progress: Progress) -> int:
    """Set what differs and look again: nodes are made meanwhile by processes that were started
    without roles, and what was hidden is seen. What ZooKeeper does not let this client change is
    left out, and named when all the rest is done. Raises `RefusedError` for that, or where it does
    not come to an end.
    """
    changed = 0
    denied: list[str] = []
    for _ in range(PASSES_MAX):
        paths = [finding.path for finding in found.findings if finding.path not in denied]
        if not paths:
            break
        answers = client.set_acls([(path, roles.acl(path)) for path in paths])
        refused = [
            path for path, answer in zip(paths, answers, strict=False) if isinstance(answer, Denied)
        ]
        denied += refused
        changed += len(paths) - len(refused)
        progress.say(f"{counted(changed, 'node')} changed")
        found = audit(client, roles, NODES_MAX)
    else:
        raise RefusedError(
            f"{counted(changed, 'node', 'was')} changed, and there are always new ones"
            f" ({some([f.path for f in found.findings], 3)}): start the processes that make them"
            " with the same roles first"
        )
    if denied:
        raise RefusedError(
            f"ZooKeeper does not let this client change {counted(len(denied), 'node')}"
            f" ({some(denied, 3)}); {counted(changed, 'other', 'was')} changed: {GIVE}"
        )
    return changed


def _print(found: AclAudit, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "path": f.path,
                "open": f.is_open,
                "closed": f.closed,
                "more": [list(item) for item in f.more],
                "less": [list(item) for item in f.less],
            }
            for f in found.findings
        ]
        out(
            json.dumps(
                {"nodes": found.looked_at, "left_off": found.left_off, "findings": rows}, indent=1
            )
            + "\n"
        )
        return
    for finding in found.findings:
        out(f"{printable(str(finding))}\n")
    more = ", and there are more that were not looked at" if found.left_off else ""
    out(
        f"{counted(found.looked_at, 'node')} looked at{more}: {len(found.open)} open,"
        f" {len(found.findings) - len(found.open)} otherwise different\n"
    )
