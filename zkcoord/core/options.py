"""Every limit and choice of the coordinator's decisions, with its unit last. The defaults are what ships."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoordinatorOptions:
    """Options of the pure core.

    `lease_max_ms` is published in the epoch node: no member fetches longer than this after its last proof of membership, so an orphaned owner node may be removed after it
    plus a margin. `rebalance_timeout_max_ms` caps what a member may ask for as the deadline of a command. `debounce_ms` is the quiet window before a changed group is
    assigned anew. A group that was assigned `assignments_per_storm_window` times within `storm_window_ms` waits until it is quiet for `debounce_storm_ms` instead, but no change
    waits longer than `debounce_max_ms`. A session's owner nodes are capped at `owner_path_bytes_max` bytes of full paths, counted with `owner_path_prefix_bytes` (chroot and layout) and
    the group's name: a close is one transaction, and one that is too large stops the ensemble. The empty channel of a member that was seen to go is deleted after
    `channel_departed_ms` (not at once: that write would stand before the commands that its departure calls for), one that a dead coordinator left behind after `channel_orphan_ms`.
    """

    default_assignor: str = "sticky"
    lease_max_ms: int = 12_000
    lease_margin_percent: int = 10
    lease_margin_ms: int = 1_000
    rebalance_timeout_max_ms: int = 300_000
    debounce_ms: int = 10
    debounce_storm_ms: int = 300
    debounce_max_ms: int = 2_000
    storm_window_ms: int = 1_000
    assignments_per_storm_window: int = 2
    groups_in_flight_max: int = 64
    partitions_per_command_max: int = 150
    command_bytes_max: int = 48 * 1024
    commands_bytes_per_write_max: int = 384 * 1024
    ops_per_write_max: int = 400
    owner_path_bytes_max: int = 512 * 1024
    owner_path_prefix_bytes: int = 64
    channel_departed_ms: int = 1_000
    channel_orphan_ms: int = 60_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 5_000
    members_per_group_max: int = 10_000

    @property
    def orphan_wait_ms(self) -> int:
        """How long an owner node whose registration is gone is left alone: the lease and its margin."""
        return self.lease_max_ms + self.lease_max_ms * self.lease_margin_percent // 100 + self.lease_margin_ms
