"""Members that wait for a coordinator are worth a warning, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from consumer.gateway.operation.leader_watch import LOOK_EVERY_S, SAID_AFTER_MS, LeaderWatch
from zkcoord.zk.port import Denied, GetData, Missing, Node, Read, ReadDone, Unanswered, ZkError

LEADER = "/leader"
THERE = ReadDone((cast(Node, Node(b"", cast(Any, None))),))
GONE = ReadDone((Missing(),))


class World:
    """A session, and a clock."""

    def __init__(self) -> None:
        self.result: Any = THERE
        self.now_ms = 0
        self.members = 3
        self.away = False
        self.leader = LeaderWatch(
            LEADER,
            lambda: None if self.away else cast(Any, self),
            lambda: self.now_ms,
            lambda: self.members,
        )

    def read(self, reads: Sequence[Read], done: Callable[[Any], None]) -> None:
        """Answered at once."""
        assert reads == [GetData(LEADER)]
        done(self.result)

    def look(self, result: Any) -> bool:
        """One look, some time after the last one; whether a coordinator leads."""
        self.now_ms += int(LOOK_EVERY_S * 1000)
        self.result = result
        self.leader.look()
        return self.leader.leads


def test_it_is_said_once_and_once_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    assert not world.leader.leads and world.look(THERE)
    looks = int(SAID_AFTER_MS / 1000 / LOOK_EVERY_S)
    for _ in range(looks):
        assert not world.look(GONE)
    assert world.look(THERE) and not caplog.records, "another one leads soon"
    for _ in range(looks + 5):
        assert not world.look(GONE)
    assert len(caplog.records) == 1
    assert "no coordinator leads (/leader is not there): 3 members here" in caplog.text
    assert world.look(THERE) and world.look(THERE)
    assert [one.getMessage() for one in caplog.records[1:]] == ["a coordinator leads again"]


def test_without_members_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.members = 0
    for _ in range(9):
        assert not world.look(GONE)
    assert not caplog.records
    world.members = 1
    assert not world.look(GONE) and len(caplog.records) == 1


def test_what_cannot_be_seen_is_as_it_was() -> None:
    world = World()
    assert world.look(ReadDone((Denied(ZkError.NO_AUTH),))), "what may not be read is there"
    assert world.look(Unanswered())
    assert not world.look(GONE) and not world.look(Unanswered())
    world.away = True
    assert not world.look(THERE)
