"""What gateways remember of their clients, in ZooKeeper, so that another one can go on with them.

Written in one multi with a check of the member's registration: who has lost the membership to
another gateway overwrites nothing. Read after a sync. Everything here is asked through the
gateway's own session, on the members' loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.actions import WrittenDown
from zkcoord.core.model import Malformed
from zkcoord.zk.port import (
    AclEntry,
    Check,
    Committed,
    Create,
    Created,
    Delete,
    Fired,
    GetData,
    MultiResult,
    Node,
    Op,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    SetData,
    Unanswered,
    ZkError,
)
from zkcoord.znodes.gateway_nodes import (
    DOCUMENT_BYTES_MAX,
    RememberedClient,
    decode_client,
    encode_client,
)
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.stat import Stat

log = logging.getLogger(__name__)

MADE_BY_OTHERS = (ZkError.NODE_EXISTS, ZkError.NO_NODE)
TRIES = 4
VERSIONS_MAX = 20_000
TOLD_MAX = 1_000
"""Of so many groups it is said that their clients cannot be remembered."""

Done = Callable[[WrittenDown], None]
Key = tuple[str, str]
"""A group, and the name of a client's node there (`RememberedClient.node`)."""
Found = Sequence[RememberedClient | None]


class Memory(Protocol):
    """Remembers clients. `member` is the name of the registration of the member that it is."""

    def read(self, keys: Sequence[Key], done: Callable[[Found | None], None]) -> None:
        """What is remembered of each of these, None where nothing is; `done` gets None where that
        cannot be found out now.
        """

    def write(
        self, group: str, client: RememberedClient, member: str, known: bool, done: Done
    ) -> None:
        """Remember a client; `done` is called when it is so, or cannot be, and once more where it
        could only be written LATER. `known`: something was remembered of it before, as far as is
        known.
        """

    def claim(self, group: str, client: RememberedClient, too_late: Callable[[], None]) -> None:
        """Say that this gateway goes on with a client as it was read, if nothing has been written
        of it since: where to register it takes longer than the gateway before waits for it, that
        one must not take it for gone. `too_late`: it has.
        """

    def release(self, group: str, node: str, member: str, done: Callable[[bool], None]) -> None:
        """Forget a client that is missed, unless another gateway goes on with it: whether that is
        so.
        """

    def is_member(self, group: str, member: str, done: Callable[[bool | None], None]) -> None:
        """Whether a registration is there; None: that cannot be found out now."""

    def forget(self, group: str, node: str, member: str) -> None:
        """A client left."""


