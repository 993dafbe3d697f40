"""Reads and watches on a server before 3.6, which knows neither multiRead nor persistent watches:
single reads, and watches that fire once.

`KazooPort` hands its calls to a `LegacyServer` while it is connected to such a server (see
`zkcoord.zk.kazoo_port.connection`: the server's answer to the first multiRead says so). One
`LegacyServer` serves one connection. Everything here runs on the owner's thread. What it keeps of
the port's contracts, and how:

* *Watch first, then read.* A watch is a walk: stat each node with a watch, list its children with a
  watch, go on with these. Calls made after it wait (in order) until the walk is through, so what is
  read after a watch is read after everything below it is watched. (Watches made one after the other
  walk together; and a single read beside all recursive watches does not wait: it is how an owner
  sees that its session lives, and a large tree takes longer than a session's timeout.)
* *No change is lost between an event and the watch set again.* A change is told when the watch is
  there again, never before: whoever reads because of it reads later than that, and what changes
  after it fires anew. (Only a deletion is told at once: the node's return is told when it was found
  and is watched.) A node found by its parent's list is told when its own watch is there.
* *What the owner was told to exist is watched, so its end is told.* Somebody may make and delete a
  node between two looks at its parent; so whatever a read or a multi of the owner's has shown below
  a recursive watch is watched, too, and told as gone if it is. A node deleted and made again
  between two looks is told as deleted and created: its czxid says so.
* *An event that is told before a read's answer happened before that read.* A request of many reads
  is many requests here: what is told between the first and the last of their answers waits for the
  last.
* *Answers of one read are one snapshot* if the server was at the same transaction with the first
  and the last of them, or if a second pass found the same. It is passed again for a few times at
  most; after that each read is still no older than the one before it in the request, so reads stand
  in the order in which they may be believed.
* *A sync is answered after the events of what was before it*, also where these wait for their
  watches. (What fires later waits for the next sync: a tree that changes all the time holds up
  none.)

What it does not keep: an event may be told after an answer that shows it already; changes that
follow closely upon one another are told as one; what may not be listed tells nothing of what is
below it; and a removed watch stays at the server until it fires there once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from zkcoord.zk.kazoo_port import wire_requests
from zkcoord.zk.kazoo_port.wire_requests import Result, WireRequest
from zkcoord.zk.port import (
    Change,
    Children,
    Committed,
    Created,
    Denied,
    Fired,
    Missing,
    MultiResult,
    Node,
    Op,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Unanswered,
    WatchMode,
    ZkError,
)

PASSES_MAX = 5
CHILDREN_WATCHED_MAX = 200_000
"""Of one node; what is below a larger one is not watched until the owner has listed it and it is
smaller.
"""
REQUESTS_UNDER_WAY_MAX = 200
"""At once: enough to keep the server busy, few enough that the last of them is answered within a
request's deadline on any machine.
"""
UNSEEN = 0
"""Instead of a node's czxid: it is known by name only, and its stat is on its way."""

Answered = Callable[[Result, int], None]
"""Takes an answer and the transaction that the server was at."""


class Submit(Protocol):
    """Sends a request; its answer comes later, on the owner's thread, in the order of the wire."""

    def __call__(self, request: WireRequest, done: Answered) -> None:
        """Send it."""


@dataclass(eq=False)
class _Way:
    """Requests that set watches and belong together: `left` of them are not answered yet. Of a walk
    (`done` given), or of what fired between two syncs (`then`: their answers, which wait).
    """

    done: Callable[[ReadResult], None] | None = None
    left: int = 0
    lost: bool = False
    then: list[Callable[[], None]] = field(default_factory=list)

    @property
    def walks(self) -> bool:
        return self.done is not None


@dataclass(eq=False)
class _Batch:
    """Reads that are to be answered as one."""

    reads: Sequence[Read]
    done: Callable[[ReadResult], None]
    answers: list[ReadAnswer] = field(default_factory=list)
    before: list[ReadAnswer] | None = None
    passes: int = 0
    answered: int = 0
    first_zxid: int = 0


