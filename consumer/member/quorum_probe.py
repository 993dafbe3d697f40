"""Failsafe mode: while a member is cut off from ZooKeeper, find out whether anybody is served at
all.

Who is cut off alone must stop with its lease: others are about to own what it has. But without a
quorum nobody's session ends, and nobody can take anything; when there is one again, its leader
gives every session its whole timeout. So each proof that there was no quorum at some moment is as
good as a proof of membership, and prolongs the lease (`consumer.core.parts.lease_proofs`).

A proof is two looks in a row in which most servers of the connect string serve nobody and none
serves (`zkcoord.zk.quorum_probe`); it counts from the beginning of the first. Two, since the
servers are not asked at one instant: a quorum that changes hands between the questions of one look
would have to change back between those of the next. What it takes for granted: the connect string
names most of the voting servers, and whoever refuses a connection at a server's address is its
host.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from functools import partial

from zkcoord.zk.options import Server
from zkcoord.zk.quorum_probe import ask_all, nobody_serves

ASK_TIMEOUT_S = 0.5
SOON_S = 0.05
EVERY_MAX_S = 0.5
LOOKS_PER_SESSION = 18


class QuorumProbe:
    """`consumer.member.driver.Outage` of real servers, with a thread of its own while it looks.
    `post` runs a thunk on the driver's thread; `clock` is the driver's.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        tls: ssl.SSLContext | None,
        session_timeout_ms: int,
        post: Callable[[Callable[[], None]], None],
        clock: Callable[[], int],
    ) -> None:
        self._servers = servers
        self._tls = tls
        self._every_s = min(EVERY_MAX_S, session_timeout_ms / 1000 / LOOKS_PER_SESSION)
        self._post = post
        self._clock = clock
        self._ended = threading.Event()

    def begin(self, proved: Callable[[int], None]) -> None:
        """See `Outage`."""
        self.end()
        self._ended = threading.Event()
        threading.Thread(
            target=self._look, args=(self._ended, proved), name="failsafe", daemon=True
        ).start()

    def end(self) -> None:
        """See `Outage`."""
        self._ended.set()

    def _look(self, ended: threading.Event, proved: Callable[[int], None]) -> None:
        before: int | None = None

        def tell(at_ms: int) -> None:
            if not ended.is_set():
                proved(at_ms)

        while not ended.is_set():
            began = self._clock()
            nobody = nobody_serves(ask_all(self._servers, self._tls, ASK_TIMEOUT_S))
            if nobody and before is not None:
                self._post(partial(tell, before))
            ended.wait(SOON_S if nobody and before is None else self._every_s)
            before = began if nobody else None
