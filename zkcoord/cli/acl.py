"""`zkcoord acl`: who may do what with zkcoord's nodes, and making it so."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zkcoord.admin.common import Progress, some
from zkcoord.config.option_spec import Use
from zkcoord.config.options import BROKER_OPTIONS
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import add_flags, resolve
from zkcoord.errors import ConfigurationError, RefusedError, ZkcoordError
from zkcoord.terminal import out, printable
from zkcoord.words import counted
from zkcoord.zk.acl.audit import CHILDREN_LISTED_MAX, AclAudit, audit
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.acl.doubts import AclDoubt, AclDoubts, DoubtKind
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import Denied

NODES_MAX = 1_000_000
PASSES_MAX = 5
OK, FOUND = 0, 3
COULD = "others than coordinators could make it"
DOUBTS = {
    DoubtKind.WORD: "it is believed: see that it is an operator's or a coordinator's, or delete it",
    DoubtKind.GATEWAY: (
        "clients are sent to {about} by it: see that a gateway of yours is there, or delete it"
    ),
}
OTHER_DOUBTS = {
    DoubtKind.LEADER: (
        f"{COULD}, together with its epoch; a coordinator of the layout {{about}} leads by it, and"
        " those of the other layout wait: see that it is yours, or delete it"
    ),
    DoubtKind.NOTHING: (
        f"{COULD}; no gateway writes it so (it is persistent, or cannot be read), and it counts for"
        " nothing: delete it"
    ),
}
UNTIL_NOW, UNTIL_THEN = "until now, and from now on", "until --execute, and from then on"

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
        if args.acl_command == "audit":
            status = FOUND if found.findings else OK
            try:
                _print(found, args.json)
            except BrokenPipeError:
                if status == OK:
                    raise
            return status
        if args.execute:
            return _execute(client, zk.roles, found, args.json)
        return _dry_run(client, zk.roles, found, args.json)


def _dry_run(client: AclClient, roles: Roles, found: AclAudit, as_json: bool) -> int:
    """Show what would be done. Raises `RefusedError` where --execute would not do all of it."""
    doubts = AclDoubts(client)
    doubts.look(found)
    paths = [finding.path for finding in found.findings]
    refused = client.denied([(path, roles.acl(path)) for path in paths])
    denied = [path for path, is_refused in zip(paths, refused, strict=True) if is_refused]
    doubts.leave_out(denied)
    _print(found, as_json, doubts)
    if denied:
        raise RefusedError(f"{_denied(denied)} (nothing was changed): {GIVE}")
    if not as_json:
        Progress("zkcoord acl").note("nothing was changed; add --execute")
    return OK


def _execute(client: AclClient, roles: Roles, found: AclAudit, as_json: bool) -> int:
    """Whatever it comes to, what is believed from now on is named: no later run would."""
    run = AclRun(AclDoubts(client))
    failure: ZkcoordError | KeyboardInterrupt | None = None
    try:
        # before anything is printed: whoever reads that may be gone
        _apply(client, roles, found, Progress("zkcoord acl apply"), run)
    except (ZkcoordError, KeyboardInterrupt) as error:
        failure = error
    run.doubts.leave_out(run.denied)
    said = f"{counted(run.changed, 'node')} changed"
    if as_json:
        text = json.dumps({"changed": run.changed, "doubtful": list(run.doubts.found)})
    else:
        said = text = _named(run.doubts, UNTIL_NOW) + said
    out(f"{text}\n", done=said)
    if failure is not None:
        raise failure
    return OK


def _named(doubts: AclDoubts, until: str) -> str:
    """What is believed from then on, a line each."""
    lines = (f"{printable(one.path)}: {_doubt(one, until)}\n" for one in doubts.found.values())
    return "".join(lines)


def _doubt(doubt: AclDoubt, until: str) -> str:
    if doubt.kind in OTHER_DOUBTS:
        return OTHER_DOUBTS[doubt.kind].format(about=doubt.about)
    return f"{COULD} {until} {DOUBTS[doubt.kind].format(about=doubt.about)}"


def _denied(paths: Sequence[str]) -> str:
    return (
        f"ZooKeeper does not let this client change {counted(len(paths), 'node')}"
        f" ({some(paths, 3)})"
    )


@dataclass
class AclRun:
    """What has been done so far."""

    doubts: AclDoubts
    changed: int = 0
    denied: list[str] = field(default_factory=list)


def _apply(
    client: AclClient, roles: Roles, found: AclAudit, progress: Progress, run: AclRun
) -> None:
    """Set what differs and look again: nodes are made meanwhile by processes that were started
    without roles, and what was hidden is seen. What ZooKeeper does not let this client change is
    left out, and named when all the rest is done. Raises `RefusedError` for that, or where it does
    not come to an end.
    """
    denied = run.denied
    left_off = found.left_off
    for _ in range(PASSES_MAX):
        run.doubts.look(found)
        paths = [finding.path for finding in found.findings if finding.path not in denied]
        if not paths:
            break
        answers = client.set_acls([(path, roles.acl(path)) for path in paths])
        refused = [
            path for path, answer in zip(paths, answers, strict=False) if isinstance(answer, Denied)
        ]
        denied += refused
        run.changed += len(paths) - len(refused)
        progress.say(f"{counted(run.changed, 'node')} changed")
        found = audit(client, roles, NODES_MAX)
    else:
        raise RefusedError(
            f"{counted(run.changed, 'node', 'was')} changed, and there are always new ones"
            f" ({some([f.path for f in found.findings], 3)}): start the processes that make them"
            " with the same roles first"
        )
    if denied:
        raise RefusedError(
            f"{_denied(denied)}; {counted(run.changed, 'other', 'was')} changed: {GIVE}"
        )
    if left_off or found.left_off:
        raise RefusedError(
            f"{counted(run.changed, 'node', 'was')} changed, and there are more than were looked"
            f" at ({NODES_MAX} in all, below each {CHILDREN_LISTED_MAX}), which may be believed"
            " from now on: delete what is nobody's, and repeat this"
        )


def _print(found: AclAudit, as_json: bool, doubts: AclDoubts | None = None) -> None:
    if as_json:
        more = {} if doubts is None else {"doubtful": list(doubts.found)}
        rows: list[dict[str, object]] = [
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
                {
                    "nodes": found.looked_at,
                    "left_off": found.left_off,
                    "findings": rows,
                    **more,
                },
                indent=1,
            )
            + "\n"
        )
        return
    for finding in found.findings:
        out(f"{printable(str(finding))}\n")
    if doubts is not None:
        out(_named(doubts, UNTIL_THEN))
    rest = ", and there are more that were not looked at" if found.left_off else ""
    out(
        f"{counted(found.looked_at, 'node')} looked at{rest}: {len(found.open)} open,"
        f" {len(found.findings) - len(found.open)} otherwise different\n"
    )