class _Held(NamedTuple):
    """A call that waits for its turn. `watches`: it may walk beside others."""

    act: Callable[[], None]
    watches: bool = False


class LegacyServer:
    """Reads and watches of one connection. `tell` is the owner's; `chroot` as of
    `zkcoord.zk.kazoo_port.wire_requests`.
    """

    def __init__(self, chroot: str, submit: Submit, tell: Callable[[Fired], None]) -> None:
        self._chroot = chroot
        self._submit = submit
        self._owner = tell
        self._roots: dict[str, WatchMode] = {}
        self._nodes: dict[str, int] = {}
        self._unlisted: set[str] = set()
        self._held: deque[_Held] = deque()
        self._walks = 0
        self._queue: deque[tuple[WireRequest, Answered]] = deque()
        self._walk_queue: deque[tuple[WireRequest, Answered]] = deque()
        self._under_way = 0
        self._writes = 0  # that wait to be sent
        self._fresh: deque[_Way] = deque([_Way()])
        self._partial = 0
        self._late: deque[Callable[[], None]] = deque()
        self._over = False
        self._lost = False

    # what the owner calls

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        self._writes += 1
        self._in_turn(
            _Held(
                partial(
                    self._send,
                    wire_requests.multi_request(self._chroot, ops),
                    partial(self._multi_done, done),
                )
            )
        )

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        if not reads:
            self.sync(done)
        elif len(reads) == 1 and self._may_go_first(reads[0].path):
            self._submit(
                wire_requests.single_request(self._chroot, reads[0]), partial(_without_zxid, done)
            )
        else:
            self._in_turn(_Held(partial(self._pass, _Batch(tuple(reads), done))))

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._in_turn(_Held(partial(self._sync, done)))

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self._in_turn(_Held(partial(self._begin, path, mode, done), watches=True))

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`. Nothing is sent for it but a sync: what fires for the path is not told any
        more.
        """
        self._in_turn(_Held(partial(self._end, path, done)))

    def closing(self) -> None:
        """The session is about to be closed: nothing waits for its turn any more, and nothing is
        watched again.
        """
        self._over = True
        self._release()
        self._pump()

    def lost(self) -> None:
        """The connection is gone: as `closing`, and nothing is told any more but that calls are
        unanswered.
        """
        self._lost = True
        self.closing()

    # calls in their turn

    def _in_turn(self, held: _Held) -> None:
        self._held.append(held)
        self._release()

    def _may_go_first(self, path: str) -> bool:
        """Whether a read of it alone has no need to wait: no write and no watch is before it, nor
        is it watched for the first time just now.
        """
        watched = path in self._nodes or path not in self._roots
        return (
            watched
            and not self._writes
            and not any(held.watches for held in self._held)
            and not self._below_a_root(path)
        )

    def _release(self) -> None:
        while self._held and (self._over or not self._walks or self._held[0].watches):
            self._held.popleft().act()

    def _send(self, request: WireRequest, done: Answered) -> None:
        self._queue.append((request, done))
        self._pump()

    def _pump(self) -> None:
        """What the owner waits for goes first; a walk takes what is left."""
        while (self._queue or self._walk_queue) and (
            self._over or self._under_way < REQUESTS_UNDER_WAY_MAX
        ):
            request, done = (self._queue or self._walk_queue).popleft()
            self._under_way += 1
            self._writes -= request.type == wire_requests.MULTI
            self._submit(request, partial(self._answered, done))

    def _answered(self, done: Answered, result: Result, zxid: int) -> None:
        self._under_way -= 1
        done(result, zxid)
        self._pump()

    def _multi_done(self, done: Callable[[MultiResult], None], result: Result, _zxid: int) -> None:
        assert not isinstance(result, ReadDone)
        if isinstance(result, Committed):
            for made in result.results:
                if isinstance(made, Created):
                    self._note(made.path)
        done(result)

    def _sync(self, done: Callable[[ReadResult], None]) -> None:
        self._send(wire_requests.sync_request(self._chroot), partial(self._sync_done, done))

    def _sync_done(self, done: Callable[[ReadResult], None], result: Result, _zxid: int) -> None:
        assert isinstance(result, (ReadDone, Unanswered))
        answer = partial(self._sync_over, done, result)
        if self._fresh[0].left:
            self._fresh[-1].then.append(answer)
            self._fresh.append(_Way())
        else:
            self._tell(answer)

    def _sync_over(self, done: Callable[[ReadResult], None], result: ReadResult) -> None:
        done(Unanswered() if self._lost else result)

    # reads

    def _pass(self, batch: _Batch) -> None:
        batch.passes += 1
        batch.answered, batch.answers = 0, []
        for read in batch.reads:
            self._send(
                wire_requests.single_request(self._chroot, read), partial(self._one_read, batch)
            )

    def _one_read(self, batch: _Batch, result: Result, zxid: int) -> None:
        if not batch.answered:
            batch.first_zxid = zxid
            self._partial += batch.passes == 1
        batch.answered += 1
        if isinstance(result, ReadDone):
            batch.answers += result.answers
        if batch.answered < len(batch.reads):
            return
        whole = len(batch.answers) == len(batch.reads)
        if (
            whole
            and zxid != batch.first_zxid
            and batch.answers != batch.before
            and batch.passes < PASSES_MAX
            and not self._over
        ):
            batch.before = batch.answers
            self._pass(batch)
            return
        if whole:
            for read, answer in zip(batch.reads, batch.answers, strict=False):
                self._note_answer(read.path, answer)
        self._partial -= 1
        batch.done(ReadDone(tuple(batch.answers)) if whole else Unanswered())
        self._tell_late()

    def _note_answer(self, path: str, answer: ReadAnswer) -> None:
        if isinstance(answer, Node):
            self._note(path)
        elif isinstance(answer, Children) and self._below_a_root(path):
            if path in self._unlisted and len(answer.names) <= CHILDREN_WATCHED_MAX:
                self._unlisted.discard(path)
                self._list(path, None, self._fresh[-1])
            for name in answer.names:
                self._note(_child(path, name))

    def _note(self, path: str) -> None:
        """The owner knows of this node: its end must be told."""
        if path not in self._nodes and not self._over and self._below_a_root(path):
            self._nodes[path] = UNSEEN
            self._stat(path, None, self._fresh[-1])

    # watches

    def _begin(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        if self._roots.get(path) is not WatchMode.RECURSIVE:
            self._roots[path] = mode
        self._walks += 1
        self._stat(path, None, _Way(done))

    def _end(self, path: str, done: Callable[[ReadResult], None]) -> None:
        answer = (
            ReadDone(())
            if self._roots.pop(path, None) is not None
            else ReadDone((Denied(ZkError.OTHER),))
        )
        below = _child(path, "")
        for node in [
            n for n in self._nodes if (n == path or n.startswith(below)) and not self._in_scope(n)
        ]:
            del self._nodes[node]
            self._unlisted.discard(node)
        self._sync(lambda result: done(result if isinstance(result, Unanswered) else answer))

    def _below_a_root(self, path: str) -> bool:
        """Whether it is watched recursively."""
        while self._roots.get(path) is not WatchMode.RECURSIVE:
            if path == "/":
                return False
            path = path.rpartition("/")[0] or "/"
        return True

    def _in_scope(self, path: str) -> bool:
        return path in self._roots or self._below_a_root(path)

    def fired(self, event: Fired) -> None:
        """A watch of the server fired: it is gone, so set it again, and tell then."""
        path = event.path
        if self._over or not self._in_scope(path):
            return
        if event.change is Change.DELETED:
            self._nodes.pop(path, None)
            self._unlisted.discard(path)
            self._tell_of(Change.DELETED, path)
            if path in self._roots:
                self._stat(path, None, self._fresh[-1])
        elif event.change is Change.CHILDREN:
            if path not in self._unlisted:
                self._list(path, Change.CHILDREN, self._fresh[-1])
        else:
            self._stat(path, event.change, self._fresh[-1])

    def _stat(self, path: str, change: Change | None, way: _Way) -> None:
        """Watch a node, and look what it is."""
        self._watching(
            way,
            wire_requests.watched_stat_request(self._chroot, path),
            partial(self._stat_done, path, change, way),
        )

    def _stat_done(self, path: str, change: Change | None, way: _Way, answer: ReadAnswer) -> None:
        if not self._in_scope(path):
            return
        if isinstance(answer, Node):
            self._found(path, answer, change, way)
        elif isinstance(answer, Missing) and not way.walks:
            known = self._nodes.pop(path, None)
            if known == UNSEEN:
                self._tell_of(Change.CREATED, path)
            if known is not None:
                self._tell_of(Change.DELETED, path)

    def _found(self, path: str, node: Node, change: Change | None, way: _Way) -> None:
        """What a walk finds is not told, unless somebody has been told of it before."""
        known, now = self._nodes.get(path), node.stat.czxid
        if known == now and not way.walks:
            if change is Change.DATA:
                self._tell_of(Change.DATA, path)
            return
        if known is None and way.walks:
            self._nodes[path] = now
        # then the stat that is on its way says so
        elif known != now and not (known == UNSEEN and way.walks):
            self._nodes[path] = now
            if known:
                self._tell_of(Change.DELETED, path)
            self._tell_of(Change.CREATED, path)
        if node.stat.num_children > CHILDREN_WATCHED_MAX:
            self._unlisted.add(path)
        elif not node.stat.ephemeral_owner:
            self._list(path, None if way.walks else Change.CREATED, way)

    def _list(self, path: str, change: Change | None, way: _Way) -> None:
        """Watch a node's children, and look who they are. `change` says why: they changed, or the
        node was made (perhaps with some).
        """
        self._watching(
            way,
            wire_requests.watched_names_request(self._chroot, path),
            partial(self._list_done, path, change, way),
        )

    def _list_done(self, path: str, change: Change | None, way: _Way, answer: ReadAnswer) -> None:
        if not isinstance(answer, Children):
            return
        if self._roots.get(path) is WatchMode.PERSISTENT and (
            change is Change.CHILDREN or (change is Change.CREATED and answer.names)
        ):
            self._tell_of(Change.CHILDREN, path)
        if len(answer.names) > CHILDREN_WATCHED_MAX:
            self._unlisted.add(path)
        elif self._below_a_root(path):
            for name in answer.names:
                if way.walks:
                    self._stat(_child(path, name), None, way)
                else:
                    self._note_in(_child(path, name), way)

    def _note_in(self, path: str, way: _Way) -> None:
        if path not in self._nodes:
            self._nodes[path] = UNSEEN
            self._stat(path, None, way)

    def _watching(
        self, way: _Way, request: WireRequest, look: Callable[[ReadAnswer], None]
    ) -> None:
        way.left += 1
        (self._walk_queue if way.walks else self._queue).append(
            (request, partial(self._watched, way, look))
        )
        self._pump()

    def _watched(
        self, way: _Way, look: Callable[[ReadAnswer], None], result: Result, _zxid: int
    ) -> None:
        if not isinstance(result, ReadDone):
            way.lost = True
        elif not self._over:
            look(result.answers[0])
        way.left -= 1
        if way.done is None:
            while len(self._fresh) > 1 and not self._fresh[0].left:
                for answer in self._fresh.popleft().then:
                    self._tell(answer)
        elif not way.left:
            self._walks -= 1
            way.done(Unanswered() if way.lost else ReadDone(()))
            self._release()

    # what is told

    def _tell_of(self, change: Change, path: str) -> None:
        self._tell(partial(self._told, Fired(change, path)))

    def _told(self, event: Fired) -> None:
        if not self._lost:
            self._owner(event)

    def _tell(self, act: Callable[[], None]) -> None:
        self._late.append(act)
        self._tell_late()

    def _tell_late(self) -> None:
        while self._late and not self._partial:
            self._late.popleft()()


def _without_zxid(done: Callable[[ReadResult], None], result: Result, _zxid: int) -> None:
    assert isinstance(result, (ReadDone, Unanswered))
    done(result)


def _child(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"
