"""What a gateway's event loop counts: plain integers, changed on its thread only and read by any.

Relayed bytes are counted by the piece, and nothing else is done for them. Labels come from fixed
lists: no name of a group, a client or an address makes a series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from consumer.gateway import frames
from consumer.gateway.rights.questions import Right
from zkcoord.core.error_codes import WireCode

API_NAMES = {
    frames.OFFSET_COMMIT: "OffsetCommit",
    frames.OFFSET_FETCH: "OffsetFetch",
    frames.FIND_COORDINATOR: "FindCoordinator",
    frames.JOIN_GROUP: "JoinGroup",
    frames.HEARTBEAT: "Heartbeat",
    frames.LEAVE_GROUP: "LeaveGroup",
    frames.SYNC_GROUP: "SyncGroup",
    frames.DESCRIBE_GROUPS: "DescribeGroups",
    frames.LIST_GROUPS: "ListGroups",
    frames.DELETE_GROUPS: "DeleteGroups",
    frames.OFFSET_DELETE: "OffsetDelete",
    frames.ADD_OFFSETS_TO_TXN: "AddOffsetsToTxn",
    frames.TXN_OFFSET_COMMIT: "TxnOffsetCommit",
}
"""Of all APIs that are answered here (`frames.MAX_VERSIONS`), as Kafka calls them."""
TIMED = (frames.JOIN_GROUP, frames.SYNC_GROUP)
OTHER = -2
"""Stands for all codes that `WireCode` does not have."""
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Durations:
    """How often something took how long: `counts[n]` of at most `BUCKETS_S[n]` seconds and more
    than the bucket before, the last of more than all.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class RelayFigures:
    """See the module."""

    def __init__(self) -> None:
        self.accepted = 0
        self.turned_away = 0
        self.from_clients = 0
        self.to_clients = 0
        self.from_brokers = 0
        self.to_brokers = 0
        self.broker_connections = 0
        self.broker_failures = 0
        self.tls_failures = 0
        self.held_bytes = 0  # now, of all connections
        self.requests = dict.fromkeys(API_NAMES, 0)
        self.codes = dict.fromkeys((*map(int, WireCode), OTHER), 0)
        self.questions = {right.value: 0 for right in Right}
        self.took = {key: Durations() for key in TIMED}

    def answered(self, key: int, codes: Iterable[int], seconds: float) -> None:
        """A request of API `key` was answered here, `seconds` after it came; `codes`: each that
        stands in the answer, once.
        """
        if key in self.requests:
            self.requests[key] += 1
        for code in codes:
            self.codes[code if code in self.codes else OTHER] += 1
        if key in self.took:
            self.took[key].add(seconds)
