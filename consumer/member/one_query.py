"""One question to ZooKeeper on a short session of its own, for what is asked before (or without) a
membership.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from consumer.errors import SessionRefusedError
from zkcoord.zk.bell import Bell
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.loop import Driver, Loop
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.overlay import OverlaidEnsemble
from zkcoord.zk.port import Closed, Connected, Expired, Fired, Port, PortEvent, Refused

T = TypeVar("T")


class QuestionDriver(Driver, Protocol):
    """What waits for an answer that takes time, on the question's loop."""

    def fired(self, event: Fired) -> None:
        """A watch saw something."""


class OneQuery(Generic[T]):
    """A session that is closed as soon as there is an answer."""

    def __init__(
        self,
        zk: ZkOptions,
        begin: Callable[[Port, Callable[[T], None]], None],
        waiting: QuestionDriver | None = None,
    ) -> None:
        self.loop = Loop("question")
        self.done, self.over = Bell(), Bell()
        self.answers: list[T] = []
        self.refused = ""
        self._begin = begin
        self._waiting = waiting
        self._ports: list[Port] = []
        self.loop.post(
            lambda: self._ports.append(
                OverlaidEnsemble(KazooEnsemble(zk, self.loop.post)).open(self._event)
            )
        )

        if waiting is not None:
            self.loop.attach(waiting)

    def _finish(self, answer: T) -> None:
        self.answers.append(answer)
        self.done.set()
        self.close()

    def close(self) -> None:
        """On the loop's thread."""
        for port in self._ports:
            port.close()

    def _event(self, happened: PortEvent) -> None:
        if isinstance(happened, Connected) and not self.done.is_set():
            self._begin(self._ports[0], self._finish)
        elif isinstance(happened, Fired) and self._waiting is not None and not self.done.is_set():
            self._waiting.fired(happened)
        elif isinstance(happened, Refused):
            self.refused = happened.reason
        if isinstance(happened, (Refused, Closed, Expired)):
            self.done.set()
            self.over.set()


def ask(
    zk: ZkOptions,
    begin: Callable[[Port, Callable[[T], None]], None],
    timeout_s: float,
    waiting: QuestionDriver | None = None,
) -> T | None:
    """What `begin(port, answer)` gives to `answer`, None when it gives nothing within `timeout_s`.
    Raises `SessionRefusedError` when ZooKeeper cannot be used.
    """
    question = OneQuery(zk, begin, waiting)
    question.loop.start()
    if not question.done.wait(timeout_s):
        question.loop.post(question.close)
    question.over.wait(zk.close_deadline_ms / 1000)
    question.loop.stop()
    if question.refused:
        raise SessionRefusedError(question.refused)
    return question.answers[0] if question.answers else None
