"""Choices of one member, with their units last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """`auto_commit`: a stop stores the position after the last processed record; else only what the
    application committed. `max_poll_interval_ms`: a member whose application does not poll for
    longer leaves by itself (0: never; `poll_slack_ms` later, because what polls is told that late).
    `rebalance_timeout_ms`: how long the coordinator shall wait for an ack before it evicts this
    member. `consumer_id` is the name that the user chose for this consumer (the old consumer's
    consumer.id). `instance` makes it a static member, whose partitions wait `grace_ms` for its
    return; `process` is a nonce of the consumer, which tells its own earlier sessions from another
    process with the same instance. `protocols` are the forms of rebalance that it takes part in, in
    order of preference. `stores_offsets` False: offsets are kept elsewhere, by the fetching side:
    it is asked where each partition begins, and the answer to a `Commit` only says whether this
    member may write it there. `tells_stored`: the fetching side hears of every offset that is
    stored. `user_data` is what it tells a custom assignor, where the application says nothing else
    when it subscribes. A member that was sent away for a while comes back after
    `rejected_backoff_ms`, doubled each time up to `rejected_backoff_max_ms`. `failsafe`: its lease
    is prolonged while it is proved that no server of the ensemble serves anybody (`NobodyServes`).
    In a group that is shared with old consumers everything is given up within `release_ms` of a
    change: they try four times, two seconds apart.
    """

    group: str = ""
    host: str = ""
    client: str = ""
    consumer_id: str | None = None
    process: str = ""
    instance: str | None = None
    grace_ms: int = 45_000
    protocols: tuple[str, ...] = ("cooperative", "eager")
    assignors: tuple[str, ...] = ("sticky",)
    user_data: str = ""
    failsafe: bool = False
    auto_commit: bool = True
    stores_offsets: bool = True
    tells_stored: bool = False
    max_poll_interval_ms: int = 300_000
    poll_slack_ms: int = 0
    rebalance_timeout_ms: int = 60_000
    coordinator_warning_ms: int = 5_000
    resolve_retry_ms: int = 100
    commit_tries_max: int = 3
    offsets_per_write_max: int = 200
    rejected_backoff_ms: int = 1_000
    rejected_backoff_max_ms: int = 60_000
    release_ms: int = 4_000
    release_partitions_max: int = 150
    refused_starts_max: int = 20
    lease_default_ms: int = 12_000
