"""Topics and brokers as nodes of our own, where Kafka keeps none in ZooKeeper, and how everybody
reads whichever there are.

The coordinator writes them below a root (`KafkaTree`) in Kafka's own formats, so that whoever reads
Kafka's nodes reads these. While the node is there that says of which cluster they are (`source`)
nobody looks at Kafka's: they are frozen, or gone. So a read of one of Kafka's nodes asks for both,
and for that node, in one request (`OverlaidPort`): what is answered is of one moment, and nobody
has to hear of the change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from zkcoord.core.model import Malformed
from zkcoord.topics.asking import SaidBroker
from zkcoord.topics.judging import FORMER_MAX, KnownTopic
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    AclsResult,
    Ensemble,
    Fired,
    GetChildren,
    GetData,
    Missing,
    MultiResult,
    Op,
    Port,
    PortEvent,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Unanswered,
    WatchMode,
)
from zkcoord.znodes.kafka import decode_topic
from zkcoord.znodes.paths import BROKERS, TOPICS
from zkcoord.znodes.stat import Stat
from zkcoord.znodes.strict_json import JsonObject, UnfitField, integer, reading, string, strings

VERSION, TOPIC_VERSION, BROKER_VERSION = 1, 3, 5
ID_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class KafkaTree:
    """Where they are."""

    root: str

    @property
    def source(self) -> str:
        """The node that says of which cluster they are, once they are complete."""
        return f"{self.root}/source"

    def topic(self, name: str) -> str:
        """A topic."""
        return f"{self.topics}/{name}"

    def broker(self, broker_id: int) -> str:
        """A broker."""
        return f"{self.brokers}/{broker_id}"

    @property
    def topics(self) -> str:
        """The parent of topics."""
        return f"{self.root}/topics"

    @property
    def brokers(self) -> str:
        """The parent of brokers."""
        return f"{self.root}/brokers"

    def of(self, path: str) -> str:
        """The node that stands for one of Kafka's; "" where it is none of those."""
        return _moved(path, ((TOPICS, self.topics), (BROKERS, self.brokers)))

    def instead_of(self, path: str) -> str:
        """The node of Kafka's for which one of ours stands; "" where it is none of those."""
        return _moved(path, ((self.topics, TOPICS), (self.brokers, BROKERS)))


def _moved(path: str, roots: Sequence[tuple[str, str]]) -> str:
    for before, after in roots:
        if path == before or path.startswith(f"{before}/"):
            return after + path[len(before) :]
    return ""


def encode_known_topic(topic: KnownTopic) -> bytes:
    """A topic's data, as Kafka writes it in ZooKeeper, without replicas; what earlier ones of its
    name were is besides.
    """
    document: dict[str, object] = {
        "version": TOPIC_VERSION,
        "partitions": {str(n): [] for n in range(topic.partitions)},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    if topic.topic_id:
        document["topic_id"] = topic.topic_id
    if topic.former:
        document["former"] = list(topic.former)
    return json.dumps(document, separators=(",", ":")).encode()


def decode_known_topic(name: str, data: bytes, stat: Stat) -> KnownTopic | Malformed:
    """What `encode_known_topic` has written. Never raises."""
    topic = decode_topic(name, data, stat)
    if isinstance(topic, Malformed):
        return topic

    def read(document: JsonObject) -> KnownTopic:
        former = strings(document, "former", ID_CHARS_MAX) if "former" in document else []
        if topic.partitions != tuple(range(len(topic.partitions))) or len(former) > FORMER_MAX:
            raise UnfitField("it is nothing that a coordinator writes")
        _, _, topic_id = topic.incarnation.partition(".")
        return KnownTopic(topic_id, len(topic.partitions), tuple(former))

    return reading("topic", name, data, read)


def encode_source(cluster_id: str) -> bytes:
    """The data of the node that says of which cluster they are."""
    return json.dumps({"version": VERSION, "cluster": cluster_id}, separators=(",", ":")).encode()


def decode_source(data: bytes) -> str | Malformed:
    """The cluster's id ("": it has none). Never raises."""

    def read(document: JsonObject) -> str:
        integer(document, "version", VERSION, VERSION)
        return string(document, "cluster", ID_CHARS_MAX)

    return reading("source", "source", data, read)


def encode_said_broker(broker: SaidBroker, protocol: str) -> bytes:
    """A broker's data, as Kafka writes it: its listener of this security protocol."""
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    endpoint = f"{protocol}://{host}:{broker.port}"
    document = {
        "version": BROKER_VERSION,
        "host": broker.host,
        "port": broker.port,
        "endpoints": [endpoint],
        "listener_security_protocol_map": {protocol: protocol},
        "rack": broker.rack or None,
    }
    return json.dumps(document, separators=(",", ":")).encode()


class OverlaidPort:
    """A `Port` through which Kafka's nodes are read where they are."""

    def __init__(self, port: Port, tree: KafkaTree) -> None:
        self.port = port
        self._tree = tree

    def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        both: list[Read] = []
        places: list[tuple[int, int]] = []  # of each read: Kafka's, and ours (-1: there is none)
        for one in reads:
            ours = self._tree.of(one.path)
            at = len(both)
            both.append(one)
            if ours:
                both.append(GetData(ours) if isinstance(one, GetData) else GetChildren(ours))
            places.append((at, at + 1 if ours else -1))
        if len(both) == len(reads):
            return self.port.read(reads, done)
        whole = [GetData(self._tree.source), *both]
        return self._ask(whole, [], partial(self._answered, places, done))

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

    @staticmethod
    def _answered(
        places: Sequence[tuple[int, int]], done: Callable[[ReadResult], None], result: ReadResult
    ) -> None:
        if isinstance(result, Unanswered):
            return done(result)
        source, *answers = result.answers
        ours = not isinstance(source, Missing)
        return done(
            ReadDone(tuple(answers[own if ours and own >= 0 else theirs] for theirs, own in places))
        )

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
        if ours:
            self.port.watch(ours, mode, _nothing)
        self.port.watch(path, mode, done)

    def unwatch(self, path: str, done: Callable[[ReadResult], None]) -> None:
        """See `Port`."""
        ours = self._tree.of(path)
        if ours:
            self.port.unwatch(ours, _nothing)
        self.port.unwatch(path, done)

    def ignore(self, paths: Sequence[str]) -> None:
        """See `Port`."""
        self.port.ignore(paths)

    def close(self) -> None:
        """See `Port`."""
        self.port.close()


class OverlaidEnsemble:
    """An `Ensemble` whose sessions read so."""

    def __init__(self, ensemble: Ensemble, tree: KafkaTree) -> None:
        self._ensemble = ensemble
        self._tree = tree

    def open(self, on_event: Callable[[PortEvent], None]) -> Port:
        """See `Ensemble`."""

        def event(one: PortEvent) -> None:
            if isinstance(one, Fired) and (theirs := self._tree.instead_of(one.path)):
                one = Fired(one.change, theirs)
            on_event(one)

        return OverlaidPort(self._ensemble.open(event), self._tree)


def _nothing(result: ReadResult) -> None:
    """That a connection is gone is heard elsewhere."""
