"""Groups that are split between gateways and Kafka's own coordinator are found, and said once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from consumer.core import messages as msg
from consumer.gateway.members.agents import find_begin
from consumer.gateway.operation.chores import Chores
from consumer.gateway.operation.direct_members import (
    GROUPS_PER_LOOK_MAX,
    MEMBER_CHARS_MAX,
    MEMBERS_SHOWN_MAX,
    DirectMembers,
)
from zkcoord.core.model import TopicPartition
from zkcoord.errors import RefusedError, UnavailableError, ZkcoordError

LOGGER = "consumer.gateway.operation.direct_members"


class Kafka:
    """Kafka's coordinators, and a gateway's groups."""

    def __init__(self, *groups: str) -> None:
        self.groups: list[str] = sorted(groups)
        self.members: dict[str, tuple[str, ...]] = {}
        self.asked: list[list[str]] = []
        self.error: ZkcoordError | None = None

    def live_members(self, groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Of each group that is asked for."""
        self.asked.append(list(groups))
        if self.error is not None:
            raise self.error
        return {group: self.members.get(group, ()) for group in groups}

    def looking(self) -> DirectMembers:
        """What looks at it."""
        return DirectMembers(self.live_members, lambda: self.groups)


def test_a_change_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka("g", "h")
    direct = kafka.looking()
    with caplog.at_level(logging.INFO, LOGGER):
        direct.look()
        assert (direct.split, caplog.messages) == ({}, [])
        kafka.members["g"] = ("app on /10.0.0.9", "app on /10.0.0.8")
        for _ in range(3):
            direct.look()
        assert direct.split == {"g": ("app on /10.0.0.9", "app on /10.0.0.8")}
        assert len(caplog.messages) == 1
        assert "group 'g' is split" in caplog.text and "2 in Kafka's own coordinator" in caplog.text
        kafka.members["g"] = ("app on /10.0.0.7",)
        direct.look()
        assert direct.split == {"g": ("app on /10.0.0.7",)} and len(caplog.messages) == 1
        del kafka.members["g"]
        for _ in range(3):
            direct.look()
        assert direct.split == {} and len(caplog.messages) == 2
        assert "not split any more" in caplog.messages[1]


def test_a_group_without_members_here_is_forgotten() -> None:
    kafka = Kafka("g")
    kafka.members["g"] = ("app on /10.0.0.9",)
    direct = kafka.looking()
    direct.look()
    kafka.groups.clear()
    direct.look()
    assert direct.split == {} and kafka.asked == [["g"]], "and nothing is asked for no group"


@pytest.mark.parametrize("error", [UnavailableError("away"), RefusedError("not allowed")])
def test_what_cannot_be_found_out_is_as_it_was(error: ZkcoordError) -> None:
    kafka = Kafka("g")
    kafka.members["g"] = ("app on /10.0.0.9",)
    direct = kafka.looking()
    direct.look()
    kafka.error = error
    direct.look()
    assert set(direct.split) == {"g"}


def test_many_groups_are_looked_at_in_turns_and_much_is_cut() -> None:
    kafka = Kafka(*(f"g{n:04}" for n in range(2 * GROUPS_PER_LOOK_MAX + 1)))
    kafka.members = dict.fromkeys(kafka.groups, ("x\n" * 500,) * 50)
    direct = kafka.looking()
    for _ in range(3):
        direct.look()
    assert [len(asked) for asked in kafka.asked] == [GROUPS_PER_LOOK_MAX] * 3
    assert {group for asked in kafka.asked for group in asked} == set(kafka.groups)
    assert set(direct.split) == set(kafka.groups)
    for names in direct.split.values():
        assert len(names) == MEMBERS_SHOWN_MAX
        assert all(len(name) == MEMBER_CHARS_MAX and name.isprintable() for name in names)


def test_a_gateway_that_ends_is_not_looked_at() -> None:
    def ends() -> list[str]:
        raise TimeoutError

    DirectMembers(lambda groups: {}, ends).look()


def test_chores_are_done_when_they_are_due() -> None:
    done: list[str] = []

    async def run(work: Callable[[], Any]) -> Any:
        return work()

    async def play() -> None:
        chores = Chores((60.0, lambda: done.append("slow")), (30.0, lambda: done.append("often")))
        for now_s in (1_000.0, 1_029.0, 1_030.0, 1_060.0):
            await chores.do(run, now_s)

    asyncio.run(play())
    assert done == ["slow", "often", "often", "slow", "often"]


@pytest.mark.parametrize("error", [UnavailableError("away"), RefusedError("not allowed")])
def test_where_a_group_begins_is_answered_even_where_kafka_refuses_to_say(
    error: ZkcoordError,
) -> None:
    class Refusing:
        def live_members(self, group: str) -> tuple[str, ...]:
            raise error

    answers: list[msg.Resolved] = []
    ask = msg.Resolve(7, (TopicPartition("t", 0),), ())
    find_begin(Refusing(), "g", ask, answers.append)  # type: ignore[arg-type]  # as a `Cluster`
    assert answers == [msg.Resolved(7, {}, ())]
