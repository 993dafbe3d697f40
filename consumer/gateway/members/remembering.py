"""What each client has been told, or is about to be, on its way into `Memory`: always before the
client hears of it.

Its registration and its assignment are written one after the other, and a join would wait for both.
So while its agent acks a start, what the client will be told then is written already (`foresee`).
Where it turns out otherwise, or the client is not told as soon as that is acked, it is written
again before the client hears of it: who writes proves that the member is still this gateway's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from consumer.gateway.members.memory import Done, Memory
from consumer.gateway.members.wire_group import ServedMember
from consumer.gateway.wire.actions import WrittenDown
from consumer.gateway.wire.member import WireMember
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.gateway_nodes import RememberedClient


@dataclass(slots=True, eq=False)
class Foreseen:
    """What was written before it was so, under the registration `member`. `how`: what became of it
    so far; `waiting`: who hears of it.
    """

    client: RememberedClient
    member: str
    how: WrittenDown | None = None
    waiting: list[Done] = field(default_factory=list)

    def written(self, how: WrittenDown) -> None:
        """It is, or is not."""
        self.how = how
        for done in self.waiting:
            done(how)


class Remembering:
    """See the module. Without `memory` a client's place is lost with its gateway. `post` is the
    loop's queue; `touched` is called when a member has heard that something was written.
    """

    def __init__(
        self,
        memory: Memory | None,
        clock: Callable[[], int],
        post: Callable[[Callable[[], None]], None],
        touched: Callable[[ServedMember], None],
    ) -> None:
        self._memory = memory
        self._clock = clock
        self._post = post
        self._touched = touched
        self._foreseen: dict[ServedMember, Foreseen] = {}

    def forget(self, served: ServedMember) -> None:
        """The member is over, or what was foreseen of it has come and was not told at once."""
        self._foreseen.pop(served, None)

    def foresee(self, served: ServedMember, partitions: Collection[TopicPartition]) -> None:
        """The agent of a member is about to be assigned these. Where its client does not wait for
        them, or has more (of what it had at another gateway, not all is back yet), or its group
        forms and more comes yet, nothing is written: what the client has is never forgotten.
        """
        wire = served.wire
        if self._memory is None or wire.parked_sync is None or wire.forming or served.renamed:
            return
        will_have = wire.given.union(partitions)
        if not self._is_all(wire, will_have):
            return
        client = replace(served.to_remember(), has=will_have)
        foreseen = self._foreseen[served] = Foreseen(client, served.agent.name)
        known, served.remembered = served.remembered, True
        self._memory.write(served.group, client, foreseen.member, known, foreseen.written)

    @staticmethod
    def _is_all(wire: WireMember, will_have: frozenset[TopicPartition]) -> bool:
        return wire.has <= will_have

    def again(self, served: ServedMember) -> None:
        """Its agent is registered as somebody else than when its client was told what it has: that
        could not be written then, or the gateway before has forgotten it while the client came.
        """
        served.registered_as = served.agent.name
        if self._memory is not None and served.wire.synced and not served.is_remembered:
            served.remembered_as = served.agent.name
            self._write(self._memory, served, lambda _: None)

    def remember(self, served: ServedMember, ticket: int) -> None:
        """What its client is to be told is written, then it is told."""
        member = served.agent.name

        def done(how: WrittenDown) -> None:
            heard = served.agent.name != member
            served.wire.remembered(self._clock(), ticket, how, heard)
            self._touched(served)

        if self._memory is None:
            self._post(lambda: done(WrittenDown.DONE))
        elif served.renamed and not served.agent.registered:
            served.unwritten.append(ticket)
        else:
            served.remembered_as = served.registered_as
            self._write(self._memory, served, done)

    def _write(self, memory: Memory, served: ServedMember, done: Done) -> None:
        client, member = served.to_remember(), served.agent.name
        foreseen = self._foreseen.pop(served, None)
        if foreseen is not None and (foreseen.client, foreseen.member) == (client, member):
            if foreseen.how is None:
                return foreseen.waiting.append(done)
            if foreseen.how is WrittenDown.DONE:
                return self._post(lambda: done(WrittenDown.DONE))
        known, served.remembered = served.remembered, True

        def written(how: WrittenDown) -> None:
            if how is WrittenDown.DONE and client.member_id == served.wire.member_id:
                served.renamed = False
            done(how)

        return memory.write(served.group, client, member, known, written)
