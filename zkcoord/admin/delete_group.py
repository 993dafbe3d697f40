"""Deleting a group: everything below its node, its registrations' parent, its owners and (unless
they are kept) its offsets, deepest first, in bounded transactions.

Nothing of a member is ever deleted. What is there is read first and then, after a sync, that nobody
is registered: a channel is made in the transaction that registers, so every channel that was read
belongs to somebody who is gone. A registration that no session holds is nobody's, whatever it says,
and one that a session holds is somebody's. The registrations' parent goes first, with what is
nobody's in it: it cannot go while it has another child. Offsets go at the version that was read.
A member that comes in between makes parents anew where it needs them, and what it makes cannot be
deleted: its parent is not empty, its offset has another version. Then the deletion ends and says
so.

It is begun anew from a fresh look after anything unexpected, so it may be interrupted and repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zkcoord.admin.common import (
    NODES_PER_READ,
    Progress,
    children,
    members_now,
    some,
    write_refused,
)
from zkcoord.admin.delete_led import LedPart
from zkcoord.core.model import Malformed, TopicPartition
from zkcoord.core.value_type import value
from zkcoord.errors import UnknownGroupError
from zkcoord.words import counted
from zkcoord.zk.port import (
    Committed,
    Delete,
    GetChildren,
    GetData,
    Missing,
    Node,
    Read,
    ReadAnswer,
    Rejected,
    ZkError,
)
from zkcoord.zk.sync.client import SyncClient, fitting
from zkcoord.zk.sync.listed_names import no_such_group
from zkcoord.znodes import names
from zkcoord.znodes.codec import decode_command, decode_publication
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.places import (
    ChannelAt,
    ChannelsAt,
    CommandAt,
    GroupAt,
    IdsAt,
    ModeAt,
    OwnerAt,
    OwnersAt,
    OwnerTopicAt,
    PublicationAt,
    RegistrationAt,
    RequestAt,
)

BATCH_MAX = 400
ROUNDS_MAX = 20
CLIENT_LED = "client-led"
EXPECTED = (ZkError.NO_NODE, ZkError.NOT_EMPTY, ZkError.BAD_VERSION)
KINDS = {
    GroupAt: "group",
    IdsAt: "parents",
    RegistrationAt: "registrations",
    ChannelsAt: "parents",
    ChannelAt: "channels",
    CommandAt: "commands",
    ModeAt: "mode",
    RequestAt: "requests",
    PublicationAt: "publications",
    OwnersAt: "parents",
    OwnerTopicAt: "parents",
    OwnerAt: "owners",
}


@value
class Item:
    """A node of the group. `version` is that of its data, `session` the one that it ends with (0:
    none); `readable` False: a command, or a sink's batch, that says nothing.
    """

    path: str
    kind: str
    version: int
    session: int
    readable: bool = True


@dataclass(frozen=True)
class Deleted:
    """How many nodes of each kind are deleted (or, of a dry run, would be); `refusal` is one
    sentence where it ended early, or would. `nobodys`: registrations that no session holds.
    """

    group: str
    counts: dict[str, int]
    refusal: str = ""
    nobodys: tuple[str, ...] = ()


class Deletion:
    """The deletion of one group. `left_ms` bounds how long it waits for the coordinator to take
    back commands of members that are gone; `pause` rests between two looks. `unreadable`: batches
    of sinks that nobody can read go as well; `advice`: how somebody says so. `denied`: a right was
    missing. `led`: what is to go as well, and first, where clients have led it.
    """

    def __init__(
        self,
        client: SyncClient,
        layout: Layout,
        group: str,
        keep_offsets: bool,
        left_ms: Callable[[], int],
        pause: Callable[[], object],
        progress: Progress,
        unreadable: bool = False,
        advice: str = "add --unreadable to delete them with the group",
        led: LedPart | None = None,
    ) -> None:
        self.led = led
        self.client = client
        self.layout = layout
        self.group = group
        self.left_ms = left_ms
        self.pause = pause
        self.progress = progress
        self.unreadable = unreadable
        self.advice = advice
        self.denied = False
        places = [
            layout.group(group),
            layout.ids(group),
            layout.owners(group),
            *([] if keep_offsets else [layout.offsets(group), layout.commit_metadata_root(group)]),
        ]
        self.roots = [
            path for path in places if not any(path.startswith(f"{other}/") for other in places)
        ]
        self.keep_offsets = keep_offsets
        self.deleted: Counter[str] = Counter()

    def plan(self) -> Deleted:
        """What would be deleted. Raises `UnknownGroupError`."""
        led = self.led.nodes() if self.led is not None else 0
        items = self._walk() if led else self._existing()
        refusal = self.led.refusal() if self.led is not None and led else ""
        return Deleted(
            self.group,
            dict(Counter(item.kind for item in items) + Counter({CLIENT_LED: led})),
            refusal or self._refusal(items, self._commands(items)),
            tuple(
                item.path.rpartition("/")[2]
                for item in items
                if item.path.rpartition("/")[0] == self.layout.ids(self.group) and not item.session
            ),
        )

    def execute(self) -> Deleted:
        """Delete it. What was deleted stays in `deleted` also when this raises. Raises
        `UnknownGroupError`.
        """
        led = self.led.nodes() if self.led is not None else 0
        if self.led is not None and led:
            refusal = self.led.refusal() or self.led.delete()
            if refusal:
                return self._ended(refusal)
            self.deleted[CLIENT_LED] += led
        items = self._walk() if led else self._existing()
        rounds = 0
        while items:
            commands = self._commands(items)
            refusal = self._refusal(items, commands)
            if refusal or rounds > ROUNDS_MAX:
                return self._ended(
                    refusal
                    or f"somebody makes nodes of the group {self.group} again and again:"
                    " look who uses it"
                )
            if commands:
                self.progress.update(
                    f"waiting for the coordinator to take back commands of {self.group}"
                )
                self.pause()
            else:
                rounds += 1
                refusal = self._delete(items)
                if refusal:
                    return self._ended(refusal)
            items = self._walk(quiet=bool(commands))
        self._home()
        return self._ended("")

    def _ended(self, refusal: str) -> Deleted:
        self.progress.end()
        return Deleted(self.group, dict(self.deleted), refusal)

    def _existing(self) -> list[Item]:
        items = self._walk()
        if not items:
            (offsets,) = self.client.see([GetData(self.layout.offsets(self.group))])
            raise UnknownGroupError(
                f"there is nothing of the group {self.group} but its offsets, and --keep-offsets"
                " leaves these: leave that out to delete them"
                if isinstance(offsets, Node)
                else no_such_group(self.client, self.layout, self.group)
            )
        return items

    def _walk(self, quiet: bool = False) -> list[Item]:
        """Every node of the group, parents before their children."""
        self.client.sync()
        items: list[Item] = []
        level = list(self.roots)
        while level:
            below: list[str] = []
            for start in range(0, len(level), NODES_PER_READ):
                part = level[start : start + NODES_PER_READ]
                reads: list[Read] = [
                    read for path in part for read in (GetData(path), GetChildren(path))
                ]
                answers = iter(self.client.read(reads))
                for path, node, found in zip(part, answers, answers, strict=False):
                    below += [f"{path}/{name}" for name in children(found, path)]
                    items += self._item(path, node)
            if not quiet:
                self.progress.say(f"{len(items)} nodes of {self.group} read")
            level = below
        return items

    def _item(self, path: str, node: ReadAnswer) -> list[Item]:
        if not isinstance(node, Node):
            return []
        where = self.layout.locate(path)
        says: object = None
        if isinstance(where, CommandAt):
            says = decode_command(where.member, where.node, node.data)
        elif isinstance(where, PublicationAt):
            says = decode_publication(where.node, node.data)
        stat = node.stat
        kind = self._kind(path)
        readable = not isinstance(says, Malformed)
        return [Item(path, kind, stat.version, stat.ephemeral_owner, readable)]

    def _kind(self, path: str) -> str:
        offsets = self.layout.offsets(self.group)
        if path.startswith(offsets):
            return "offsets" if path.count("/") == offsets.count("/") + 2 else "parents"
        if path.startswith(self.layout.commit_metadata_root(self.group)):
            return "commit-metadata" if path.count("/") == offsets.count("/") + 2 else "parents"
        return KINDS.get(
            type(self.layout.locate(path)),
            (
                "parents"
                if path in (self.layout.requests(self.group), self.layout.publications(self.group))
                else "other"
            ),
        )

    def _commands(self, items: Sequence[Item]) -> int:
        """How many commands a coordinator that leads has outstanding; those of one that is gone do
        not count, and neither does what no coordinator has written.
        """
        commands = sum(item.kind == "commands" and item.readable for item in items)
        return (
            commands
            if commands and isinstance(self.client.see([GetData(self.layout.leader)])[0], Node)
            else 0
        )

    def _refusal(self, items: Sequence[Item], commands: int) -> str:
        """What stands against it, after a sync: registrations, owners whose session lives, a
        coordinator's commands when the time for them is over.
        """
        members = members_now(self.client, self.layout, self.group)
        if members:
            came = " came while it was deleted" if self.deleted else ""
            return f"the group {self.group} has members ({some(members)}){came}: stop them first"
        ids = f"{self.layout.ids(self.group)}/"
        held = [
            item.path
            for item in items
            if item.session and item.path.startswith(ids) and "/" in item.path[len(ids) :]
        ]
        if held:
            return f"a session that lives holds {some(held)}: stop who holds it first"
        owned = [
            self._partition(item.path) for item in items if item.kind == "owners" and item.session
        ]
        if owned:
            return (
                f"{some(owned)} of the group {self.group} is still owned by a session whose"
                " registration is gone: wait until that session ends"
            )
        batches = [item for item in items if item.kind == "publications"]
        lost = [item.path.rpartition("/")[2] for item in batches if not item.readable]
        unfinished = len(batches) - len(lost)
        if unfinished:
            return (
                f"the group {self.group} has committed batches whose files are not visible yet"
                f" ({unfinished}): make them visible first (python -m zkcoord.consumer.spark.sink)"
            )
        if lost and not self.unreadable:
            return (
                f"{self.layout.publications(self.group)} has nodes that cannot be read"
                f" ({some(lost)}): if they were batches of a sink, nobody can make their files"
                f" visible; {self.advice}"
            )
        if commands and self.left_ms() <= 0:
            return (
                f"{counted(commands, 'command', 'is')} outstanding from the coordinator to"
                f" {self.group}: it takes those of members that are gone back by itself; look at"
                " its log"
            )
        return ""

    def _partition(self, path: str) -> TopicPartition | str:
        where = self.layout.locate(path)
        return where.partition if isinstance(where, OwnerAt) else names.shown(path)

    def _delete(self, items: Sequence[Item]) -> str:
        """One pass, deepest first; it ends early where anything is not as it was read. One sentence
        where it cannot go on at all.
        """
        ids = self.layout.ids(self.group)
        deepest = sorted(items, key=lambda item: (-item.path.count("/"), item.path))
        registered = [item for item in deepest if f"{item.path}/".startswith(f"{ids}/")]
        if any(item.session for item in registered):
            return ""  # it was somebody's when it was read: look again
        rest = [item for item in deepest if not f"{item.path}/".startswith(f"{ids}/")]
        for piece in (*self._pieces(registered), *self._pieces(rest)):
            result = self.client.multi([self._op(item) for item in piece])
            if isinstance(result, Rejected) and result.error not in EXPECTED:
                self.denied = result.error is ZkError.NO_AUTH
                return write_refused(self.client, self._op(piece[result.index]), result.error)
            if not isinstance(result, Committed):
                return ""
            self.deleted.update(item.kind for item in piece)
            self.progress.say(
                f"{sum(self.deleted.values())} of {len(items)} nodes of {self.group} deleted"
            )
        return ""

    def _pieces(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        """What goes in one transaction each."""
        while items:
            count = fitting([[self._op(item)] for item in items[:BATCH_MAX]])
            yield items[:count]
            items = items[count:]

    def _op(self, item: Item) -> Delete:
        return Delete(item.path, item.version if item.kind == "offsets" else -1)

    def _home(self) -> None:
        """The offsets' parent, if nothing of an old consumer is left in it."""
        if not self.keep_offsets:
            path = self.layout.offsets(self.group).rpartition("/")[0]
            (answer,) = self.client.see([GetChildren(path)])
            if not isinstance(answer, Missing) and not children(answer, path):
                self.client.multi([Delete(path)])
