"""Weakened gateways, as `tests.sim.variants` has weakened members and coordinators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumer.core import messages as msg
from consumer.gateway.members.remembering import Remembering
from consumer.gateway.members.wire_group import ServedMember
from consumer.gateway.wire.actions import WrittenDown
from consumer.gateway.wire.drain import Drain
from consumer.gateway.wire.member import WireMember
from consumer.gateway.wire.restoring import Restoring, Returned
from tests.sim.weakened import Patch, Variant
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.gateway_nodes import RememberedClient


def _answered_first(original: Callable[..., None]) -> Callable[..., None]:
    def remember(self: Remembering, served: ServedMember, ticket: int) -> None:
        def write() -> None:
            assert self._memory is not None
            served.remembered_as = served.registered_as
            self._write(self._memory, served, lambda _: None)

        def done() -> None:
            served.wire.remembered(self._clock(), ticket, WrittenDown.DONE)
            self._touched(served)
            self._post(write)

        self._post(done)

    return remember


def _never_written(original: Callable[..., None]) -> Callable[..., None]:
    def remember(self: Remembering, served: ServedMember, ticket: int) -> None:
        def done() -> None:
            served.wire.remembered(self._clock(), ticket, WrittenDown.DONE)
            self._touched(served)

        self._post(done)

    return remember


def _unforeseen(original: Callable[..., None]) -> Callable[..., None]:
    return lambda *arguments: None


def _at_once(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *arguments: True


def _never(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *arguments: False


def _whatever_comes(original: Callable[..., None]) -> Callable[..., None]:
    def told(self: WireMember, now_ms: int, message: msg.ToFetcher) -> None:
        if isinstance(message, msg.Assigned) and self._restoring is not None:
            self._restoring.came(now_ms)
        original(self, now_ms, message)

    return told


def _closed(original: Callable[..., list[msg.FromFetcher]]) -> Callable[..., Any]:
    def begin(self: Drain, tokens: Any) -> list[msg.FromFetcher]:
        self.over = True
        return [msg.Close({}, 0)]

    return begin


def _from_nothing(original: Callable[..., None]) -> Callable[..., None]:
    def restore(self: WireMember, now_ms: int, client: RememberedClient) -> None:
        original(self, now_ms, client)
        assert self._restoring is not None
        self.generation = self._restoring.generation = 0

    return restore


def _at_the_agents_word(original: Callable[..., None]) -> Callable[..., None]:
    def give_up_due(self: WireMember) -> None:
        has, self.has = self.has, frozenset[TopicPartition]()
        original(self)
        self.has = has

    return give_up_due


def _all_is_well(original: Callable[..., WireCode]) -> Callable[..., WireCode]:
    def code(self: WireMember, generation: int) -> WireCode:
        found = original(self, generation)
        return WireCode.NONE if found is WireCode.REBALANCE_IN_PROGRESS else found

    return code


def _nothing_is_over(original: Callable[..., None]) -> Callable[..., None]:
    def told(self: WireMember, now_ms: int, message: msg.ToFetcher) -> None:
        if not (
            isinstance(message, msg.Failed) and message.code is msg.FailureCode.FENCED_INSTANCE_ID
        ):
            original(self, now_ms, message)

    return told


WIRE_VARIANTS = (
    Variant(
        "wire_answered_first",
        "a client is told what it has before that is written down",
        (
            Patch(Remembering, "remember", _answered_first),
            Patch(Remembering, "foresee", _unforeseen),
        ),
        "wire",
        ("W3",),
    ),
    Variant(
        "wire_not_remembered",
        "it is not written down at all",
        (
            Patch(Remembering, "remember", _never_written),
            Patch(Remembering, "foresee", _unforeseen),
        ),
        "wire",
        ("W3",),
    ),
    Variant(
        "wire_restored_at_once",
        "a client that came from another gateway is told what its agent has before that has"
        " anything",
        (Patch(Restoring, "is_over", _at_once),),
        "wire",
        ("W3",),
    ),
    Variant(
        "wire_nothing_is_all",
        "that nothing is left for an agent counts as what comes back",
        (Patch(WireMember, "told", _whatever_comes),),
        "wire",
        ("W3",),
    ),
    Variant(
        "wire_no_drain",
        "who leaves closes its session, and its place waits for it",
        (Patch(Drain, "begin", _closed),),
        "wire",
        ("W6",),
    ),
    Variant(
        "wire_generation_forgotten",
        "a client that came from another gateway has no generation",
        (Patch(WireMember, "restore", _from_nothing),),
        "wire",
    ),
    Variant(
        "wire_given_up_early",
        "what a client has is given up before it has joined again",
        (Patch(WireMember, "_give_up_due", _at_the_agents_word),),
        "wire",
        ("W2",),
    ),
    Variant(
        "wire_silent_heartbeats",
        "a heartbeat never says that there is something to do",
        (Patch(WireMember, "_code", _all_is_well),),
        "wire",
        ("W6", "I8"),
    ),
    Variant(
        "wire_fenced_goes_on",
        "a member whose instance was taken over goes on",
        (Patch(WireMember, "told", _nothing_is_over),),
        "wire",
    ),
    Variant(
        "wire_goes_back",
        "a client that comes from another gateway stores where it stands, whatever others have"
        " stored",
        (Patch(Returned, "is_behind", _never),),
        "wire",
        ("I4",),
    ),
)
