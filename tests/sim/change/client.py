"""A client that leads its group where it is told to, as Java's ConsumerCoordinator does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from consumer.gateway.wire.requests import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from consumer.gateway.wire.subscription import decode_subscription, encode_assignment
from tests.sim.change.leading import assign
from tests.sim.wire_client import WireClient
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.znodes.classic.consumer_blobs import BlobReader

if TYPE_CHECKING:
    from tests.sim.change.checker import ChangeChecker

NAMES_MAX = 10_000
UNANSWERED_CHANCE = 0.3


def _nothing() -> None:
    """What follows an answer that nobody waits for."""


class ChangeClient(WireClient):
    """See the module. `partitions` says how many a topic has. `connected_ms`: when it came to its
    gateway; `joined_ms`: when it sent its last JoinGroup.
    """

    def __init__(
        self, checker: ChangeChecker, partitions: Callable[[str], int], *arguments: Any
    ) -> None:
        self.checker = checker
        self.partitions = partitions
        self.connected_ms = self.joined_ms = -1
        self._leads: JoinAnswer | None = None
        super().__init__(*arguments)

    def _link_changed(self) -> None:
        super()._link_changed()
        self.connected_ms = self.kernel.now

    def _commit_then(self, then: Callable[[], None]) -> None:
        """Sometimes it does not wait for the answer, as who commits asynchronously."""
        if self.kernel.chance(UNANSWERED_CHANCE):
            super()._commit_then(_nothing)
            then()
        else:
            super()._commit_then(then)

    def _lose(self, code: WireCode) -> None:
        if self.joining:
            self.checker.loses(self, code)
        super()._lose(code)

    def join_request(self) -> JoinRequest:
        """See `WireClient`."""
        self.joined_ms = self.kernel.now
        return replace(super().join_request(), may_skip=True)

    def has_joined(self, answer: JoinAnswer) -> None:
        """See `WireClient`."""
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        self._leads = answer if leads else None

    def sync_request(self) -> SyncRequest:
        """See `WireClient`."""
        request, leads = super().sync_request(), self._leads
        if leads is None:
            return request
        self.kernel.happened["a client leads"] += 1
        members = {name: decode_subscription(blob) for name, _, blob in leads.members}
        given = assign(leads.protocol, members, self.partitions)
        in_order = {name: sorted(given[name]) for name in sorted(given)}
        self.kernel.trace(self.host.name, f"leads, and gives {in_order}")
        blobs = tuple((name, encode_assignment(tps)) for name, tps in in_order.items())
        return replace(request, assignments=blobs)

    def given_by(self, answer: SyncAnswer) -> set[TopicPartition]:
        """See `WireClient`."""
        if answer.opaque is None:
            return super().given_by(answer)
        return assigned(answer.opaque)


def assigned(blob: bytes) -> set[TopicPartition]:
    """ConsumerProtocol's assignment; of nothing where nothing was said."""
    if not blob:
        return set()
    reader = BlobReader(blob)
    reader.int16()
    found = set()
    for _ in range(reader.count(NAMES_MAX)):
        topic = reader.text()
        found.update(TopicPartition(topic, reader.int32()) for _ in range(reader.count(NAMES_MAX)))
    return found
