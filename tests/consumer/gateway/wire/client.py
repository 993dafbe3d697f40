"""A client and an agent, said by hand, on both sides of a wire member."""

from __future__ import annotations

from collections.abc import Collection

from consumer.core import messages as msg
from consumer.gateway.wire.actions import (
    Begin,
    Gone,
    Remember,
    Reply,
    Tell,
    WayOut,
    WireTimes,
    WrittenDown,
)
from consumer.gateway.wire.judging import JoinWishes
from consumer.gateway.wire.member import WireMember
from consumer.gateway.wire.requests import (
    Answer,
    Caller,
    CommitRequest,
    HeartbeatRequest,
    JoinRequest,
    SyncRequest,
)
from consumer.gateway.wire.subscription import ClientSubscription
from zkcoord.core.model import TopicPartition

TOPIC = "t"
TIMES = WireTimes()


def tps(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of the one topic."""
    return frozenset(TopicPartition(TOPIC, n) for n in numbers)


class Scene:
    """Time stands still until `wait`. What the member has answered is in `answers` by ticket, what
    it told its agent in `told`.
    """

    def __init__(
        self,
        cooperative: bool = True,
        instance: str | None = None,
        session_ms: int = 10_000,
        assignor: str = "range",
    ) -> None:
        self.now = 1_000_000
        self.wire = WireMember("m-1", instance, TIMES)
        self.cooperative = cooperative
        self.session_ms = session_ms
        self.assignor = assignor
        self.answers: dict[int, Answer] = {}
        self.told: list[msg.FromFetcher] = []
        self.asked: list[msg.Resolve] = []
        self.gone = ""
        self.ending: WayOut | None = None
        self.remembers = True
        self.to_remember: list[int] = []
        self.tickets = 0
        self.epoch = 0

    # the client

    def join(
        self,
        owned: Collection[TopicPartition] = (),
        connection: int = 1,
        topics: tuple[str, ...] = (TOPIC,),
        forming: bool = False,
    ) -> int:
        """JoinGroup; its ticket."""
        request = JoinRequest("g", "m-1", self.session_ms, 60_000, "consumer", ())
        wishes = JoinWishes(
            ClientSubscription(topics, frozenset(owned)),
            self.assignor,
            ("range",),
            self.cooperative,
        )
        self.wire.join(self.now, self._ticket(), connection, request, wishes, forming)
        return self._look()

    def sync(self, connection: int = 1, generation: int | None = None) -> int:
        """SyncGroup."""
        given = self.wire.generation if generation is None else generation
        self.wire.sync(self.now, self._ticket(), connection, SyncRequest("g", "m-1", given))
        return self._look()

    def beat(
        self, connection: int = 1, generation: int | None = None, comes_again: bool = False
    ) -> int:
        """Heartbeat."""
        given = self.wire.generation if generation is None else generation
        request = HeartbeatRequest("g", "m-1", given)
        caller = Caller(connection, asks_again=comes_again)
        self.wire.heartbeat(self.now, self._ticket(), caller, request)
        return self._look()

    def commit(
        self, offsets: dict[int, int], generation: int | None = None, metadata: str = ""
    ) -> int:
        """OffsetCommit."""
        given = self.wire.generation if generation is None else generation
        named = {TopicPartition(TOPIC, n): (offset, metadata) for n, offset in offsets.items()}
        request = CommitRequest("g", "m-1", given, named)
        self.wire.commit(self.now, self._ticket(), 1, request)
        return self._look()

    def other(self, connection: int = 1) -> None:
        """Something else is asked on a connection."""
        self.wire.another_request(self.now, connection)
        self._look()

    def hangs_up(self, connection: int = 1) -> None:
        """A connection is gone."""
        self.wire.disconnected(self.now, connection)
        self._look()

    # the agent

    def assigned(self, *numbers: int, offset: int = 0) -> None:
        """Partitions are this member's."""
        self.epoch += 1
        self._says(msg.Assigned(dict.fromkeys(tps(*numbers), offset), self.epoch))

    def revoke(self, token: int, *numbers: int, in_part: bool = False) -> None:
        """Partitions are to be given up."""
        self._says(msg.Revoke(token, tuple(sorted(tps(*numbers))), in_part))

    def resumed(self, *numbers: int) -> None:
        """A revocation is withdrawn."""
        self._says(msg.Resumed(tuple(sorted(tps(*numbers)))))

    def lost(self, *numbers: int) -> None:
        """Partitions are gone."""
        self.epoch += 1
        self._says(msg.Lost(tuple(sorted(tps(*numbers))), "", self.epoch))

    def seek(self, number: int, offset: int) -> None:
        """An operator has reset an offset."""
        self.epoch += 1
        self._says(msg.Seek(TopicPartition(TOPIC, number), offset, self.epoch))

    def says(self, message: msg.ToFetcher) -> None:
        """Anything else."""
        self._says(message)

    # time

    def wait(self, ms: int) -> None:
        """Time passes, and whatever is due in it happens when it is due."""
        until = self.now + ms
        while (wake := self.wire.next_wake_ms()) is not None and wake <= until:
            self.now = max(self.now, wake)
            self.wire.tick(self.now)
            self._look()
        self.now = until
        self._look()

    def settle(self) -> None:
        """As long as an assignment needs to settle."""
        self.wait(TIMES.settle_ms)

    def _ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    def _says(self, message: msg.ToFetcher) -> None:
        self.wire.told(self.now, message)
        self._look()

    def _look(self) -> int:
        for action in self.wire.take():
            match action:
                case Reply():
                    assert action.ticket not in self.answers, "answered twice"
                    self.answers[action.ticket] = action.answer
                case Tell():
                    self.told.append(action.message)
                case Begin():
                    self.asked.append(action.ask)
                case Remember():
                    self.to_remember.append(action.ticket)
                case Gone():
                    self.gone, self.ending = action.reason, action.ending
        if self.remembers and self.to_remember:
            self.remember()
        return self.tickets

    def remember(self, how: WrittenDown = WrittenDown.DONE, heard: bool = False) -> None:
        """It is written down what the client is about to be told, or not."""
        tickets, self.to_remember = self.to_remember, []
        for ticket in tickets:
            self.wire.remembered(self.now, ticket, how, heard)
        self._look()


def member_of(*numbers: int, cooperative: bool = True, **more: object) -> Scene:
    """A client that has these partitions, with nothing left to say."""
    scene = Scene(cooperative, **more)  # type: ignore[arg-type]  # options of Scene
    scene.join()
    scene.sync()
    scene.assigned(*numbers)
    scene.settle()
    scene.told.clear()
    return scene
