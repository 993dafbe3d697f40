"""The way out of a member whose client left.

Its registration names an instance, whose partitions would wait for it if the session just ended. So
it is told to want nothing any more, gives up what it has as it is asked to, and closes when it has
had nothing for a moment: whoever shall have its partitions gets them at once, and the coordinator
has read that it wants nothing. None waits for a coordinator that is not there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from consumer.core import messages as msg
from zkcoord.core.model import Subscription, TopicPartition

from .actions import WireTimes


@dataclass(slots=True)
class Drain:
    """See the module. The methods return what the agent is to be told. `held`: what it has, without
    what it has been asked for already and gives up at once.
    """

    times: WireTimes
    began_ms: int
    held: set[TopicPartition]
    over: bool = False
    changed_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.changed_ms = self.began_ms

    def begin(self, tokens: Collection[int]) -> list[msg.FromFetcher]:
        """What comes first; `tokens` are of revocations that wait for an answer."""
        wants_nothing = msg.Subscribe(Subscription({}))
        return [wants_nothing, *(msg.Revoked(token, {}) for token in tokens)]

    def told(self, now_ms: int, message: msg.ToFetcher) -> list[msg.FromFetcher]:
        """The agent says something."""
        match message:
            case msg.Assigned():
                self.held.update(message.offsets, message.unset)
            case msg.Revoke():
                self.held.difference_update(message.partitions)
                self.changed_ms = now_ms
                return [msg.Revoked(message.token, {})]
            case msg.Resumed():
                self.held.update(message.partitions)
            case msg.Lost():
                self.held.difference_update(message.partitions)
            case msg.Resolve():
                return [msg.Resolved(message.token, {}, message.partitions)]
            case msg.Failed():
                self.over = True
            case _:
                return []
        self.changed_ms = now_ms
        return []

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self.over:
            return None
        last = self.began_ms + self.times.drain_ms
        return last if self.held else min(last, self.changed_ms + self.times.drain_quiet_ms)

    def tick(self, now_ms: int) -> list[msg.FromFetcher]:
        """Time passed."""
        due = self.next_wake_ms()
        if due is None or now_ms < due:
            return []
        self.over = True
        return [msg.Close({}, 0)]
