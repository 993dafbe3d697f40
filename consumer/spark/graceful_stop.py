"""Stopping a query so that nothing written remains unknown to the group: `drain_and_stop`.

Spark stops a query between two batches, or in one, and tells the source nothing of the last batch:
its offsets would be stored when the query is started again, or by nobody, where others take over
(they read that one batch again). So the driver asks the source first: no new plan, and say when the
last one is stored. Both are on the driver's host. The source's process listens at an abstract Unix
socket named after its member, whose name is in the query's progress; only the same user, or root,
is answered.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from consumer.spark.errors import UndrainedError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

CREDENTIALS = struct.Struct("3i")
ASK, DRAINED = b"drain\n", b"drained\n"
LOOK_S = 0.1
TIMEOUT_S = 120.0
REACH_S = 30.0
"""A member that nobody answers for may have another name by now, which the query's next progress
tells: Spark reports an idle query every ten seconds.
"""


def address_of(member: str) -> str:
    """Where the source of this member listens."""
    return f"\0zkcoord-spark/{member}"


class GracefulStop:
    """The source's side. Made, followed and closed on Spark's thread; answers on others."""

    def __init__(self, name: Callable[[], str]) -> None:
        # Whether nothing more may be planned; set once, by an answering thread.
        self.asked = False
        # Set, by Spark's thread, when all that was planned is stored.
        self.drained = threading.Event()
        # Gives the member's name, which changes with its session.
        self._name = name
        # The name that is listened at; "" before the first. Spark's thread.
        self._bound = ""
        # Listens; None before the first name, where that failed, and when closed. Spark's thread.
        self._socket: socket.socket | None = None

    def follow(self) -> None:
        """Listen under the member's present name; cheap where it has not changed."""
        name = self._name()
        if name and name != self._bound:
            self.close()
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                listening.bind(address_of(name))
                listening.listen()
            except OSError as e:
                listening.close()
                log.warning("this query cannot be drained from its driver: %s", e)
            else:
                self._socket = listening
                threading.Thread(
                    target=self._serve, args=(listening,), name="drain", daemon=True
                ).start()
            self._bound = name

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                try:
                    self._answer(connection)
                except OSError as e:
                    log.debug("whoever asked to drain is gone: %s", e)

    def _answer(self, connection: socket.socket) -> None:
        _, uid, _ = CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        )
        connection.settimeout(LOOK_S * 10)
        if uid not in (0, os.geteuid()) or connection.recv(len(ASK)) != ASK:
            return
        self.asked = True
        while not self.drained.wait(LOOK_S * 10):
            connection.send(b".\n")  # fails when nobody waits any more
        connection.sendall(DRAINED)

    def close(self) -> None:
        """Listen no more."""
        listening, self._socket = self._socket, None
        if listening is not None:
            try:
                listening.shutdown(socket.SHUT_RDWR)
            except OSError as e:
                log.debug("%s", e)
            listening.close()


def drain_and_stop(query: StreamingQuery, timeout_s: float = TIMEOUT_S) -> None:
    """Stop a query after its present batch, with everything that it wrote stored for the group. In
    the driver, on the driver's host. A query that has ended already is left as it is.

    Raises `UndrainedError` when that does not happen within `timeout_s`; the query is stopped then
    as well, and its last batch may be read again by others.
    """
    deadline = time.monotonic() + timeout_s
    reach = min(deadline, time.monotonic() + REACH_S)
    try:
        while query.isActive:
            members = _members(query)
            if members and all(_drain(member, query, reach, deadline) for member in members):
                break
            if not members and time.monotonic() >= deadline:
                raise UndrainedError(
                    f"the query did not say within {timeout_s:.0f} s which members it has; it is"
                    " stopped now"
                )
            query.awaitTermination(LOOK_S)  # type: ignore[arg-type]  # seconds may be a fraction
    finally:
        query.stop()


def _members(query: StreamingQuery) -> list[str]:
    """The members of the query's sources, from its progress."""
    progress = query.lastProgress
    found = [
        (
            json.loads(source["latestOffset"])
            if isinstance(source["latestOffset"], str)
            else source["latestOffset"]
        )
        for source in (progress["sources"] if progress is not None else [])
    ]
    return [said["member"] for said in found if isinstance(said, dict) and said.get("member")]


def _drain(member: str, query: StreamingQuery, reach: float, deadline: float) -> bool:
    """False when nobody answers for this member, before `reach`. Raises `UndrainedError`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(LOOK_S * 20)
        try:
            connection.connect(address_of(member))
        except OSError as e:
            if query.isActive and time.monotonic() >= reach:
                raise UndrainedError(
                    f"member {member} cannot be asked ({e}): is this the driver's host, and its"
                    " network namespace?"
                ) from None
            return False
        try:
            connection.sendall(ASK)
            heard = b""
            while not heard.endswith(DRAINED) and query.isActive:
                if time.monotonic() >= deadline:
                    raise UndrainedError(
                        f"member {member} did not finish its batch in time: it is stopped now, and"
                        " its last batch may be read again by others; give drain_and_stop a longer"
                        " timeout_s"
                    )
                more = connection.recv(64)
                if not more:
                    raise UndrainedError(
                        f"member {member} ended while it was drained: its last batch may be read"
                        " again by others"
                    )
                heard = (heard + more)[-64:]
        except OSError as e:
            if query.isActive:
                raise UndrainedError(
                    f"member {member} did not finish what was asked of it ({e}): its last batch may"
                    " be read again by others"
                ) from None
    return True
