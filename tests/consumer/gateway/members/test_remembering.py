"""What a client will be told is written while its agent still acks it, and counts only where it
turns out so.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.core import messages as msg
from consumer.gateway.wire.requests import BeatAnswer, HeartbeatRequest, SyncAnswer, SyncRequest
from consumer.gateway.wire.subscription import encode_subscription
from tests.consumer.gateway.members.test_groups import TIMES, TP, World, given, newcomer
from tests.consumer.gateway.members.test_handing_over import CLIENT, Remembering
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition

OTHER, THIRD = TopicPartition("t", 1), TopicPartition("t", 2)


class Joined:
    """Beside a member, one that waits for its first partitions. `writes`: how often anything was
    written since.
    """

    def __init__(self) -> None:
        self.memory = Remembering()
        self.world = World(memory=self.memory)
        self.ticket = newcomer(self.world)
        self._before = len(self.memory.writers)

    @property
    def writes(self) -> int:
        """See above."""
        return len(self.memory.writers) - self._before

    @property
    def said(self) -> list[int] | None:
        """Which partitions it was told; None: it waits."""
        if self.ticket not in self.world.answers:
            return None
        answer = self.world.answers[self.ticket]
        assert isinstance(answer, SyncAnswer) and answer.code is WireCode.NONE
        return [tp.partition for tp in answer.partitions]

    @property
    def remembered(self) -> list[int]:
        """What is written of it."""
        member_id = self.world.groups.agents("g")[1][0].member_id
        (client,) = (c for c in self.memory.clients.values() if c.member_id == member_id)
        return sorted(tp.partition for tp in client.has)

    def starting(self, *partitions: TopicPartition) -> None:
        """The agent acks a start."""
        self.world.tell(1, msg.Starting(partitions))

    def assigned(self, *partitions: TopicPartition) -> None:
        """It has done so."""
        self.world.tell(1, msg.Assigned(dict.fromkeys(partitions, 5), 1))


def test_it_is_written_before_the_client_hears_and_once() -> None:
    side = Joined()
    side.starting(OTHER)
    assert side.said is None and side.remembered == [1]
    side.assigned(OTHER)
    assert side.said == [1] and side.writes == 1


def test_the_client_hears_nothing_before_that_is_written() -> None:
    side = Joined()
    side.memory.holds_writes = True
    side.starting(OTHER)
    side.assigned(OTHER)
    assert side.said is None
    side.memory.let_go_of_writes()
    side.world.run()
    assert side.said == [1] and side.writes == 1


@pytest.mark.parametrize("held", [True, False])
def test_what_turns_out_otherwise_is_written_again_first(held: bool) -> None:
    side = Joined()
    side.memory.holds_writes = held
    side.starting(OTHER)
    side.assigned(OTHER, THIRD)
    if held:
        assert side.said is None
        side.memory.let_go_of_writes()
    assert side.said == [1, 2] == side.remembered and side.writes == 2


def test_what_another_registration_acked_counts_for_nothing() -> None:
    side = Joined()
    side.starting(OTHER)
    side.world.agents[1].name = "registered anew"
    side.assigned(OTHER)
    assert side.said == [1] and side.memory.writers[-1] == "registered anew" and side.writes == 2


def test_what_could_not_be_written_is_written_again() -> None:
    side = Joined()
    side.memory.fenced = True
    side.starting(OTHER)
    side.memory.fenced = False
    side.assigned(OTHER)
    assert side.said == [1] == side.remembered and side.writes == 2


def test_who_was_taken_over_after_the_ack_is_told_nothing() -> None:
    """It waits for more: by then another gateway may have its registration."""
    side = Joined()
    side.starting(OTHER)
    side.world.tell(1, msg.Assigned({OTHER: 5}, 1, more=True))
    assert side.ticket not in side.world.answers
    side.memory.fenced = True
    side.world.wait(TIMES.flux_max_ms)
    answer = side.world.answers[side.ticket]
    assert isinstance(answer, SyncAnswer) and answer.code is WireCode.REBALANCE_IN_PROGRESS


def test_nothing_is_foreseen_of_who_waits_for_nothing() -> None:
    side = Joined()
    side.assigned(OTHER)
    assert given(side.world, side.ticket) == 1 and side.writes == 1
    side.starting(THIRD)
    assert side.writes == 1
    side.assigned(THIRD)
    member = side.world.groups.agents("g")[1][0]
    beat = side.world.ask(HeartbeatRequest("g", member.member_id, member.generation))
    assert beat == BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)


def test_what_a_client_has_is_not_forgotten_while_it_comes_from_another_gateway() -> None:
    """Of two partitions that it reads the first command brings one back. If this gateway dies, too,
    the next one knows both: neither is given up, nor is its offset believed, behind its back.
    """
    both = frozenset({TP, OTHER})
    client = replace(CLIENT, has=both, assignors=("sticky",), protocol="cooperative-sticky")
    memory = Remembering(client)
    world = World(memory=memory)
    subscription = encode_subscription(["t"], sorted(both))
    joined = world.join("m", protocols=(("cooperative-sticky", subscription),))
    assert world.ask(SyncRequest("g", "m", joined.generation)) is None
    world.tell(0, msg.Starting((TP,)))
    (known,) = memory.clients.values()
    assert known.has == both
    world.tell(0, msg.Starting((TP, OTHER)))
    (known,) = memory.clients.values()
    assert known.has == both


def test_nothing_is_foreseen_while_a_group_forms() -> None:
    """More comes, and the client waits for that in any case."""
    memory = Remembering()
    world = World(memory=memory)
    world.member()
    world.tell(0, msg.Starting((TP,)))
    assert not memory.writers
