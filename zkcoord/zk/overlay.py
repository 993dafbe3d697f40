"""How everybody reads topics and brokers: Kafka's nodes, or ours where Kafka keeps none.

While the node is there that says of which cluster ours are (`source`) nobody looks at Kafka's: they
are frozen, or gone. So each read of some of Kafka's nodes asks for that node too, in one request:
what is answered is of one moment. When it appears or goes, each of Kafka's nodes that is watched is
told to have changed. So whoever uses such a port need not know where the nodes are, nor that this
changes. Ours are written before they count: since when they do their stats say, since until then
what was done was done by Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    AclsResult,
    Change,
    Ensemble,
    Fired,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Node,
    Op,
    Port,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Suspended,
    WatchMode,
)
from zkcoord.znodes.cluster_tree import CLUSTER_TREE, ClusterTree


class OverlaidEnsemble:
    """An `Ensemble` whose sessions read so."""

    def __init__(self, ensemble: Ensemble, tree: ClusterTree = CLUSTER_TREE) -> None:
        self._ensemble = ensemble
        self._tree = tree

    def open(self, on_event: Callable[[PortEvent], None]) -> OverlaidPort:
        """See `Ensemble`."""
        port = OverlaidPort(self._tree, on_event)
        port.port = self._ensemble.open(port.event)
        return port


class OverlaidPort:
    """A `Port`; `port` is the real one."""

    port: Port

    def __init__(self, tree: ClusterTree, on_event: Callable[[PortEvent], None]) -> None:
        self._tree = tree
        self._on_event = on_event
        self._forget()

    def _forget(self) -> None:
        # Whether ours count, as far as has been heard.
        self._ours: bool | None = None
        self._listens = False
        # What is watched of Kafka's, and for each the nodes at which that is.
        self._watched: dict[str, tuple[WatchMode, set[str]]] = {}

    def event(self, event: PortEvent) -> None:
        """An event of the real port."""
        if isinstance(event, Suspended):
            self._forget()
        elif isinstance(event, Fired):
            if event.path == self._tree.source:
                return self._turned()
            if theirs := self._tree.instead_of(event.path):
                event = Fired(event.change, theirs)
        return self._on_event(event)

    def _turned(self) -> None:
        """Others count from now on: both are watched, since more may come at once."""
        self._ours = None
        watched = list(self._watched)
        for path in watched:
            self._watch_at(path, (path, self._tree.of(path)), _nothing)
        for path in watched:
            self._on_event(Fired(Change.DATA, path))

    def _watch_at(
        self, path: str, places: Sequence[str], done: Callable[[ReadResult], None]
    ) -> None:
        mode, there = self._watched[path]
        for place in places:
            if place not in there:
                there.add(place)
                self.port.watch(place, mode, done if place == places[-1] else _nothing)

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        if not any(self._tree.of(one.path) and not one.frozen for one in reads):
            return self.port.read(reads, done)
        return self._read(reads, bool(self._ours), done)

    def _read(self, reads: Sequence[Read], ours: bool, done: Callable[[ReadResult], None]) -> None:
        """Where others count than was thought it is read once more."""
        asked = [GetData(self._tree.source), *map(self._at_ours if ours else _at_theirs, reads)]

        def read(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return done(result)
            source, *answers = result.answers
            self._ours = not isinstance(source, Missing)
            if self._ours is not ours:
                return self._read(reads, self._ours, done)
            if isinstance(source, Node):
                answers = [
                    _since(source.stat.czxid, answer) if place.path != one.path else answer
                    for one, place, answer in zip(reads, asked[1:], answers, strict=False)
                ]
            return done(ReadDone(tuple(answers)))

        self._ask(asked, [], read)

    def _at_ours(self, read: Read) -> Read:
        path = read.path if read.frozen else self._tree.of(read.path) or read.path
        return GetData(path) if isinstance(read, GetData) else GetChildren(path)

    def _ask(
        self, reads: Sequence[Read], found: list[ReadAnswer], done: Callable[[ReadResult], None]
    ) -> None:
        """Of more than one request holds each is of its own moment."""
        part, rest = reads[:READS_PER_REQUEST_MAX], reads[READS_PER_REQUEST_MAX:]

        def answered(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return done(result)
            found.extend(result.answers)
            if rest and len(result.answers) == len(part):
                return self._ask(rest, found, done)
            return done(ReadDone(tuple(found)))

        self.port.read(part, answered)

    def multi(self, ops: Sequence[Op], done: Callable[[MultiResult], None]) -> None:
        """See `Port`."""
        self.port.multi(ops, done)

    def acls(self, paths: Sequence[str], done: Callable[[AclsResult], None]) -> None:
        """See `Port`."""
        self.port.acls(paths, done)

    def sync(self, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        self.port.sync(done)

    def watch(self, path: str, mode: WatchMode, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        ours = self._tree.of(path)
        if not ours:
            return self.port.watch(path, mode, done)
        if not self._listens:
            self._listens = True
            self.port.watch(self._tree.source, WatchMode.PERSISTENT, _nothing)
        self._watched[path] = (mode, set())
        places = {None: (ours, path), True: (ours,), False: (path,)}
        return self._watch_at(path, places[self._ours], done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        _, places = self._watched.pop(path, (None, {path}))
        last = path if path in places else max(places)
        for place in places - {last}:
            self.port.unwatch(place, _nothing)
        self.port.unwatch(last, done)

    def ignore(self, paths: Sequence[str]) -> None:
        """See `Port`."""
        self.port.ignore(paths)

    def close(self) -> None:
        """See `Port`."""
        self.port.close()


def _since(zxid: int, answer: ReadAnswer) -> ReadAnswer:
    if not isinstance(answer, Node) or zxid <= answer.stat.czxid:
        return answer
    return Node(answer.data, answer.stat._replace(read_since=zxid))


def _at_theirs(read: Read) -> Read:
    return read


def _nothing(result: ReadResult) -> None:
    """That a connection is gone is heard elsewhere."""
