"""The end of a member's thread beside other consumers of the process."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from consumer.member import thread as module
from consumer.member.thread import MemberThread
from zkcoord.zk.bell import Bell

PATIENCE_S = 30.0


def test_a_lock_that_an_interrupted_consumer_holds_does_not_hang_the_close_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal handler closes two consumers, and has interrupted the first while it spoke to the
    guardian, which both share.
    """
    monkeypatch.setattr(module, "GUARDIAN_STOP_S", 0.05)
    shared, stopped = threading.Lock(), Bell()

    def stop() -> None:
        with shared:
            stopped.set()

    one: Any = MemberThread.__new__(MemberThread)
    one._guardian = SimpleNamespace(stop=stop)
    with shared:  # by this very thread
        one._stop_guardian()
        assert not stopped.is_set()
    assert stopped.wait(PATIENCE_S), "and it stops once the interrupted one goes on"
