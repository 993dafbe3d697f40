"""The poll loop changes what it notes of the lease under the lock only: a loss on the member's
thread, which takes the lock to forget it, is never overwritten by an end that was read before.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer.api.poll_loop import PollLoop
from consumer.fetch.record_iterator import RecordIterator


class Looked(Exception):
    """The lease was looked at."""


def looking(lock: Any) -> Any:
    """A session whose lease may be looked at by who holds the lock."""

    def lease_holds() -> bool:
        assert lock._is_owned(), "the lease is looked at without the lock"
        raise Looked

    state = SimpleNamespace(
        processed=lambda: None,
        due_callbacks=(),
        failure=None,
        unraised=None,
        lease_seen_ms=0,
        handed_out=(),
    )
    lifetime = SimpleNamespace(pid=1, closed=False, ending=False, woken=False)
    return SimpleNamespace(state=state, lease_holds=lease_holds, lifetime=lifetime)


@pytest.mark.parametrize("iterating", [True, False])
@pytest.mark.parametrize("has_records", [True, False])
def test_a_turn_looks_at_the_lease_under_the_lock(iterating: bool, has_records: bool) -> None:
    lock = threading.RLock()
    data = SimpleNamespace(
        lock=lock, wakeup=threading.Event(), housekeeping=lambda alone: None, fetcher=None
    )
    setup = cast(Any, SimpleNamespace(config={}, data=data, alone=False))
    duties = cast(Any, SimpleNamespace(run=lambda: 0))
    records = cast(RecordIterator, SimpleNamespace(positions=lambda: {1: 1} if has_records else {}))
    loop = PollLoop(setup, looking(lock), duties, records)
    with pytest.raises(Looked):
        loop._turns(0.0, 1, iterating)
