"""What is due on the thread that polls (the application's, or that of message streams) before
anything is handed out, and how long it may wait when there is nothing.
"""

from __future__ import annotations

import math
import time

from consumer.api.group_session import GroupSession
from consumer.api.setup import ConsumerSetup
from consumer.assignment.listener import RebalanceListenerInvoker
from consumer.member.broker_discovery import BrokerDiscovery
from zkcoord.zk.clock import boot_ms


class Duties:
    """Of one consumer."""

    def __init__(
        self, setup: ConsumerSetup, session: GroupSession, listener: RebalanceListenerInvoker
    ) -> None:
        self._data = setup.data
        self._max_poll_interval_ms = setup.config["max_poll_interval_ms"]
        self._session = session
        self._listener = listener
        self._brokers = BrokerDiscovery(session.read_brokers)

    def run(self) -> float:
        """Run callbacks, raise what waits to be raised, report the poll, commit. When (`boot_ms`)
        something is due again. Raises `MembershipError`, `ListenerError`, `NoStoredOffsetError`,
        and what the callbacks of commits raise.
        """
        session = self._session
        state = session.state
        state.run_callbacks()
        state.raise_error()
        self._listener.raise_error()
        session.committer.run_callbacks()
        now = boot_ms()
        report_ms = session.report_poll(now)
        session.committer.automatic(now)
        state.raise_unset()
        commit_ms = session.committer.due_ms
        return min(report_ms, math.inf if commit_ms is None else commit_ms)

    def wait(self, deadline: float) -> None:
        """Wait until something changes, at most until `deadline` (`time.monotonic`), or until
        something is due.
        """
        limit = self._data.wait_ms()
        self._brokers.note(limit is not None)
        waits = [deadline - time.monotonic(), self._max_poll_interval_ms / 3_000] + (
            [] if limit is None else [limit / 1000]
        )
        commit_ms = self._session.committer.due_ms
        if commit_ms is not None:
            waits.append((commit_ms - boot_ms()) / 1000)
        shortest = min(waits)
        if shortest > 0:
            self._data.wakeup.wait(shortest)
