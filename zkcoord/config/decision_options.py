"""Options that say how a coordinator decides: a part of the table in `zkcoord.config.options`."""

from __future__ import annotations

from zkcoord.assignors.pool import PROCESSES_MIN, AssignorOptions
from zkcoord.config.option_spec import OptionSpec, number, text
from zkcoord.core.options import CoordinatorOptions

HOUR_MS = 3_600_000
COUNT_MAX = 1_000_000
_CORE = CoordinatorOptions()
_ASSIGNORS = AssignorOptions()


def _core(name: str, help: str, low: int, high: int, metavar: str = "N") -> OptionSpec:
    return number(name, getattr(_CORE, name), help, low, high, metavar=metavar)


DECISIONS = (
    text(
        "assignor",
        _CORE.default_assignor,
        "used where the members of a group name none",
        metavar="NAME",
    ),
    number(
        "assignor_processes_max",
        _ASSIGNORS.processes_max,
        "processes that run custom assignors at once",
        PROCESSES_MIN,
        256,
    ),
    number(
        "assignor_deadline_ms",
        _ASSIGNORS.deadline_ms,
        "how long a custom assignor may take; past it its process is killed, and the group's"
        " attempt has failed",
        100,
        HOUR_MS,
        metavar="MS",
    ),
    number(
        "assignor_memory_mb",
        _ASSIGNORS.memory_mb,
        "the address space of such a process",
        64,
        COUNT_MAX,
        metavar="MIB",
    ),
    _core(
        "lease_max_ms",
        "no member fetches longer than this without proof of its membership",
        500,
        HOUR_MS,
        "MS",
    ),
    _core(
        "lease_margin_percent",
        "added to the lease before the partitions of a dead member are given away",
        0,
        100,
    ),
    _core("lease_margin_ms", "added as well", 0, HOUR_MS, "MS"),
    _core(
        "rebalance_timeout_max_ms",
        "the longest time that a member may ask for to answer a command",
        1_000,
        24 * HOUR_MS,
    ),
    _core(
        "debounce_ms",
        "the quiet window after a change before partitions are assigned anew",
        0,
        60_000,
        "MS",
    ),
    _core(
        "debounce_again_ms",
        "that window, if longer, for a group that was assigned within storm_window_ms",
        0,
        60_000,
        "MS",
    ),
    _core("debounce_storm_ms", "that window under a storm of changes", 0, 60_000, "MS"),
    _core(
        "debounce_max_ms", "no change waits longer than this for its assignment", 0, 600_000, "MS"
    ),
    _core(
        "storm_window_ms",
        "a storm: a group assigned assignments_per_storm_window times within this",
        0,
        600_000,
        "MS",
    ),
    _core("assignments_per_storm_window", "see there", 1, 10_000),
    _core(
        "start_gather_ms",
        "how long a member waits for the rest of what others are giving up for it, so that it is"
        " started once",
        0,
        60_000,
        "MS",
    ),
    _core(
        "initial_delay_ms",
        "how long the first member of an empty group waits for others",
        0,
        600_000,
        "MS",
    ),
    _core(
        "max_rebalance_retries",
        "failures in a row (evictions, failures of a custom assignor) after which a group is"
        " quarantined",
        1,
        1_000,
    ),
    _core(
        "retries_forgotten_ms",
        "a group at rest for so long has no failures behind it",
        0,
        24 * HOUR_MS,
        "MS",
    ),
    _core(
        "quarantine_ms",
        "a quarantined group is tried again after this, or on a membership change",
        0,
        24 * HOUR_MS,
        "MS",
    ),
    _core(
        "quarantine_backoff_ms",
        "but never before this, which doubles from one quarantine to the next",
        1,
        HOUR_MS,
        "MS",
    ),
    _core("quarantine_backoff_max_ms", "up to this", 1, 24 * HOUR_MS, "MS"),
    _core(
        "grace_max_ms",
        "the longest time that the partitions of a static member are kept for its return",
        0,
        24 * HOUR_MS,
        "MS",
    ),
    _core("groups_in_flight_max", "groups whose write is under way at once", 1, 10_000),
    _core("members_per_group_max", "members of one group that are served", 1, COUNT_MAX),
    _core(
        "registrations_per_group_max",
        "a group with more registrations is left alone and reported as malformed: its members keep"
        " what they own",
        1,
        COUNT_MAX,
    ),
    _core(
        "nodes_per_group_max",
        "the same for all nodes of a group together: registrations, channels, commands, owner"
        " nodes",
        1,
        10 * COUNT_MAX,
    ),
    _core(
        "left_alone_retry_ms",
        "how often it is looked whether such a group has become smaller",
        100,
        HOUR_MS,
        "MS",
    ),
    _core(
        "owner_path_bytes_max",
        "bytes of owner-node paths per session: closing a session is one transaction",
        1_024,
        900 * 1024,
    ),
    _core(
        "channel_departed_ms",
        "how long after its departure a member's empty channel is deleted",
        0,
        24 * HOUR_MS,
    ),
    _core(
        "channel_orphan_ms",
        "how long the empty channel of a member that never registered is left alone",
        1_000,
        24 * HOUR_MS,
    ),
)