class ClientMemory:
    """See the module. `by` tells this gateway from others."""

    def __init__(
        self, session: OwnSession, layout: Layout, acl: tuple[AclEntry, ...], by: str
    ) -> None:
        self._session = session
        self._layout = layout
        self._acl = acl
        self._by = by
        # what could not be written for want of a connection, by the path of its node
        self._due: dict[str, tuple[str, RememberedClient, str, bool, Done]] = {}
        # of each path that is being written, what is to be written after that, in order
        self._writing: dict[str, deque[tuple[Callable[[], None], Done]]] = {}
        # of each path, its version after the last write here; and those that somebody else has
        # written in between
        self._versions: dict[str, int] = {}
        self._written_over: set[str] = set()
        session.use(self)
        self._told: set[str] = set()

    def read(self, keys: Sequence[Key], done: Callable[[Found | None], None]) -> None:
        """See `Memory`."""
        port = self._session.port
        if port is None:
            return done(None)

        def answered(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return done(None)
            found = zip(keys, result.answers, strict=True)
            return done([self._client(key, answer) for key, answer in found])

        return _read_now(port, [self._layout.client(*key) for key in keys], answered)

    def is_member(self, group: str, member: str, done: Callable[[bool | None], None]) -> None:
        """See `Memory`."""
        port = self._session.port
        if port is None:
            return done(None)

        def answered(result: ReadResult) -> None:
            if isinstance(result, ReadDone):
                done(isinstance(result.answers[0], Node))
            else:
                done(None)

        return _read_now(port, [self._layout.registration(group, member)], answered)

    def _client(self, key: Key, answer: ReadAnswer) -> RememberedClient | None:
        if not isinstance(answer, Node):
            return None
        client = decode_client(key[1], answer.data)
        if isinstance(client, Malformed):
            log.warning("what is remembered of a client of group %s: %s", shown(key[0]), client)
            return None
        return replace(client, version=answer.stat.version)

    def claim(self, group: str, client: RememberedClient, too_late: Callable[[], None]) -> None:
        """See `Memory`."""
        self._claim(group, client, TRIES, too_late)

    def _claim(
        self, group: str, client: RememberedClient, tries: int, too_late: Callable[[], None]
    ) -> None:
        port, path = self._session.port, self._layout.client(group, client.node)

        def claimed(result: MultiResult) -> None:
            if isinstance(result, Rejected) and result.error is ZkError.NO_NODE:
                too_late()
            elif isinstance(result, Rejected) and tries > 1:
                self.read([(group, client.node)], again)

        def again(found: Found | None) -> None:
            """The gateway before has written something since; or another one has claimed it."""
            now = found[0] if found else None
            if found and now is None:
                too_late()
            elif now is not None and (now.by, now.member_id) == (client.by, client.member_id):
                self._claim(group, now, tries - 1, too_late)

        if port is not None:
            self._forget_versions(path)
            port.multi([SetData(path, self._encoded(client), client.version)], claimed)

    def release(self, group: str, node: str, member: str, done: Callable[[bool], None]) -> None:
        """See `Memory`."""
        path = self._layout.client(group, node)
        is_claimed = path in self._written_over
        self._drop(path)
        if is_claimed:
            return done(True)
        return self._release(group, node, member, TRIES, done)

    def _release(
        self, group: str, node: str, member: str, tries: int, done: Callable[[bool], None]
    ) -> None:
        def found(clients: Found | None) -> None:
            client, port = clients[0] if clients else None, self._session.port
            if client is None or port is None:
                return done(False)
            if client.by not in ("", self._by):
                return done(True)
            path = self._layout.client(group, node)
            check = Check(self._layout.registration(group, member), 0)
            return port.multi([check, Delete(path, client.version)], released)

        def released(result: MultiResult) -> None:
            if not isinstance(result, Rejected):
                done(False)
            elif not result.index:
                done(True)  # its membership is lost: to another gateway, or for good
            elif result.error is ZkError.BAD_VERSION and tries > 1:
                self._release(group, node, member, tries - 1, done)
            else:
                done(False)

        self.read([(group, node)], found)

    def _encoded(self, client: RememberedClient) -> bytes:
        return encode_client(replace(client, by=self._by))

    def write(
        self, group: str, client: RememberedClient, member: str, known: bool, done: Done
    ) -> None:
        """See `Memory`."""
        data = self._encoded(client)
        if not member or len(data) > DOCUMENT_BYTES_MAX:
            return done(WrittenDown.DONE if member else WrittenDown.LATER)
        path = self._layout.client(group, client.node)
        self._due[path] = (group, client, member, known, done)
        check = Check(self._layout.registration(group, member), 0)

        def begin() -> None:
            port = self._session.port
            if port is None:
                return written(WrittenDown.LATER)
            return self._put(port, check, path, data, known, TRIES, written)

        def written(how: WrittenDown) -> None:
            done(how)
            waiting = self._writing[path]
            while waiting and self._session.port is None:
                waiting.popleft()[1](WrittenDown.LATER)
            if waiting:
                waiting.popleft()[0]()
            else:
                del self._writing[path]

        # an earlier one that is tried again must not overwrite a later one
        if path in self._writing:
            return self._writing[path].append((begin, done))
        self._writing[path] = deque()
        return begin()

    def _written(self, path: str, data: bytes) -> None:
        """This is written, or never will be."""
        due = self._due.get(path)
        if due is not None and self._encoded(due[1]) == data:
            del self._due[path]

    def connected(self, port: Port, new: bool) -> None:
        """Write what could not be written, or of which it is not known whether it was."""
        for due in tuple(self._due.values()):
            self.write(*due)

    def fired(self, event: Fired) -> None:
        """Nothing is watched."""

    def _put(
        self, port: Port, check: Check, path: str, data: bytes, made: bool, tries: int, done: Done
    ) -> None:
        """Write its node, or make it where it is not `made`; where the parent is missing it is
        made, as a member makes what its group lacks where no coordinator does.
        """
        above = path.rpartition("/")[0]
        put: Op = SetData(path, data, -1) if made else Create(path, data, acl=self._acl)

        def again(made: bool) -> None:
            self._put(port, check, path, data, made, tries - 1, done)

        def parent_made(result: MultiResult) -> None:
            if isinstance(result, Rejected) and result.error not in MADE_BY_OTHERS:
                self._written(path, data)
                self._refused(above, result.error, done)
            else:
                again(False)

        def answered(result: MultiResult) -> None:
            self._look_at_version(path, result)
            if isinstance(result, Unanswered):
                return done(WrittenDown.LATER)
            # the check of the membership stands first: who has lost it writes nothing
            is_member = not isinstance(result, Rejected) or result.index > 0
            error = result.error if isinstance(result, Rejected) and is_member else None
            if error in MADE_BY_OTHERS and tries > 1:
                if made or error is ZkError.NODE_EXISTS:
                    return again(not made)
                return port.multi([check, Create(above, b"", acl=self._acl)], parent_made)
            self._written(path, data)
            how = WrittenDown.DONE if is_member else WrittenDown.GONE
            return done(how) if error is None else self._refused(above, error, done)

        port.multi([check, put], answered)

    def _look_at_version(self, path: str, result: MultiResult) -> None:
        """Whether somebody else has written between this gateway's writes: a claim, over which this
        one was written late.
        """
        done = result.results[1] if isinstance(result, Committed) else None
        if isinstance(done, Stat):
            if done.version != self._versions.get(path, done.version - 1) + 1:
                self._written_over.add(path)
            self._versions[path] = done.version
        elif isinstance(done, Created):
            self._versions[path] = 0
        elif isinstance(result, Unanswered):
            self._versions.pop(path, None)
        while len(self._versions) > VERSIONS_MAX:  # of clients that have gone elsewhere
            self._forget_versions(next(iter(self._versions)))

    def _forget_versions(self, path: str) -> None:
        self._versions.pop(path, None)
        self._written_over.discard(path)

    def _refused(self, above: str, error: ZkError, done: Done) -> None:
        """It is done without: the client begins anew if this gateway is lost."""
        if above not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(above)
            log.warning(
                "the gateway can remember no clients below %s (%s): they begin anew when it is"
                " lost, after their session timeout; coordinators of this release make the node",
                shown(above),
                error.value,
            )
        return done(WrittenDown.DONE)

    def forget(self, group: str, node: str, member: str) -> None:
        """See `Memory`."""
        path, port = self._layout.client(group, node), self._session.port
        self._drop(path)
        if port is not None and member:
            check = Check(self._layout.registration(group, member), 0)
            port.multi([check, Delete(path)], lambda result: None)

    def _drop(self, path: str) -> None:
        """What is still to be written of a client never will be."""
        self._forget_versions(path)
        self._due.pop(path, None)
        waiting = self._writing.get(path, deque())
        while waiting:
            waiting.popleft()[1](WrittenDown.DONE)


def _read_now(port: Port, paths: Sequence[str], answered: Callable[[ReadResult], None]) -> None:
    """What these nodes say, and no older than this call."""

    def synced(result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            port.read([GetData(path) for path in paths], answered)
        else:
            answered(result)

    port.sync(synced)
