"""What the commands that change a group share: looking first, progress, names.

An operator's command proves what it relies on. What one transaction can prove (a version, an empty
node) is in the transaction; what it cannot (that nobody registered: ZooKeeper's check compares data
versions only, and a registration moves none but its own) is read before and after it, each time
after a sync.
"""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterable, Sequence

from zkcoord.core.classic.state import ClassicState
from zkcoord.errors import RefusedError
from zkcoord.terminal import err, printable
from zkcoord.zk.acl.belief import BEYOND
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import (
    Children,
    Committed,
    Create,
    Delete,
    Denied,
    GetChildren,
    GetData,
    MultiResult,
    Node,
    Op,
    ReadAnswer,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.zk.sync.beliefs import doubts, left_alone
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.znodes.classic.documents import decode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout

QUIET_MS = 1_000
NAMES_SHOWN_MAX = 5
NODES_PER_READ = 500
RACES = (ZkError.NODE_EXISTS, ZkError.BAD_VERSION, ZkError.NO_NODE)
ON_BEHALF_OF = "ZKCOORD_ON_BEHALF_OF"
BEHALF_CHARS_MAX = 100
APPLY = "run zkcoord acl apply --execute, then repeat this"
MENDED_BY_OTHERS = "repeat this once that is mended"


class Progress:
    """Says on standard error what takes longer than a second, at most once a second."""

    def __init__(self, prog: str) -> None:
        self.prog = prog
        self._next_ms = boot_ms() + QUIET_MS
        # What `update` has written last.
        self._said = ""

    def say(self, text: str) -> None:
        """Where things stand now."""
        now = boot_ms()
        if now >= self._next_ms:
            self._next_ms = now + QUIET_MS
            self.note(text)

    def update(self, text: str) -> None:
        """What is waited for: on a terminal one line that is written over, else a line when it is
        something else than before.
        """
        now = boot_ms()
        if now < self._next_ms or text == self._said:
            return
        self._next_ms = now + QUIET_MS
        self._said = text
        if sys.stderr.isatty():
            width = max(20, shutil.get_terminal_size().columns - 1)
            err(printable(f"{self.prog}: {text}")[:width], over=True)
        else:
            self.note(text)

    def note(self, text: str) -> None:
        """Something worth a line in any case."""
        self.end()
        err(f"{self.prog}: {printable(text)}\n")

    def end(self) -> None:
        """Nothing is waited for: what comes next begins a line of its own."""
        if self._said and sys.stderr.isatty():
            err("", over=True)
            self._said = ""


def some(names: Iterable[object], shown_max: int = NAMES_SHOWN_MAX) -> str:
    """A few of these names for a sentence."""
    listed = [str(name) for name in names]
    more = len(listed) - shown_max
    return ", ".join(listed[:shown_max]) + (f" and {more} more" if more > 0 else "")


def argument(name: str) -> str:
    """A name as the last argument of a command that is suggested, for a shell."""
    return ("-- " if name.startswith("-") else "") + shlex.quote(name)


def whoami() -> str:
    """user@host, for the coordinator's journal, and on whose behalf (`ON_BEHALF_OF`: a reader of
    the console's pages); a user without a name is its number.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    behalf = printable(os.environ.get(ON_BEHALF_OF, "")[:BEHALF_CHARS_MAX])
    here = f"{user}@{socket.gethostname()}"
    return f"{behalf} by {here}" if behalf else here


def write_refused(client: SyncClient, op: Op, error: ZkError) -> str:
    """Why ZooKeeper refused an operation, and what helps: one sentence. Where it is a right that is
    missing, whose and which.
    """
    if error is not ZkError.NO_AUTH:
        return (
            f"ZooKeeper refused to write {op.path} ({error.value}): look at its quota and its log,"
            " then repeat the command"
        )
    parent = op.path.rpartition("/")[0] or "/"
    right = {
        Create: f"to create children of {parent} (c)",
        Delete: f"to delete children of {parent} (d)",
        SetData: f"to write {op.path} (w)",
    }.get(type(op), f"to read {op.path} (r)")
    return (
        f"{client.principal} has not ZooKeeper's right {right}: give"
        f" {'other ' if client.given else ''}credentials that have it (--zookeeper-user), or have"
        " that node's ACL changed by who made it"
    )


def is_written(client: SyncClient, op: Op, result: MultiResult) -> bool:
    """Whether this operation, alone in its transaction, was done; else somebody was faster, or
    nothing is known of it: look again. Raises `RefusedError` where ZooKeeper will not have it.
    """
    if isinstance(result, Rejected) and result.error not in RACES:
        raise RefusedError(write_refused(client, op, result.error))
    return isinstance(result, Committed)


def changed_again_and_again(path: str) -> RefusedError:
    """Who looks again has done so often enough."""
    return RefusedError(
        f"somebody else changes {path} again and again, or ZooKeeper does not answer: look who"
        " uses it, then try again"
    )


def members_now(reader: SyncClient, layout: Layout, group: str) -> tuple[str, ...]:
    """Who is registered, after a sync: each registration that a session holds, whatever it says. A
    persistent one is nobody's. Raises `RefusedError` where the other layout has members of this
    group, whose offsets are the same nodes, where a registration is hidden, and where clients lead
    it.
    """
    other = layout.other_profile()
    reader.sync()
    refuse_led(reader, layout, group)
    refuse_led(reader, other, group)
    mine, others = reader.read([GetChildren(layout.ids(group)), GetChildren(other.ids(group))])
    foreign = _of_sessions(reader, other.ids(group), others)
    if foreign:
        raise RefusedError(
            f"the group {group} has members with the layout {other.name}, or old consumers:"
            f" {some(foreign)}; stop them, or use --layout {other.name}"
        )
    return _of_sessions(reader, layout.ids(group), mine)


def refuse_led(reader: SyncClient, layout: Layout, group: str) -> None:
    """Raise `RefusedError` where a group has members that one of them leads, and where nobody
    knows, because others than coordinators can have written what is said of that.
    """
    node = _believed_led(reader, layout, group)
    state = decode_state(group, node.data) if node is not None else None
    if isinstance(state, ClassicState) and state.members:
        names = some(shown(one.member_id) for one in state.members)
        raise RefusedError(
            f"the group {group} has members that one of them leads ({names}): stop them first"
            f" (zkcoord groups describe {argument(group)} --members)"
        )


def refuse_doubted_led(reader: SyncClient, layout: Layout, group: str) -> None:
    """Raise `RefusedError` where nobody knows whether clients lead a group."""
    _believed_led(reader, layout, group)


def _believed_led(reader: SyncClient, layout: Layout, group: str) -> Node | None:
    """What is said of clients that lead a group. It is refused where it is doubted, whatever it
    says: taken for absent, it would let something happen to members.
    """
    paths = ClassicPaths(layout)
    path, own = paths.state(group), paths.said(group)
    found = reader.see([*map(GetData, own)])
    if not any(isinstance(node, Node) for node in found):
        return None
    why = doubts(reader, layout, paths.above_groups(), {group: own})
    if why:
        raise RefusedError(
            f"whether clients lead the group {group} is not known, since {path} is not believed"
            f" ({why[group]}): {_then(why[group])}"
        )
    return found[1] if isinstance(found[1], Node) else None


def _then(why: str) -> str:
    """What to do where something is not believed for this reason."""
    return MENDED_BY_OTHERS if BEYOND in why else APPLY


def refuse_doubted_word(
    client: SyncClient, layout: Layout, above: Sequence[str], path: str
) -> None:
    """Raise `RefusedError` where an operator's word at this path would count for nothing, because
    others than coordinators can write it, or one of those `above`.
    """
    why = doubts(client, layout, above, {path: (path,)})
    if why:
        raise RefusedError(
            f"what is to be said in {path} would not be believed ({why[path]}): {_then(why[path])}"
        )


def refuse_left_alone(client: SyncClient, layout: Layout, group: str) -> None:
    """Raise `RefusedError` where coordinators leave a group alone: nothing that is said of it would
    be taken up.
    """
    why = left_alone(client, layout, [group]).get(group, "")
    if why:
        raise RefusedError(
            f"coordinators leave the group {group} alone, and take nothing up that is said of it"
            f" ({why}): {_then(why)}"
        )


def _of_sessions(reader: SyncClient, parent: str, answer: ReadAnswer) -> tuple[str, ...]:
    """The children that end with a session."""
    listed = children(answer, parent)
    found: list[str] = []
    for start in range(0, len(listed), NODES_PER_READ):
        part = listed[start : start + NODES_PER_READ]
        nodes = reader.see([GetData(f"{parent}/{name}") for name in part])
        found += [
            name
            for name, node in zip(part, nodes, strict=True)
            if isinstance(node, Node) and node.stat.ephemeral_owner
        ]
    return tuple(found)


def children(answer: ReadAnswer, path: str) -> tuple[str, ...]:
    """The children's names; none where there is no node. Raises `RefusedError` where they may not
    be seen.
    """
    if isinstance(answer, Denied):
        raise RefusedError(not_allowed(path, answer))
    return answer.names if isinstance(answer, Children) else ()
