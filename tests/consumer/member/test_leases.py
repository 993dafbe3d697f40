"""Wherever a lease is looked at, the clock is read last: whoever stands still while the lease's end
is asked for is told that it does not hold (chaos seed 3234).
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

import consumer.api.group_session
import consumer.spark.query_session
from consumer.api.group_session import GroupSession
from consumer.spark.query_session import QuerySession

LOOKS: dict[str, Callable[[Any], bool]] = {
    "iteration and streams": GroupSession.lease_holds,
    "poll": lambda session: GroupSession.leased_in(session, 1),
    "spark": QuerySession.leased,
}


class Standing:
    """A lease of a second, and a member that is asked for its end: there the process may stand
    still.
    """

    def __init__(self, stands_still_ms: int) -> None:
        self.now_ms = 10_000
        self.until_ms = self.now_ms + 1_000
        self.stands_still_ms = stands_still_ms

    def clock(self) -> int:
        return self.now_ms

    def lease_until(self, assignment_epoch: int) -> int:
        assert assignment_epoch == 1
        self.now_ms += self.stands_still_ms
        return self.until_ms

    def member(self) -> Any:
        """All of a member that is looked at; nothing is known of the lease yet."""
        return cast(
            Any,
            SimpleNamespace(
                alone=False,
                by_hand=None,
                joined=SimpleNamespace(thread=self),
                thread=self,
                state=SimpleNamespace(assignment_epoch=1, lease_seen_ms=0),
                assignment=SimpleNamespace(assignment_epoch=1),
            ),
        )


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize(
    ("stands_still_ms", "holds"), [(0, True), (999, True), (1_000, False), (60_000, False)]
)
def test_a_lease_that_ran_out_while_it_was_looked_at_does_not_hold(
    looks: str, stands_still_ms: int, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = Standing(stands_still_ms)
    for module in (consumer.api.group_session, consumer.spark.query_session):
        monkeypatch.setattr(module, "boot_ms", standing.clock)
    assert LOOKS[looks](standing.member()) is holds
