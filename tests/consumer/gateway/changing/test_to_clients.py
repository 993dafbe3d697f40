"""Members that the coordinator assigns and that go over to a leader among them: what their clients
and their agents are told. On a gateway's members alone; the coordinator's part is tests/zk/classic.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock, patch

import pytest

from consumer.core import messages as msg
from consumer.gateway.changing import to_clients
from consumer.gateway.changing.to_clients import GoingOver, is_empty_handed
from consumer.gateway.wire.requests import (
    BeatAnswer,
    Caller,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    SyncRequest,
)
from consumer.gateway.wire.subscription import decode_subscription, encode_subscription
from tests.consumer.gateway.members.test_groups import TIMES, TP, World, join
from tests.consumer.gateway.members.test_handing_over import Remembering
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import Subscription, TopicPartition

NOTHING = msg.Subscribe(Subscription({}))
TOPICS = msg.Subscribe(Subscription({"t": 1}))
AGAIN = BeatAnswer(WireCode.REBALANCE_IN_PROGRESS)


class Scene:
    """A member that has a partition, in a group that goes over."""

    def __init__(
        self, instance: str | None = None, cooperative: bool = True, own: str = ""
    ) -> None:
        self.world = World(memory=Remembering())
        self.going = GoingOver(self.world.groups)
        self.names = ["cooperative-sticky" if cooperative else "range"]
        self.names[:0] = [own] if own else []
        self.instance = instance
        self.member_id = self.world.join(**self._protocols()).member_id
        if instance is None:
            self.member_id = self.world.join(self.member_id, **self._protocols()).member_id
        self.world.tell(0, msg.Assigned({TP: 0}, 1))
        self._sync(1)
        self.going.begin("g")
        self.world.run()

    def _protocols(self, *owned: TopicPartition) -> dict[str, object]:
        protocols = tuple((name, encode_subscription(["t"], owned)) for name in self.names)
        return {"protocols": protocols, "instance": self.instance}

    def _sync(self, generation: int) -> object:
        ticket = self.world.tickets + 1
        self.world.ask(SyncRequest("g", self.member_id, generation, self.instance))
        self.world.wait(TIMES.forming_ms)
        return self.world.answers[ticket]

    def told(self) -> list[msg.FromFetcher]:
        """What the agent was told to want."""
        return [one for one in self.world.agents[0].told if isinstance(one, msg.Subscribe)]

    def joins(self, *owned: TopicPartition) -> tuple[bool, JoinAnswer | None]:
        """JoinGroup: whether it goes on as before, and what it is answered."""
        request = join(self.member_id, "g", **self._protocols(*owned))
        self.world.tickets += 1
        ticket = self.world.tickets
        takes = self.going.takes(ticket, Caller(1, "me", "host"), request)
        self.world.run()
        answer = self.world.answers.get(ticket)
        assert answer is None or isinstance(answer, JoinAnswer)
        return takes, answer


def test_they_want_nothing_and_are_told_so_once() -> None:
    scene = Scene()
    scene.going.begin("g")
    scene.world.run()
    assert scene.told() == [TOPICS, NOTHING]


def test_a_heartbeat_is_answered_that_it_is_to_join_again() -> None:
    scene = Scene()
    beat = HeartbeatRequest("g", scene.member_id, 1)
    assert scene.world.ask(beat) == AGAIN
    scene.going.take_back("g")
    assert scene.world.ask(beat) is None, "it is parked, since nothing is to be said"


@pytest.mark.parametrize("own", ["", "own"])
def test_a_client_that_owns_something_is_told_that_it_has_nothing(own: str) -> None:
    scene = Scene(own=own)
    scene.world.tell(0, msg.Revoke(1, (TP,)))
    takes, answer = scene.joins(TP)
    assert takes and answer is not None and answer.code is WireCode.NONE
    scene.world.ask(SyncRequest("g", scene.member_id, answer.generation))
    synced = scene.world.answers[scene.world.tickets]
    assert synced.code is WireCode.NONE and synced.partitions == ()  # type: ignore[union-attr]
    assert scene.joins()[0] is False
    assert scene.world.groups.is_leaving("g") and not scene.world.groups.groups


def test_an_eager_client_has_stopped_when_it_joins() -> None:
    scene = Scene(cooperative=False)
    assert scene.joins(TP) == (False, None)
    assert scene.world.groups.is_leaving("g")
    scene.world.wait(TIMES.drain_quiet_ms)
    scene.world.tell(0, msg.Revoke(1, (TP,)))
    scene.world.wait(TIMES.drain_quiet_ms)
    assert scene.world.agents[0].finished


@pytest.mark.parametrize(("cooperative", "owned"), [(False, (TP,)), (True, ())])
def test_who_was_asked_for_all_before_it_joins_is_gone_a_moment_later(
    cooperative: bool, owned: tuple[TopicPartition, ...]
) -> None:
    scene = Scene(cooperative=cooperative)
    scene.world.tell(0, msg.Revoke(1, (TP,)))
    assert scene.joins(*owned) == (False, None)
    assert msg.Revoked(1, {}) in scene.world.agents[0].told
    scene.world.wait(TIMES.drain_quiet_ms)
    assert scene.world.agents[0].finished, "the coordinator asks for nothing any more"


def test_who_names_other_topics_meanwhile_gets_none_of_them() -> None:
    scene = Scene()
    request = join(
        scene.member_id, protocols=(("cooperative-sticky", encode_subscription(["u"], [TP])),)
    )
    assert scene.going.takes(99, Caller(1, "me", "host"), request)
    scene.world.run()
    assert scene.told()[-1] == NOTHING


def test_taken_back_they_want_what_they_wanted() -> None:
    scene = Scene()
    for _ in range(2):
        scene.going.take_back("g")
        scene.world.run()
    assert scene.told() == [TOPICS, NOTHING, TOPICS]
    scene.going.take_back("unknown")
    scene.going.begin("unknown")
    assert scene.world.groups.groups.keys() == {"g"}


def test_who_is_not_a_member_here_is_left_to_others() -> None:
    scene = Scene()
    request = join("somebody", "g")
    assert not scene.going.takes(99, Caller(1, "me", "host"), request)
    assert scene.world.groups.groups["g"].members


def test_who_owns_what_it_has_from_nobody_is_not_waited_for() -> None:
    """It would keep all others of its group waiting, for as long as it names that."""
    scene = Scene()
    other = TopicPartition("t", 7)
    assert scene.joins(TP, other)[0] is True
    assert scene.joins(other) == (False, None)
    assert scene.world.groups.is_leaving("g")


def test_another_instance_does_not_send_a_member_away() -> None:
    scene = Scene(instance="i")
    scene.world.join(instance="j", protocols=(("range", encode_subscription(["t"])),))
    scene.instance = "j"
    takes, answer = scene.joins()
    assert takes and answer is not None and answer.code is WireCode.FENCED_INSTANCE_ID
    assert not scene.world.groups.is_leaving("g")


def test_who_lists_nothing_stays() -> None:
    scene = Scene()
    request = join(scene.member_id, protocols=())
    assert scene.going.takes(99, Caller(1, "me", "host"), request)
    assert scene.world.answers[99].code is WireCode.INCONSISTENT_GROUP_PROTOCOL
    assert not scene.world.groups.is_leaving("g")


def test_much_that_is_owned_is_read_once() -> None:
    """4 MiB of the same assignor, again and again, kept all members of a gateway waiting 2.7 s."""
    blob = encode_subscription(map(str, range(10_000)))
    request = JoinRequest(
        "g", "m", 10_000, 10_000, "consumer", (("cooperative-sticky", blob),) * 50
    )
    reads = Mock(wraps=decode_subscription)
    with patch.object(to_clients, "decode_subscription", reads):
        assert is_empty_handed(request, "cooperative-sticky")
    assert reads.call_count == 1


def test_an_instance_goes_over_by_its_name_alone() -> None:
    scene = Scene(instance="i")
    scene.member_id = ""
    assert scene.joins() == (False, None)
    assert scene.world.groups.is_leaving("g")


@pytest.mark.parametrize(
    ("protocols", "empty"),
    [
        ((("range", encode_subscription(["t"], [TP])),), True),
        ((("cooperative-sticky", encode_subscription(["t"], [TP])), ("range", b"")), True),
        ((("cooperative-sticky", encode_subscription(["t"])),), True),
        ((("cooperative-sticky", encode_subscription(["t"], [TP])),), False),
        ((("cooperative-sticky", b"junk"),), False),
        (
            ((("cooperative-sticky", encode_subscription(["t"])), ("cooperative-sticky", b"junk"))),
            True,
        ),
        ((), False),
    ],
)
def test_whose_hands_are_empty(protocols: tuple[tuple[str, bytes], ...], empty: bool) -> None:
    request = JoinRequest("g", "m", 10_000, 10_000, "consumer", protocols)
    assert is_empty_handed(request, "cooperative-sticky") is empty


SOME, NONE = encode_subscription(["t"], [TP]), encode_subscription(["t"])


@pytest.mark.parametrize(
    ("own", "known", "told_by", "empty"),
    [
        (SOME, SOME, "own", False),
        (NONE, NONE, "own", True),
        (SOME, NONE, "own", False),
        (NONE, SOME, "own", True),
        (SOME, NONE, "cooperative-sticky", True),
        (NONE, SOME, "", False),
        (b"junk", SOME, "own", False),
        (b"junk", NONE, "own", True),
        (b"junk", b"junk", "own", False),
    ],
)
def test_whose_hands_are_empty_who_lists_an_assignor_that_is_not_known(
    own: bytes, known: bytes, told_by: str, empty: bool
) -> None:
    """It may be a cooperative one (ConsumerPartitionAssignor.supportedProtocols), and with an eager
    one nothing would be named. A library that remembers by assignor what it owns names it for the
    one as which it was told.
    """
    protocols = (("own", own), ("cooperative-sticky", known))
    request = JoinRequest("g", "m", 10_000, 10_000, "consumer", protocols)
    assert is_empty_handed(request, told_by) is empty
    with_eager = replace(request, protocols=(*protocols, ("range", SOME)))
    assert is_empty_handed(with_eager, told_by), "all that it lists are to support what it does"


def test_who_is_told_that_it_is_nobody_before_it_joins_as_somebody_else() -> None:
    """An id that it does not hear of would fence an instance, or leave somebody behind."""
    named = join("m", "g")
    assert named.as_new() == replace(named, member_id="")
    assert replace(named, named_first=False).as_new() is None
    assert replace(named, instance="i").as_new() is None
    assert replace(named, instance="i", member_id="").as_new() is not None
