"""What a signal handler raises comes out of a consumer's calls as it is, also where it came while
the standard library had given a lock away, or made a class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest

from consumer.api.kafka_consumer import KafkaConsumer
from consumer.api.lifetime import Lifetime, OpenConsumer, entry
from consumer.errors import raises_kafkas
from consumer.interruptions import say_interruption
from consumer.streams.connector import KafkaStream, ZookeeperConsumerConnector
from consumer.streams.poller import StreamsConsumer
from zkcoord.zk.fork_guard import CurrentProcess


class Stop(BaseException):
    """What the handler raises."""


def in_a_wait(lock: Any) -> None:
    """The handler runs when the lock is given away, and is not taken again."""
    condition: Any = threading.Condition(lock)
    gives_away = condition._release_save

    def interrupted() -> NoReturn:
        gives_away()
        raise Stop

    condition._release_save = interrupted
    with condition:
        condition.wait()


def in_a_class() -> None:
    """The handler runs while a class is made."""

    class Field:
        def __set_name__(self, owner: type, name: str) -> None:
            raise Stop

    type("Made", (), {"field": Field()})


INTERRUPTED = [
    pytest.param(lambda: in_a_wait(threading.Lock()), id="lock"),
    pytest.param(lambda: in_a_wait(threading.RLock()), id="rlock"),
    pytest.param(in_a_class, id="class"),
]


class Consumer:
    """Some calls of a consumer, as those of the real one are."""

    def __init__(self) -> None:
        self._lifetime = Lifetime(lambda _: None, lambda: None, 1_000)

    @entry
    def call(self, what: Callable[[], None]) -> None:
        what()

    @staticmethod
    @raises_kafkas
    def make(what: Callable[[], None]) -> None:
        what()


@pytest.mark.parametrize("interrupted", INTERRUPTED)
def test_what_is_raised_comes_out_of_a_call(interrupted: Callable[[], None]) -> None:
    with pytest.raises(Stop):
        Consumer().call(interrupted)
    with pytest.raises(Stop):
        Consumer.make(interrupted)


@pytest.mark.parametrize("interrupted", INTERRUPTED)
@pytest.mark.parametrize("way", ["poll", "__next__"])
def test_what_is_raised_comes_out_of_poll_and_iteration(
    interrupted: Callable[[], None], way: str
) -> None:
    one: Any = KafkaConsumer.__new__(KafkaConsumer)
    one._lifetime = Lifetime(lambda _: None, lambda: None, 1_000)
    one._polling = Mock(poll=lambda *_: interrupted(), step=interrupted)
    one._records = Mock(given={})
    with pytest.raises(Stop):
        getattr(one, way)()


@pytest.mark.parametrize("interrupted", INTERRUPTED)
def test_what_is_raised_comes_out_of_a_stream(interrupted: Callable[[], None]) -> None:
    line = Mock(hand=None, next=lambda _: interrupted())
    lifetime = Lifetime(lambda _: None, lambda: None, 1_000)
    reader = Mock(lifetime=lifetime, config={"consumer_timeout_ms": 1_000})
    stream = KafkaStream(reader, line, 0, (None, None), OpenConsumer())
    with pytest.raises(Stop):
        next(stream)


@pytest.mark.parametrize("interrupted", INTERRUPTED)
def test_what_is_raised_comes_out_of_a_close_and_of_a_commit_of_streams(
    interrupted: Callable[[], None],
) -> None:
    ending: Any = Mock()
    ending._session.close = lambda *_: interrupted()
    with pytest.raises(Stop):
        KafkaConsumer.close(ending)
    ending = Mock()
    ending._lifetime.over = ending.lifetime.closed = False
    ending.lifetime.close = lambda *_: interrupted()
    with pytest.raises(Stop):
        StreamsConsumer.close(ending)
    connector: Any = ZookeeperConsumerConnector.__new__(ZookeeperConsumerConnector)
    connector._lifetime = Lifetime(lambda _: None, lambda: None, 1_000)
    connector._pid = CurrentProcess.pid
    connector._consumer = Mock(closed=False, store=lambda *_: interrupted())
    with pytest.raises(Stop):
        connector.commit_offsets()


def given_back_twice() -> None:
    """An application's own mistake."""
    lock = threading.Lock()
    try:
        raise ValueError("its own")
    except ValueError:
        lock.release()


def never_taken() -> None:
    """The same, in a condition."""
    threading.Condition(threading.Lock()).wait(0)


@pytest.mark.parametrize("mistake", [given_back_twice, never_taken])
def test_another_error_is_what_it_is(mistake: Callable[[], None]) -> None:
    with pytest.raises(RuntimeError):
        Consumer().call(mistake)
    with pytest.raises(RuntimeError):
        Consumer.make(mistake)
    say_interruption(ValueError("release unlocked lock"))
