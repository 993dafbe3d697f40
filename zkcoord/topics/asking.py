"""Asks brokers which topics there are: one broker at a time, another one each time.

`ClusterAsker` blocks; `AskingThread` lets it do so elsewhere.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import Any

from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.errors import ConfigurationError, UnavailableError
from zkcoord.kafka_client.clients import LATE_FACTOR, kafka_client
from zkcoord.topics.judging import ClusterAnswer, SaidSince, SaidTopic
from zkcoord.topics.whole_answers import (
    ANSWER_BYTES_MAX,
    BROKERS_MAX,
    WholeAnswers,
    WholeReading,
)
from zkcoord.topics.whole_request import WholeBytes, WholeRequest
from zkcoord.zk.term.topic_source import Names
from zkcoord.znodes.kafka import CLUSTER_ID_CHARS_MAX, HOST_CHARS_MAX, PORT_MAX
from zkcoord.znodes.names import is_topic

log = logging.getLogger(__name__)

REQUEST_MS = 3_000
TRIED_FACTOR = 4
"""For so many times that, brokers are tried for one question: they may be many."""
OTHER_BYTES_MAX = 1_000_000
"""Of an answer that is not about topics; kafka-python decodes it, as many objects as it says."""
METADATA_AGE_MS = 24 * 3_600_000
"""kafka-python asks for brokers by itself, and not in the lifetime of a client of ours."""
PARTITIONS_MAX = 25_000
RACK_CHARS_MAX = 255
NS_PER_MS = 1_000_000
FAILED_FOR_S, FAILED_FOR_MAX_S = 1.0, 30.0
ASKS_PER_CLIENT = 300
SERVERS_SHOWN_MAX = 5
NO_ERROR, UNKNOWN_TOPIC = 0, 3
CLIENT_ID = "zkcoord-coordinator"
DESCRIBE_QUORUM = 55
"""The request that brokers answer which have no ZooKeeper underneath (KIP-836), and no others."""


@value
class SaidBroker:
    """A broker, as clients of the listener that is asked reach it."""

    broker_id: int
    host: str
    port: int
    rack: str = ""


@value
class SaidCluster:
    """What a broker has answered: `cluster_id` ("": it knows none), its brokers by id, and what it
    says of topics. `has_zookeeper`: whether it has one underneath, where it was asked for no topic
    (else None). `work_ms`: how long a processor has worked at asking.
    """

    cluster_id: str
    brokers: Mapping[int, SaidBroker]
    answer: ClusterAnswer = field(default_factory=lambda: ClusterAnswer(-1, 0))
    has_zookeeper: bool | None = None
    work_ms: int = 0


Asking = Callable[[Names, Sequence[str], Callable[[SaidCluster | None], None]], None]
"""Asks for topics of these names, at these servers too if need be; None: no broker answers."""


class ClusterAsker:
    """See the module. `servers` are `host:port`; others are said with each question, since the
    first ones may be gone; `security`: options of a client, with which it connects.
    """

    def __init__(self, servers: Sequence[str], security: Mapping[str, Any]) -> None:
        self._servers = tuple(servers)
        self._security = security
        self._client: Any = None
        self._left = 0
        self._last = -1
        self._pauses: dict[int, _Pause] = {}
        self._whole = WholeAnswers()
        self._all: dict[str, SaidTopic] = {}

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(RuntimeError):  # its thread has ended by itself
                client.close()

    def ask(self, names: Names, others: Sequence[str] = ()) -> SaidCluster:
        """What the next broker says of these topics; None: of all that it may tell. Raises
        `UnavailableError` where none answers, `ConfigurationError` for security that cannot be
        used.
        """
        from kafka.errors import KafkaError

        servers = list(dict.fromkeys((*self._servers, *others)))
        if not servers:
            raise UnavailableError("no broker is known (see bootstrap_servers)")
        try:
            self._open(servers)
            return self._ask(names)
        except (KafkaError, RuntimeError) as error:  # the latter: the client's thread has ended
            self.close()
            raise UnavailableError(
                f"no broker of {', '.join(servers[:SERVERS_SHOWN_MAX])} answers ({error})"
            ) from error

    def _open(self, servers: Sequence[str]) -> None:
        """What a client knows of versions it keeps, so it is made anew now and then."""
        from kafka.admin import KafkaAdminClient

        if self._left <= 0:
            self.close()
        if self._client is None:
            config = {
                "bootstrap_servers": servers,
                "client_id": CLIENT_ID,
                "request_timeout_ms": REQUEST_MS,
                "bootstrap_timeout_ms": REQUEST_MS,
                "receive_message_max_bytes": OTHER_BYTES_MAX,
                "metadata_max_age_ms": METADATA_AGE_MS,
                **self._security,
            }
            self._client = kafka_client(KafkaAdminClient, config)
            self._left = ASKS_PER_CLIENT
        self._left -= 1

    def _ask(self, names: Names) -> SaidCluster:
        """One that has not answered is left out for a while, as long as there are others. Those for
        which there is no time have their turn with the next question.
        """
        from kafka.errors import KafkaError

        ids = sorted(broker.node_id for broker in self._client._manager.cluster.brokers())
        now = time.monotonic()
        turn = [n for n in ids if n > self._last] + [n for n in ids if n <= self._last]
        well = [n for n in turn if n not in self._pauses or now >= self._pauses[n].until]
        self._pauses = {n: self._pauses[n] for n in ids if n in self._pauses}
        failure: KafkaError | None = None
        for broker_id in well or turn or (None,):
            if failure is not None and time.monotonic() > now + TRIED_FACTOR * REQUEST_MS / 1000:
                break
            self._last = self._last if broker_id is None else broker_id
            try:
                said = self._one(names, broker_id)
            except KafkaError as error:
                failure = error
                if broker_id is not None:
                    before = self._pauses.get(broker_id, _Pause())
                    self._pauses[broker_id] = before.after_another(time.monotonic())
                continue
            if broker_id is not None:
                self._pauses.pop(broker_id, None)
            if said.brokers.keys() != set(ids):
                self._left = 0  # the client would learn of them in minutes
            return said
        assert failure is not None
        raise failure

    def _one(self, names: Names, broker_id: int | None) -> SaidCluster:
        if names is None:
            return self._everything(broker_id)
        response, worked_ns = self._send(WholeRequest(names), broker_id)
        before = time.thread_time_ns()
        if isinstance(response, WholeBytes):
            reading = _reading(WholeAnswers(), response)
            said = _said(reading.response, _asked(broker_id), reading.partitions)
        else:
            said = _said(response, _asked(broker_id))
        worked_ns += time.thread_time_ns() - before
        has_zookeeper = None if names else self._has_zookeeper(broker_id)
        return replace(said, has_zookeeper=has_zookeeper, work_ms=worked_ns // NS_PER_MS)

    def _everything(self, broker_id: int | None) -> SaidCluster:
        """All topics, and by which names they are others than those that were said before."""
        response, worked_ns = self._send(WholeRequest(), broker_id)
        began_ns = time.thread_time_ns()
        before = self._all
        if isinstance(response, WholeBytes):
            reading = _reading(self._whole, response)
            said = _said(reading.response, _asked(broker_id), reading.partitions)
            names = reading.gone | {one.name for one in reading.response.topics or ()}
            others = said.answer.topics
            if names:
                self._all = {**before, **others}
                for name in names - others.keys():
                    self._all.pop(name, None)
        else:
            said = _said(response, _asked(broker_id))
            self._all = dict(said.answer.topics)
            named = before.keys() | self._all.keys()
            names = frozenset(n for n in named if before.get(n) != self._all.get(n))
        answer = replace(said.answer, topics=self._all, since=SaidSince(before, names))
        worked_ns += time.thread_time_ns() - began_ns
        return replace(said, answer=answer, work_ms=worked_ns // NS_PER_MS)

    def _has_zookeeper(self, broker_id: int | None) -> bool:
        from kafka.protocol.metadata import ApiVersionsRequest

        answer, _ = self._send(ApiVersionsRequest(version=0), broker_id)
        return DESCRIBE_QUORUM not in {one.api_key for one in answer.api_keys or ()}

    def _send(self, request: Any, broker_id: int | None) -> tuple[Any, int]:
        """An answer, and for how many ns the thread has worked that has received it."""
        manager = self._client._manager
        most = ANSWER_BYTES_MAX if isinstance(request, WholeRequest) else OTHER_BYTES_MAX
        late_ms = LATE_FACTOR * REQUEST_MS

        async def send() -> tuple[Any, int]:
            # whoever asks waits without a limit, whatever becomes of kafka-python's own
            node_id = manager.least_loaded_node() if broker_id is None else broker_id
            connection = manager.get_connection(node_id)
            await manager.wait_for(connection.init_future, late_ms)
            connection.parser._max_frame_size = most
            before = time.thread_time_ns()
            answer = await manager.wait_for(manager.send(request, node_id=node_id), late_ms)
            return answer, time.thread_time_ns() - before

        answer: tuple[Any, int] = manager.run(send)
        return answer


def _asked(broker_id: int | None) -> int:
    return -1 if broker_id is None else broker_id


def _reading(answers: WholeAnswers, response: WholeBytes) -> WholeReading:
    from kafka.errors import KafkaProtocolError

    reading = answers.read(response.version, response.data)
    if isinstance(reading, Malformed):
        raise KafkaProtocolError(f"what it says of topics: {reading.reason}")
    return reading


def _said(response: Any, asked: int, partitions: Mapping[str, int] | None = None) -> SaidCluster:
    """What a node can hold of an answer, which may say anything. `partitions`: how many a topic has
    (None: as many as there are).
    """
    from kafka.errors import KafkaProtocolError

    if len(response.brokers or ()) > BROKERS_MAX:
        raise KafkaProtocolError(f"it names more than {BROKERS_MAX} brokers")
    brokers = {
        one.node_id: SaidBroker(one.node_id, one.host, one.port, (one.rack or "")[:RACK_CHARS_MAX])
        for one in response.brokers or ()
        if one.node_id >= 0
        and 0 < len(one.host or "") <= HOST_CHARS_MAX
        and 0 < one.port <= PORT_MAX
    }
    topics: dict[str, SaidTopic] = {}
    missing: set[str] = set()
    for one in response.topics or ():
        if one.name is None or not is_topic(one.name):
            continue
        if one.error_code == UNKNOWN_TOPIC:
            missing.add(one.name)
            continue
        count = len(one.partitions or ()) if partitions is None else partitions[one.name]
        if one.error_code == NO_ERROR and 0 < count <= PARTITIONS_MAX:
            topics[one.name] = SaidTopic(_topic_id(one.topic_id), count)
    answer = ClusterAnswer(asked, len(brokers), topics, frozenset(missing))
    cluster_id = (response.cluster_id or "")[:CLUSTER_ID_CHARS_MAX]
    return SaidCluster(cluster_id if cluster_id.isprintable() else "", brokers, answer)


def _topic_id(found: uuid.UUID | None) -> str:
    """As Kafka writes it (and as it stands in /brokers/topics)."""
    if found is None or not found.int:
        return ""
    return urlsafe_b64encode(found.bytes).rstrip(b"=").decode()


class AskingThread:
    """Asks in a thread of its own, which begins with the first question, one question after the
    other. `post` runs what it is given on the thread that has asked. Of questions that wait only
    the last one is asked: whoever asks waits for the answer, so those before are of connections
    that are over.
    """

    def __init__(self, asker: ClusterAsker, post: Callable[[Callable[[], None]], None]) -> None:
        self._asker = asker
        self._post = post
        self._questions: queue.SimpleQueue[_TopicsWanted | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._said = ""

    def ask(
        self, names: Names, others: Sequence[str], done: Callable[[SaidCluster | None], None]
    ) -> None:
        """See `Asking`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="topics", daemon=True)
            self._thread.start()
        self._questions.put(_TopicsWanted(names, tuple(others), done))

    def close(self) -> None:
        """No more questions: one that is under way is not waited for."""
        self._questions.put(None)

    def _run(self) -> None:
        while (question := self._last_question()) is not None:
            said = self._answer(question)
            self._post(partial(question.done, said))
        self._asker.close()

    def _last_question(self) -> _TopicsWanted | None:
        question = self._questions.get()
        while question is not None and not self._questions.empty():
            self._post(partial(question.done, None))
            question = self._questions.get()
        return question

    def _answer(self, question: _TopicsWanted) -> SaidCluster | None:
        """What is in the way is told once."""
        try:
            said = self._asker.ask(question.names, question.others)
        except (UnavailableError, ConfigurationError) as error:
            if str(error) != self._said:
                self._said = str(error)
                log.warning("topics cannot be asked for: %s", error)
            return None
        except Exception as error:  # the thread's main: whoever asks must hear something
            if repr(error) != self._said:
                self._said = repr(error)
                log.exception("topics cannot be asked for")
            self._asker.close()  # the next question begins anew
            return None
        if self._said:
            self._said = ""
            log.info("brokers answer again")
        return said


@value
class _Pause:
    """For how long a broker that has not answered is left out: longer each time."""

    until: float = 0.0
    seconds: float = FAILED_FOR_S / 2

    def after_another(self, now: float) -> _Pause:
        """It has not answered again."""
        seconds = min(2 * self.seconds, FAILED_FOR_MAX_S)
        return _Pause(now + seconds, seconds)


@value
class _TopicsWanted:
    names: Names
    others: tuple[str, ...]
    done: Callable[[SaidCluster | None], None]
