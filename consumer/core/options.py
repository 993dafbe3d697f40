"""Choices of one member, with their units last."""

from __future__ import annotations

from zkcoord.core.value_type import value


@value
class MemberOptions:
    """What a member is and how it behaves, fixed for its life."""

    group: str = ""
    """The group's name."""

    host: str = ""
    """The host on which the member runs, for people."""

    client: str = ""
    """What the member is called (client.id), for people."""

    library: str = ""
    """Name and version of the library of a gateway's client, for people."""

    gateway: str = ""
    """Where clients find the gateway whose client the member is, for people."""

    consumer_id: str | None = None
    """The name that the user chose for this consumer (the old consumer's consumer.id)."""

    process: str = ""
    """A nonce of the consumer, which tells its earlier sessions from another process with the
    instance that it has.
    """

    instance: str | None = None
    """Makes it a static member of this name."""

    instance_is_new: bool = False
    """Nobody else can have this instance when it registers for the first time."""

    grace_ms: int = 45_000
    """How long a static member's partitions wait for its return."""

    protocols: tuple[str, ...] = ("cooperative", "eager")
    """The forms of rebalance that it takes part in, in order of preference."""

    assignors: tuple[str, ...] = ("sticky",)
    """The assignors that it knows, in order of preference."""

    user_data: str = ""
    """What a custom assignor hears of it, where the application says nothing else when it
    subscribes.
    """

    failsafe: bool = False
    """Its lease is prolonged while it is proved that no server of the ensemble serves anybody
    (`NobodyServes`).
    """

    auto_commit: bool = True
    """A stop stores the position after the last processed record; else only what the application
    committed.
    """

    stores_offsets: bool = True
    """Offsets are kept in ZooKeeper. False: the fetching side keeps them elsewhere: it is asked
    where each partition begins, and the answer to a `Commit` only says whether this member may
    write it there.
    """

    tells_stored: bool = False
    """The fetching side hears of every offset that is stored (`Stored`)."""

    tells_starts: bool = False
    """The fetching side hears of what it is about to be assigned (`Starting`)."""

    max_poll_interval_ms: int = 300_000
    """A member whose application does not poll for longer leaves by itself (0: never)."""

    returns_with_poll: bool = False
    """After an eviction it comes back when its application polls: who hangs would be given
    partitions only to be evicted again. False: at once.
    """

    poll_slack_ms: int = 0
    """How much later it leaves, because what polls is reported that late."""

    rebalance_timeout_ms: int = 60_000
    """How long the coordinator waits for an ack before it evicts this member."""

    coordinator_warning_ms: int = 5_000
    """How long nobody leads before that is reported."""

    resolve_retry_ms: int = 100
    unreadable_retry_ms: int = 1_000
    """When what could not be resolved is asked for again."""

    commit_tries_max: int = 3
    """How many writes of a commit may end badly before it is `UNAVAILABLE`."""

    offsets_per_write_max: int = 200
    """How many offsets one multi stores."""

    metadata_per_write_max: int = 80
    """How many of them with metadata, or metadata to delete."""

    metadata_chars_per_write_max: int = 32_768
    """Characters of metadata in one multi: written out, one may take twelve bytes."""

    rejected_backoff_ms: int = 1_000
    """When a member that was sent away comes back; doubled each time."""

    rejected_backoff_max_ms: int = 60_000
    """The longest that a member that was sent away stays away."""

    idle_look_ms: int = 1_000
    """When a member that was told nothing since it registered looks whether its group is balanced
    without it; doubled each time (0: never).
    """

    idle_look_max_ms: int = 30_000
    """The longest between two such looks."""

    release_ms: int = 4_000
    """In a group that is shared with old consumers everything is given up within this time of a
    change: they try four times, two seconds apart.
    """

    release_partitions_max: int = 150
    """How many partitions one multi releases."""

    refused_starts_max: int = 20
    """How many starts in a row are refused because of other registrations; the next is believed."""

    lease_default_ms: int = 12_000
    """The limit of a lease where the epoch node says none."""
