"""Choices of one member, with their units last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """`auto_commit`: a stop stores the position after the last processed record; else only what the application committed. `max_poll_interval_ms`: a member whose application does
    not poll for longer leaves by itself (0: never). `rebalance_timeout_ms`: how long the coordinator shall wait for an ack before it evicts this member. `consumer_id` is the
    name that the user chose for this consumer (the old consumer's consumer.id); `process` is a nonce of the process."""

    group: str = ""
    host: str = ""
    client: str = ""
    consumer_id: str | None = None
    process: str = ""
    assignors: tuple[str, ...] = ("sticky",)
    user_data: str = ""
    auto_commit: bool = True
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int = 60_000
    coordinator_warning_ms: int = 5_000
    resolve_retry_ms: int = 100
    commit_tries_max: int = 3
    offsets_per_write_max: int = 200
    lease_default_ms: int = 12_000
