"""Every limit and choice of the coordinator's decisions, with its unit last. The defaults are what
ships.
"""

from __future__ import annotations

from zkcoord.core.value_type import value


@value
class CoordinatorOptions:
    """Options of the pure core.

    `lease_max_ms` is published in the epoch node: no member fetches longer than this after its last
    proof of membership, so an orphaned owner node may be removed after it plus a margin.
    `older_lease_ms` is the longest that an earlier coordinator published: a member that no command
    has told of a later one still counts on it, so the longer of both is waited for.
    `rebalance_timeout_max_ms` caps what a member may ask for as the deadline of a command.
    `debounce_ms` is the quiet window before a changed group is assigned anew; `debounce_again_ms`
    (if that is more) where it was assigned within `storm_window_ms`, since one change more is often
    followed by others: fifty members that join within a second are assigned once when the first is
    there, and once when all are. A group that was assigned `assignments_per_storm_window` times
    within `storm_window_ms` waits until it is quiet for `debounce_storm_ms` instead (as long as no
    `storm_window_ms` pass without a change), but no change waits longer than `debounce_max_ms`.
    What was before everybody had left counts for none of it. A session's owner nodes are capped at
    `owner_path_bytes_max` bytes of full paths, counted with `owner_path_prefix_bytes` (chroot and
    layout) and the group's name: a close is one transaction, and one that is too large stops the
    ensemble. The empty channel of a member that was seen to go is deleted after
    `channel_departed_ms` (not at once: that write would stand before the commands that its
    departure calls for), one that a dead coordinator left behind after `channel_orphan_ms`.
    `commands_bytes_per_write_max` counts each command with `acl_bytes`, which the ACL of its node
    takes. A member waits for `start_gather_ms` for the rest of what others are giving up for it, so
    that it is started once. `initial_delay_ms` is how long the first member of an empty group waits
    for others. `external_assignors` are the custom assignors that can be asked. After
    `max_rebalance_retries` failures without `retries_forgotten_ms` of rest between them a group is
    quarantined, see `zkcoord.core.group.quarantine`. `grace_max_ms` caps for how long a static
    member's partitions are kept for it. A group with more than `registrations_per_group_max`
    registrations or `nodes_per_group_max` nodes is not read but left alone; after
    `left_alone_retry_ms` its size is looked at again. An old consumer tries four times, two seconds
    apart: one that owns nothing, or lacks what nobody has, `legacy_attempts_ms` after the last
    change has given up, and is revived; again after twice that, up to `legacy_rescue_max_ms`. What
    else is wrong for `legacy_odd_ms` is reported.

    What may take long is done in portions, or elsewhere: a step decides groups of
    `weight_per_step_max` partitions and members together, or one; of a group at most
    `filed_at_once_max` partitions are filed at once; and a target of more than
    `assigned_here_max` partitions is computed elsewhere (`Assign`).
    """

    default_assignor: str = "sticky"
    lease_max_ms: int = 12_000
    older_lease_ms: int = 0
    lease_margin_percent: int = 10
    lease_margin_ms: int = 1_000
    rebalance_timeout_max_ms: int = 300_000
    debounce_ms: int = 5
    debounce_again_ms: int = 100
    debounce_storm_ms: int = 300
    debounce_max_ms: int = 2_000
    storm_window_ms: int = 1_000
    assignments_per_storm_window: int = 2
    groups_in_flight_max: int = 64
    weight_per_step_max: int = 5_000
    filed_at_once_max: int = 2_000
    assigned_here_max: int = 5_000
    partitions_per_command_max: int = 150
    command_bytes_max: int = 48 * 1024
    commands_bytes_per_write_max: int = 384 * 1024
    ops_per_write_max: int = 400
    acl_bytes: int = 27
    owner_path_bytes_max: int = 512 * 1024
    owner_path_prefix_bytes: int = 64
    channel_departed_ms: int = 1_000
    channel_orphan_ms: int = 60_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 5_000
    members_per_group_max: int = 10_000
    initial_delay_ms: int = 0
    start_gather_ms: int = 10
    external_assignors: tuple[str, ...] = ()
    max_rebalance_retries: int = 4
    retries_forgotten_ms: int = 30_000
    quarantine_ms: int = 60_000
    quarantine_backoff_ms: int = 1_000
    quarantine_backoff_max_ms: int = 60_000
    grace_max_ms: int = 1_800_000
    registrations_per_group_max: int = 20_000
    nodes_per_group_max: int = 200_000
    left_alone_retry_ms: int = 10_000
    legacy_attempts_ms: int = 9_000
    legacy_odd_ms: int = 10_000
    legacy_rescue_max_ms: int = 60_000

    @property
    def orphan_wait_ms(self) -> int:
        """How long an owner node whose registration is gone is left alone: the longest lease that
        its member may count on, and the margin.
        """
        lease_ms = max(self.lease_max_ms, self.older_lease_ms)
        return lease_ms + lease_ms * self.lease_margin_percent // 100 + self.lease_margin_ms

    def backoff_ms(self, times: int) -> int:
        """How long to wait before the attempt after `times` that were in vain."""
        return min(self.retry_backoff_ms << min(times, 16), self.retry_backoff_max_ms)
