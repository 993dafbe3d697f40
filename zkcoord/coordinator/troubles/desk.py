"""Looks at this coordinator's own records of the last hour, on a thread beside the one that
decides: the rules of trouble that need nothing else. A trouble is told to the journal when it
begins and when it ends, and counted for the metrics.

What it costs is bounded: records that wait, records that are kept and their size, and the part of
the time that turns take. The thread that decides appends to a deque, and that is all. A term's end
forgets everything: what went on then is found again by who leads next, once it happens again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping

from zkcoord.core.model import Option
from zkcoord.health.trouble.evidence import (
    KINDS,
    Evidence,
    Record,
    of_last_hour,
    steps_of,
    text,
)
from zkcoord.health.trouble.kinds import Trouble, TroubleKind
from zkcoord.health.trouble.rules import BY_JOURNAL, troubles_of
from zkcoord.zk.clock import boot_ms, wall_ms

log = logging.getLogger(__name__)

TURN_S = 2.0
TURN_MS_MAX = 50
"""After so long a turn begins no other group; what is left over is looked at next."""

TURNS_PART = 40
"""The next turn begins so many times as long after one as that took, at the earliest: some 2
percent of a processor, also where one group alone takes long.
"""

AGAIN_MS = 60_000
"""How often a group in trouble is looked at without news: that it is over shows by time alone."""

WAITING_MAX = 20_000
KEPT_OF_GROUP_MAX = 500
KEPT_MAX = 100_000
KEPT_CHARS_OF_GROUP_MAX = 1024 * 1024
KEPT_CHARS_MAX = 64 * 1024 * 1024
"""Of records that are kept: members choose how long their names are, and come as often as they
like. An entry of a record counts `ENTRY_CHARS` beside its texts.
"""

ENTRY_CHARS = 300
CLOSE_WAIT_S = 2.0


class TroubleDesk:
    """See the module. `record` and `counts`: any thread; `look` is the thread's, and a test's."""

    def __init__(
        self,
        tell: Callable[[Mapping[str, object]], None],
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self.counts: Mapping[TroubleKind, int] = {}
        self._tell = tell
        self._wall = wall
        self._waiting: deque[Record] = deque(maxlen=WAITING_MAX)
        self._kept: dict[str, deque[tuple[int, Record]]] = {}
        self._count = 0
        self._chars_of: dict[str, int] = {}
        self._chars = 0
        self._due: dict[str, None] = {}
        self._looked_ms: dict[str, int] = {}
        self._troubles: dict[str, dict[tuple[str, str, str], Trouble]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zkcoord-troubles", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_WAIT_S)

    def record(self, record: Record) -> None:
        """A journal's record; returns at once."""
        if record.get("kind") in KINDS or _ends_term(record):
            self._waiting.append(record)

    def look(self) -> None:
        """One turn."""
        for _ in range(len(self._waiting)):
            self._take(self._waiting.popleft())
        now = self._wall()
        for group in list(self._troubles):
            if not 0 <= now - self._looked_ms.get(group, 0) < AGAIN_MS:
                self._due.setdefault(group)
        until_ms = boot_ms() + TURN_MS_MAX
        while self._due and boot_ms() < until_ms:
            group = next(iter(self._due))
            del self._due[group]
            self._judge(group, now)
        self.counts = Counter(
            kind
            for found in self._troubles.values()
            for kind in {trouble.kind for trouble in found.values()}
        )

    def _take(self, record: Record) -> None:
        if _ends_term(record):
            self._kept.clear()
            self._due.clear()
            self._looked_ms.clear()
            self._troubles.clear()
            self._chars_of.clear()
            self._count = self._chars = 0
            return
        group = record.get("group")
        if not isinstance(group, str):
            return
        kept = self._kept.pop(group, None)
        if kept is None:
            kept = deque()
        slim = _slim(record)
        weight = _weight(slim)
        kept.append((weight, slim))
        self._weighs(group, 1, weight)
        self._kept[group] = kept  # the group with the oldest news is the first
        while len(kept) > 1 and (
            len(kept) > KEPT_OF_GROUP_MAX or self._chars_of[group] > KEPT_CHARS_OF_GROUP_MAX
        ):
            self._weighs(group, -1, -kept.popleft()[0])
        self._due.setdefault(group)
        while self._count > KEPT_MAX or self._chars > KEPT_CHARS_MAX:
            self._forget(next(iter(self._kept)))

    def _weighs(self, group: str, count: int, chars: int) -> None:
        self._count += count
        self._chars += chars
        self._chars_of[group] = self._chars_of.get(group, 0) + chars

    def _forget(self, group: str) -> None:
        self._count -= len(self._kept.pop(group, ()))
        self._chars -= self._chars_of.pop(group, 0)
        self._looked_ms.pop(group, None)

    def _judge(self, group: str, now: int) -> None:
        records = of_last_hour((record for _, record in self._kept.get(group, ())), now)
        found = {one.key: one for one in troubles_of(Evidence(group, now, records), BY_JOURNAL)}
        before = self._troubles.pop(group, {})
        for key in found.keys() - before.keys():
            self._tell(_told(found[key], "begins", now))
        for key in before.keys() - found.keys():
            self._tell(_told(before[key], "ends", now))
        self._looked_ms[group] = now
        if found:
            self._troubles[group] = found
        elif not records:
            self._forget(group)

    def _run(self) -> None:
        try:
            wait_s = TURN_S
            while not self._over.wait(wait_s):
                began_ms = boot_ms()
                self.look()
                wait_s = max(TURN_S, (boot_ms() - began_ms) * TURNS_PART / 1000)
        except Exception:  # the thread's main: log and stop
            log.exception("troubles are not looked for any more after an error that should not be")


def _ends_term(record: Record) -> bool:
    return record.get("kind") == "term" and record.get("event") == "resigned"


def _slim(record: Record) -> Record:
    """Without what no rule here looks at."""
    if record["kind"] != "rebalance":
        return record
    stops = [
        {"member": member, "option": option, "ms": ms}
        for member, option, ms in steps_of(record)
        if option == Option.STOP.value
    ]
    kept = ("t", "kind", "cause", "trigger", "duration_ms", "members")
    return {**{key: record[key] for key in kept if key in record}, "steps": stops}


def _weight(value: object) -> int:
    """Of what is kept, in characters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return ENTRY_CHARS + sum(_weight(one) for one in value.values())
    return ENTRY_CHARS + sum(map(_weight, value)) if isinstance(value, list) else 8


def _told(trouble: Trouble, event: str, now: int) -> dict[str, object]:
    found: dict[str, object] = {
        "t": now,
        "kind": "trouble",
        "group": trouble.group,
        "event": event,
        "trouble": trouble.kind.value,
        "member": trouble.member,
        "since_ms": trouble.since_ms,
        "evidence": trouble.evidence,
        "remedy": trouble.remedy,
        "link": trouble.link,
    }
    return {key: value for key, value in found.items() if text(found, key) or value}
