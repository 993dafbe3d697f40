"""How a gateway ends. The first SIGTERM or SIGINT: no more connections, its clients are handed over
to other gateways, the sessions are closed; within `END_S`, whatever hangs. The second one: at once
(not within moments: some programs signal a process and its group).
Sessions that are left are closed by the guardian when the process is gone, or end by their timeout;
their clients' places wait meanwhile (`member_grace_ms`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from consumer.gateway.members.groups import WireGroups
from consumer.gateway.operation.members_seen import members_seen
from consumer.gateway.own_session import OwnSession
from zkcoord.zk.loop import Loop

log = logging.getLogger(__name__)

T = TypeVar("T")

HAND_OVER_S = 8.0
END_S = 12.0
"""Service managers must wait longer than that before they kill (docker/)."""
LOOK_EVERY_S = 0.02
SAME_S = 0.1


class GatewayEnd:
    """See the module; everything on the event loop. `stopping` is set by the first signal, or where
    the gateway cannot go on.
    """

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.at_once = asyncio.Event()
        self.complete = False
        self._first_s = 0.0

    def listen(self, events: asyncio.AbstractEventLoop) -> None:
        """Take the signals from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            events.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        if not self.stopping.is_set():
            self._first_s = time.monotonic()
            self.stopping.set()
        elif time.monotonic() > self._first_s + SAME_S:
            log.warning("%s again: the gateway ends at once", number.name)
            self.at_once.set()

    async def meanwhile(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` until `stopping`, whatever it waits for. Raises what it raises."""
        doing = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if doing.done():
            doing.result()
        doing.cancel()

    async def finish(self, work: Coroutine[Any, Any, None], within_s: float = END_S) -> None:
        """Do what is left, within the time and unless a second signal comes; `complete`: it was
        done. Raises what `work` raises.
        """
        doing = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(self.at_once.wait())
        await asyncio.wait({doing, waiting}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self._hear_no_more()
        if doing.done():
            doing.result()
            self.complete = True
        else:
            doing.cancel()

    def _hear_no_more(self) -> None:
        """A further signal while the process goes must not make another status of it."""
        events = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            if events.remove_signal_handler(number):
                signal.signal(number, signal.SIG_IGN)


async def hand_over(
    members: Loop, groups: WireGroups, session: OwnSession, within_s: float = HAND_OVER_S
) -> None:
    """Send all clients to other gateways, and close their sessions and the gateway's own; one line
    in the log says how many.
    """
    events = asyncio.get_running_loop()
    begun_s = events.time()

    async def ask(work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(members.submit(work))

    async def until(finished: Callable[[], bool]) -> None:
        while events.time() < begun_s + within_s and not await ask(finished):
            await asyncio.sleep(LOOK_EVERY_S)

    try:
        before = await ask(lambda: members_seen(groups))
        await ask(groups.close)
        await until(lambda: groups.finished)
        left = (await ask(lambda: members_seen(groups))).leaving
        await ask(session.close)
        await until(lambda: session.finished)
    except asyncio.CancelledError:
        if members.stopped.is_set():
            return  # a defect of the members' loop, which has been logged
        raise
    log.info(
        "the gateway ends: %d clients of %d groups are handed over after %d ms; %d sessions are"
        " left to the guardian and their timeout",
        before.members,
        before.groups,
        (events.time() - begun_s) * 1000,
        left,
    )
