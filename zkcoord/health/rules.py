"""Verdicts without thresholds, by the rules that Burrow has published: what a window of commits
says of a partition, and the partitions of their group. Pure.

In this order:

* no lag now: OK;
* STOP: no commit for longer than the window is wide, and the log did not end at the committed
  offset lately;
* REWIND: an offset went back, and has not come again to where it was (Burrow looks at the first
  time only);
* no lag at some commit of the window: OK;
* STALL: the same offset is committed again and again;
* WARN: offsets advance, and the lag goes down nowhere in the window;
* else OK.

A group is WARN or ERROR where one of its partitions is, ERROR for everything that is worse than
WARN; NOTFOUND where there is none of its name.

Where it differs from Burrow, on purpose:

* The time of a commit in ZooKeeper is its node's mtime, as there; of one in Kafka, that of the look
  that saw it first, where Burrow reads commits as they come. STALL needs to see the same offset
  committed again, so it is told of ZooKeeper's offsets only: in Kafka such a partition is a STOP,
  and the sentence says what it may be. (What a new owner writes when it begins is a commit in that
  sense.)
* A window that is not full is judged once the partition was watched for `watched_ms`; Burrow has OK
  for it, or judges any. Until then a partition with lag is UNKNOWN, which is no verdict. "Lately"
  in STOP is the same time.
* A lag that stays the same is no WARN: it must have grown from first to last.
* An offset beyond the log's end is an ERROR when two looks in a row have found it there: the topic
  was made again, or the log was cut, and what follows is the consumer's `auto_offset_reset`. Burrow
  has OK.
* What cannot be read is UNKNOWN, what is stored and no offset an ERROR.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.health.seconds import LagSeconds
from zkcoord.health.window import COMMITS_MAX, CommitWindow, SeenCommit

WATCHED_MS = 50_000
BEYOND_LOOKS = 2
TREND_COMMITS_MIN = 3


class HealthVerdict(enum.Enum):
    """From well to worse; NOTFOUND is of groups only, STOP, STALL and REWIND of partitions."""

    OK = "OK"
    UNKNOWN = "UNKNOWN"
    WARN = "WARN"
    STOP = "STOP"
    STALL = "STALL"
    REWIND = "REWIND"
    ERROR = "ERROR"
    NOTFOUND = "NOTFOUND"

    @property
    def rank(self) -> int:
        """The higher, the worse."""
        return _RANKS[self]


_RANKS = {verdict: rank for rank, verdict in enumerate(HealthVerdict)}


WAITING = (
    HealthVerdict.UNKNOWN,
    HealthVerdict.WARN,
    HealthVerdict.STOP,
    HealthVerdict.STALL,
)
"""What is said of a partition because nobody consumes it; in a paused group nobody is to."""


@value
class HealthLimits:
    """How many commits a window holds, and how long a partition is watched before a window that is
    not full is judged.
    """

    commits_max: int = COMMITS_MAX
    watched_ms: int = WATCHED_MS


@value
class PartitionHealth:
    """One partition: the verdict, its evidence in words, and the numbers it was made from. `owner`
    is who owns it, as far as that was asked.
    """

    tp: TopicPartition
    verdict: HealthVerdict
    why: str
    offset: int | None = None
    end: int | None = None
    seconds: LagSeconds | None = None
    window: CommitWindow | None = None
    complete: float = 0.0
    owner: str = ""

    @property
    def lag(self) -> int | None:
        """How many records are behind the committed offset; None: not known."""
        return None if self.offset is None or self.end is None else max(0, self.end - self.offset)

    @property
    def badness(self) -> tuple[int, float, int]:
        """What sorts the worst partition last."""
        seconds = self.seconds.value if self.seconds is not None else 0.0
        return self.verdict.rank, seconds, self.lag or 0


@value
class GroupHealth:
    """One group, by its partitions. `storage` says where its offsets are ("": nobody knows),
    `paused` who paused it ("": nobody).
    """

    group: str
    verdict: HealthVerdict
    why: str
    state: str = ""
    storage: str = ""
    partitions: tuple[PartitionHealth, ...] = ()
    problems: tuple[str, ...] = ()
    paused: str = ""

    @property
    def worst(self) -> PartitionHealth | None:
        """The partition with the worst verdict; of equals, the one that is behind most."""
        return max(self.partitions, key=lambda p: p.badness, default=None)

    @property
    def lag(self) -> int | None:
        """Of all partitions together, as far as it is known; None: of none."""
        lags = [p.lag for p in self.partitions if p.lag is not None]
        return sum(lags) if lags else None

    @property
    def seconds(self) -> LagSeconds | None:
        """Of the partition that is behind longest."""
        found = [p.seconds for p in self.partitions if p.seconds is not None]
        return max(found, key=lambda s: (s.value, s.at_least), default=None)


def judge(
    tp: TopicPartition,
    window: CommitWindow,
    end: int | None,
    seconds: LagSeconds | None,
    limits: HealthLimits,
    no_end: str = "",
) -> PartitionHealth:
    """The verdict on a partition, by its window, its log's end and its lag in seconds. `no_end`
    says why the end is not known.
    """
    if end is None:
        verdict, why = HealthVerdict.UNKNOWN, f"where its log ends is not known ({no_end})"
    else:
        verdict, why = _verdict(window, end, seconds, limits)
    complete = len(window.commits) / limits.commits_max
    known = seconds if end is not None else None
    return PartitionHealth(tp, verdict, why, window.offset, end, known, window, complete)


def of_group(
    group: str,
    state: str,
    storage: str,
    partitions: Sequence[PartitionHealth],
    problems: Sequence[str] = (),
) -> GroupHealth:
    """The verdict on a group that exists. `problems` are what of it could not be read."""
    found = GroupHealth(
        group, HealthVerdict.OK, "", state, storage, tuple(partitions), tuple(problems)
    )
    worst = found.worst
    verdict = HealthVerdict.OK if worst is None else worst.verdict
    why = "nothing is stored" if worst is None else _of_worst(worst, partitions)
    if verdict.rank > HealthVerdict.WARN.rank:
        verdict = HealthVerdict.ERROR
    elif problems and verdict is HealthVerdict.OK:
        verdict, why = HealthVerdict.UNKNOWN, problems[0]
    return GroupHealth(group, verdict, why, state, storage, found.partitions, found.problems)


def while_paused(partition: PartitionHealth, by: str) -> PartitionHealth:
    """A partition of a group that is paused: that nobody consumes it is what was wanted."""
    if partition.end is None or partition.verdict not in WAITING:
        return partition
    why = f"its group is paused (by {by}); lag {partition.lag}"
    return replace(partition, verdict=HealthVerdict.OK, why=why)


def paused_group(group: GroupHealth, by: str) -> GroupHealth:
    """A paused group says so, whatever else is to be said of it."""
    lag = f"; lag {group.lag}" if group.lag else ""
    well = group.verdict is HealthVerdict.OK
    why = f"paused by {by}{lag if well else f'; {group.why}'}"
    return replace(group, why=why, paused=by)


def _of_worst(worst: PartitionHealth, partitions: Sequence[PartitionHealth]) -> str:
    if worst.verdict is HealthVerdict.OK:
        return worst.why
    more = sum(p.verdict not in (HealthVerdict.OK, HealthVerdict.UNKNOWN) for p in partitions) - 1
    return f"{worst.verdict.value}: {worst.why}" + (
        f"; {more} more partition{'s' if more > 1 else ''}" if more > 0 else ""
    )


def _verdict(
    window: CommitWindow, end: int, seconds: LagSeconds | None, limits: HealthLimits
) -> tuple[HealthVerdict, str]:
    commits, lag = window.commits, end - window.offset
    lags = [commit.lag for commit in commits]
    if window.beyond >= BEYOND_LOOKS:
        return HealthVerdict.ERROR, (
            f"committed is {window.offset}, and the log ends at {end}: it was made again or cut"
        )
    if lag <= 0:
        return HealthVerdict.OK, "no lag"
    full = len(commits) >= limits.commits_max
    enough = full or window.watched_ms >= limits.watched_ms
    recently = (
        seconds is not None and not seconds.at_least and seconds.value * 1000 < limits.watched_ms
    )
    if enough and not recently and window.seen_ms - commits[-1].at_ms > window.width_ms:
        return HealthVerdict.STOP, _stopped(window, lag)
    back = rewound(commits)
    if back:
        return HealthVerdict.REWIND, _gone_back(window, back, lag)
    if 0 in lags:
        return HealthVerdict.OK, f"no lag at one of its last {len(commits)} commits"
    if not enough:
        return HealthVerdict.UNKNOWN, (
            f"lag {lag}, and {len(commits)} of {limits.commits_max} commits seen in"
            f" {_s(window.watched_ms)}: too little to judge"
        )
    if len(commits) > 1 and len({commit.offset for commit in commits}) == 1:
        return HealthVerdict.STALL, (
            f"committed {len(commits)} times in {_s(window.width_ms)}, always {window.offset};"
            f" lag {lag}"
        )
    return _slow(window, lag, [one for one in lags if one is not None])


def _slow(window: CommitWindow, lag: int, lags: Sequence[int]) -> tuple[HealthVerdict, str]:
    """The last rule, of offsets that advance: WARN where the lag only ever grew, and more than
    once: a single step is what came between a look at the log's end and one at the offset.
    """
    commits = window.commits
    if (
        len(lags) >= TREND_COMMITS_MIN
        and sum(before < after for before, after in pairwise(lags)) > 1
        and all(before <= after for before, after in pairwise(lags))
    ):
        return HealthVerdict.WARN, (
            f"the lag grew from {lags[0]} to {lags[-1]} over {len(commits)} commits in"
            f" {_s(window.width_ms)}, while {commits[-1].offset - commits[0].offset} records were"
            " consumed"
        )
    return HealthVerdict.OK, f"lag {lag}, and it goes down at times"


def rewound(commits: Sequence[SeenCommit]) -> int:
    """The first commit that went back and after which none has come to where the one before was;
    0: there is none.
    """
    for index, (before, after) in enumerate(pairwise(commits), 1):
        if after.offset < before.offset > max(commit.offset for commit in commits[index:]):
            return index
    return 0


def _stopped(window: CommitWindow, lag: int) -> str:
    last, count = window.commits[-1], len(window.commits)
    silent = _s(window.seen_ms - last.at_ms)
    since = f", and the {count} before within {_s(window.width_ms)}" if count > 1 else ""
    other = "" if window.mark else " (or only the same offset again, which Kafka does not tell)"
    return f"no commit for {silent}{since}{other}; lag {lag}"


def _gone_back(window: CommitWindow, index: int, lag: int) -> str:
    before, after = window.commits[index - 1], window.commits[index]
    ago = _s(window.seen_ms - after.at_ms)
    now = "" if window.offset == after.offset else f", now {window.offset}"
    return f"the offset went back from {before.offset} to {after.offset} {ago} ago{now}; lag {lag}"


def _s(ms: int) -> str:
    """A duration for people."""
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 7_200 else f"{seconds / 3600:.0f} h"
