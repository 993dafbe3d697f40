"""Whether the nodes that a group consists of are there, and whether they are believed.

Where the coordinator makes them (there is a root of asks), a member that misses one makes an
ephemeral node with the group's name below that root, and waits until it is gone: the coordinator
deletes it in the multi that makes what is missing. Where nobody answers for a while (nobody leads,
or an older coordinator does), and where there is no such root, the member makes them itself, if it
may. That nobody served asks lately is known to the whole process for a while (`unserved_asks`): the
nodes of another group are then made without the wait. What may be written by others than its place
allows counts as absent: the member says so once, and waits until that was mended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consumer.member.joining.unserved_asks import UnservedAsks
from zkcoord.core.model import Malformed, Mode
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    AclEntry,
    AclsDone,
    AclsResult,
    Committed,
    Create,
    Delete,
    Denied,
    GetData,
    Missing,
    MultiResult,
    Node,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    Unanswered,
    WatchMode,
    ZkError,
)
from zkcoord.znodes import codec
from zkcoord.znodes.paths import Layout, parents

ASK_WAIT_MS = 1_000
ASK_AGAIN_MS = 3_000
ASKS_AT_ONCE_MAX = 5
DOUBTED_AGAIN_MS = 250
DOUBTED_MAX = 40
"""So often it looks again at what coordinators may be about to take back: at what they cannot take
back at once they look every 5 s.
"""

BELIEVED_LATER = (ZkError.NODE_EXISTS, ZkError.NO_NODE)


class GroupNodes:
    """The nodes of one group, for one attempt to join. `look` reads `paths` again and calls
    `arrange`; `fail` ends the attempt with a sentence; `waits` is told why it takes longer, once
    for each reason. `tick` is to be called at `wake_ms`, `ask_gone` when the node `layout.ask` was
    deleted.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        group: str,
        acl: tuple[AclEntry, ...],
        roles: Roles | None,
        clock: Callable[[], int],
        look: Callable[[], None],
        fail: Callable[[str], None],
        waits: Callable[[str], None],
        unserved: UnservedAsks | None = None,
    ) -> None:
        self.port = port
        self.layout = layout
        self.group = group
        self.acl = acl
        self.roles = roles
        self.clock = clock
        self.look = look
        self.fail = fail
        self.waits = waits
        self.unserved = unserved
        self.wake_ms: int | None = None
        self.asks = self.doubts = 0
        self.asking = self.by_itself = False
        self.may_ask = True
        # Whether it has made some of them itself.
        self.made = False
        self.told = ""
        self.needed = _needed(layout, group)
        self.paths = (*self.needed, *self._beside(), layout.asks)

    def _beside(self) -> tuple[str, ...]:
        """What the coordinator makes with the rest, and a member can do without."""
        return tuple(p for p in self.layout.parts(self.group) if p not in self.needed)

    def arrange(self, found: Mapping[str, ReadAnswer], ready: Callable[[], None]) -> None:
        """What was read of `paths`: go on with `ready` when all is there and believed."""
        lacking = [path for path in self.needed if isinstance(found[path], Missing)]
        asked_for = isinstance(found[self.layout.asks], Node)
        if not lacking:
            if self.by_itself and self.made and self.unserved is not None:
                self.unserved.found(self.clock(), self.layout.asks, self.group, ASK_WAIT_MS)
            self.by_itself = self.made = False
            if asked_for and any(isinstance(found[path], Missing) for path in self._beside()):
                self._ask(lambda result: None)
            self._believe(ready)
        elif asked_for and not self.by_itself and not self._nobody_serves():
            self._ask_and_wait()
        else:
            self.port.multi([self._create(lacking[0])], lambda r: self._made(r, asked_for))

    def _nobody_serves(self) -> bool:
        return self.unserved is not None and self.unserved.known(self.clock())

    def _create(self, path: str) -> Create:
        if self.roles is not None and path in self.layout.above_parts(self.group):
            return Create(path, b"", acl=self.roles.made_by_members(), own_acl=True)
        return Create(path, b"", acl=self.acl)

    def ask_gone(self) -> None:
        """The coordinator answered, or somebody took the ask away."""
        if self.wake_ms is not None:
            self.wake_ms = None
            self.look()

    def tick(self) -> None:
        """Nobody answered: try, if it may."""
        if self.wake_ms is not None and self.clock() >= self.wake_ms:
            self.wake_ms, self.asks, self.by_itself = None, 0, self.asking
            self.look()

    def _ask_and_wait(self) -> None:
        self.asks += 1
        self.asking = True
        self.wake_ms = self.clock() + ASK_WAIT_MS
        if self.asks <= ASKS_AT_ONCE_MAX:
            ask = self._ask_anew if self.told and self.asks == 1 else self._ask
            self.port.watch(
                self.layout.ask(self.group), WatchMode.PERSISTENT, lambda r: ask(self._asked)
            )

    def _ask(self, done: Callable[[MultiResult], None]) -> None:
        self.port.multi([self._ask_node()], done)

    def _ask_anew(self, done: Callable[[MultiResult], None]) -> None:
        """An ask that nobody answered for long may have been one of too many: a new one is heard
        of by itself.
        """
        gone = Delete(self.layout.ask(self.group))
        self.port.multi([gone, self._ask_node()], lambda r: self._asked_anew(r, done))

    def _ask_node(self) -> Create:
        return Create(self.layout.ask(self.group), b"", ephemeral=True, acl=self.acl)

    def _asked_anew(self, result: MultiResult, done: Callable[[MultiResult], None]) -> None:
        if isinstance(result, Rejected) and result.error is ZkError.NO_NODE:
            self._ask(done)
        else:
            done(result)

    def _asked(self, result: MultiResult) -> None:
        """It is asked for, perhaps by another; where it may not ask it tries at once."""
        if isinstance(result, Rejected) and result.error is not ZkError.NODE_EXISTS:
            self.may_ask = result.error is not ZkError.NO_AUTH
            self.wake_ms = self.clock()

    def _made(self, result: MultiResult, asked_for: bool) -> None:
        if isinstance(result, Unanswered):
            return
        if isinstance(result, Rejected) and result.error not in BELIEVED_LATER:
            if self._nobody_serves() and self.unserved is not None:
                self.unserved.forget()
            elif asked_for and self.may_ask:
                return self._wait("no coordinator has made them yet: see that one runs")
            else:
                return self.fail(
                    f"ZooKeeper does not let this consumer create the nodes of group {self.group}"
                    f" ({result.error.value}): start a coordinator first, which makes them, or give"
                    " it credentials that may"
                )
        self.made = self.made or isinstance(result, Committed)
        self.look()

    def doubted(self, reason: str) -> bool:
        """What keeps it out can have been said by others than coordinators: wait for a coordinator
        to take it back, and `look` again. False: it has waited long enough.
        """
        self.doubts += 1
        if self.doubts > DOUBTED_MAX:
            return False
        self._wait(reason, DOUBTED_AGAIN_MS)
        return True

    def _wait(self, reason: str, again_ms: int = ASK_AGAIN_MS) -> None:
        self.asking = self.by_itself = False
        self.wake_ms = self.clock() + again_ms
        if self.told != reason:
            self.told = reason
            self.waits(reason)

    def _believe(self, ready: Callable[[], None]) -> None:
        if self.roles is None:
            return ready()
        roles, paths = self.roles, self.layout.parts(self.group)

        def answered(result: AclsResult) -> None:
            if not isinstance(result, AclsDone):
                return
            root, *rest = result.answers
            wrong = Belief(roles, root).usable_group(self.layout, self.group, paths, rest)
            if wrong:
                self._wait(wrong)
            else:
                ready()

        self.port.acls([self.layout.epoch, *paths], answered)


