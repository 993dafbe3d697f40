"""A client-led group of which a gateway serves members: what was decided of it, who is served
here, and which requests wait. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from consumer.gateway.client_led.asking import OpenAsk
from consumer.gateway.client_led.member import LedMember
from consumer.gateway.client_led.watching import NOBODY, LedSeen
from consumer.gateway.wire.requests import Answer, Caller, Request
from zkcoord.core.classic.requests import ClassicBeat, ClassicJoin
from zkcoord.core.error_codes import WireCode
from zkcoord.core.value_type import value
from zkcoord.znodes.classic.view import ClassicView


@value
class WaitingLed:
    """A request that waits until its group has been read."""

    ticket: int
    caller: Caller
    request: Request
    until_ms: int


@dataclass(slots=True, eq=False)
class LedAsk:
    """A client's request that the coordinator is asked. `refusal`: what is answered where nobody
    waits any more; `member`: whose it is, where that is served here; `join`: who joins, with
    which `library`. `handle`: takes it back.
    """

    group: LedGroup
    ticket: int
    connection: int
    refusal: Answer
    member: LedMember | None = None
    join: ClassicJoin | None = None
    library: str = ""
    handle: OpenAsk | None = None


@dataclass(slots=True, eq=False)
class Emptied:
    """A member that is to be told that it has nothing, in this generation, and with what protocol.
    `is_due`: it has joined and is told that with SyncGroup; `told`: how often it was.
    """

    generation: int
    protocol: str
    is_due: bool = True
    told: int = 0


@dataclass(slots=True, eq=False)
class LedGroup:
    """See the module. `goes_over`: the coordinator is to assign it from now on; `emptied`: members
    that are to be told that they have nothing; `waiting`: how many requests wait until it was
    read, `held`: until it has no member any more.
    """

    name: str
    seen: LedSeen = field(default_factory=lambda: LedSeen(ClassicView(None), NOBODY))
    members: dict[str, LedMember] = field(default_factory=dict)
    asks: set[LedAsk] = field(default_factory=set)
    waiting: int = 0
    wake_ms: int | None = None
    goes_over: bool = False
    emptied: dict[str, Emptied] = field(default_factory=dict)
    held: int = 0

    @property
    def view(self) -> ClassicView:
        """What can be told of it."""
        return self.seen.view

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it concerns this gateway."""
        return not (self.members or self.asks or self.waiting or self.held)

    @property
    def is_led(self) -> bool:
        """Whether it has members, or is about to."""
        return bool(self.view.state.members or self.asks)

    def beat(self, beats: ClassicBeat) -> WireCode:
        """What a heartbeat is answered."""
        code = self.view.beat(beats)
        again = self.goes_over and code is WireCode.NONE
        return WireCode.REBALANCE_IN_PROGRESS if again else code

    def look(self, seen: LedSeen) -> Iterator[tuple[LedMember, WireCode]]:
        """It was read: those that are served here and have something to hear, with what that is."""
        self.seen = seen
        for member in tuple(self.members.values()):
            code = self.view.knows(member.member_id, member.instance)
            if code is WireCode.NONE and member.beats is not None:
                code = self.beat(member.beats)
            if code is not WireCode.NONE:
                yield member, code

    def is_over(self, member: LedMember) -> bool:
        """Whether it is no member any more; who waits for an answer hears it by that."""
        is_member = self.view.knows(member.member_id, member.instance) is WireCode.NONE
        return not member.waits and not is_member
