"""Where topics and brokers come from, as a coordinator's options say: it is kept so, or found out,
for one connection of a term.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.core.events import Record
from zkcoord.topics.asking import Asking
from zkcoord.topics.fenced_port import FencedPort
from zkcoord.topics.finding import FrozenTree
from zkcoord.topics.keeper import TopicKeeper
from zkcoord.topics.options import TopicOptions, TopicSourceKind
from zkcoord.zk.port import (
    AclEntry,
    Check,
    Delete,
    GetData,
    Missing,
    Port,
    ReadAnswer,
    Rejected,
    ZkError,
)
from zkcoord.zk.term.topic_source import Names
from zkcoord.znodes.cluster_tree import CLUSTER_TREE, ClusterTree

BACK_TIMES = 5
"""What somebody has put below the node that says where topics are has to go first."""


class ClusterSource:
    """The one that there is (see the module). `ask` is of the process."""

    def __init__(
        self,
        ask: Asking,
        clock: Callable[[], int],
        acl: tuple[AclEntry, ...],
        options: TopicOptions,
        port: Port,
        fence: Check,
        wanted: Callable[[], Names],
        record: Callable[[Record], None],
        fenced: Callable[[str], None],
        tree: ClusterTree = CLUSTER_TREE,
    ) -> None:
        self._port = FencedPort(port, fence, acl, fenced)
        self._tree = tree
        self._record = record
        self._kind = options.source
        self._keeper = TopicKeeper(self._port, tree, clock, ask, wanted, record, options)
        self._finder = FrozenTree(self._port, tree, clock, ask, record, options, self._keeper.begin)
        if options.source is TopicSourceKind.AUTO:
            self._keeper.uncounted = self._finder.begin

    @property
    def is_complete(self) -> bool:
        """Whether nodes of our own count."""
        return self._keeper.is_complete

    @property
    def problem(self) -> str:
        """See `TopicSource`."""
        return self._keeper.problem or self._finder.problem

    def begin(self) -> None:
        """See `TopicSource`."""
        match self._kind:
            case TopicSourceKind.KAFKA:
                self._port.sync(self._finder.keep_registered)
            case TopicSourceKind.AUTO:
                self._finder.begin()
            case TopicSourceKind.ZOOKEEPER:
                self._port.sync(lambda: self._port.read([GetData(self._tree.source)], self._back))

    def _back(self, answers: list[ReadAnswer]) -> None:
        """Kafka's nodes count again."""
        self._finder.watch()
        if not isinstance(answers[0], Missing):
            self._delete_source(BACK_TIMES)

    def _delete_source(self, times: int) -> None:
        def deleted(refused: Rejected | None) -> None:
            if refused is None:
                self._record(Record("topics", "", {"event": "from ZooKeeper"}))
            elif refused.error is ZkError.NOT_EMPTY and times > 1:
                self._port.clear(self._tree.source, lambda: self._delete_source(times - 1))

        self._port.write([Delete(self._tree.source)], deleted)

    def lost(self) -> None:
        """See `TopicSource`."""
        self._port.lost()

    def groups_changed(self) -> None:
        """See `TopicSource`."""
        self._keeper.groups_changed()

    def next_wake_ms(self) -> int | None:
        """See `TopicSource`."""
        times = (self._keeper.next_wake_ms(), self._finder.next_wake_ms())
        return min((at for at in times if at is not None), default=None)

    def tick(self) -> None:
        """See `TopicSource`."""
        self._finder.tick()
        self._keeper.tick()