def _needed(layout: Layout, group: str) -> tuple[str, ...]:
    """What must exist before channel and registration, from the root down."""
    wanted = [
        *parents(layout.channel(group, "c")),
        *parents(layout.registration(group, "c")),
        layout.owners(group),
        layout.offsets(group),
    ]
    wanted += [p for path in (layout.owners(group), layout.offsets(group)) for p in parents(path)]
    return tuple(sorted(dict.fromkeys(wanted), key=lambda p: (p.count("/"), p)))


def read_mode(
    port: Port,
    layout: Layout,
    group: str,
    roles: Roles | None,
    done: Callable[[Mode | Malformed | None], None],
) -> None:
    """Read a group's mode; with roles one that others than coordinators may have made is
    malformed. On a lost connection it never ends.
    """

    def read(result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            believe_mode(port, layout, group, roles, result.answers[0], done)

    port.read([GetData(layout.mode(group))], read)


def believe_mode(
    port: Port,
    layout: Layout,
    group: str,
    roles: Roles | None,
    answer: ReadAnswer,
    done: Callable[[Mode | Malformed | None], None],
) -> None:
    """The mode that was read, as `read_mode`."""
    asked = (layout.epoch, layout.group(group), layout.mode(group))
    if isinstance(answer, Denied):
        return done(Malformed("mode", "mode", f"it may not be read ({answer.error.value})"))
    mode = codec.decode_mode(answer.data) if isinstance(answer, Node) else None
    if roles is None or not isinstance(mode, Mode):
        return done(mode)

    def answered(result: AclsResult) -> None:
        if isinstance(result, AclsDone):
            if isinstance(result.answers[-1], Missing):
                return done(None)  # it is gone since it was read
            belief = Belief(roles, result.answers[0])
            found = map(belief.closed, asked, result.answers)
            wrong = next(filter(None, found), "")
            done(Malformed("mode", "mode", wrong) if wrong else mode)

    port.acls(asked, answered)
