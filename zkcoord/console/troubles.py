"""Which groups are in trouble, for the list of all: by the journals and commits at each look, and
by the nodes of each group in turn, as many as a look has time for. A group's page looks at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

from zkcoord.console.happenings import Happenings
from zkcoord.errors import UnavailableError, UnknownGroupError
from zkcoord.health.evidence_of import evidence_of
from zkcoord.health.rules import GroupHealth, HealthVerdict
from zkcoord.health.trouble.kinds import Trouble
from zkcoord.health.trouble.rules import BY_COMMITS, BY_JOURNAL, BY_NODES, troubles_of
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.sync.led_groups import describe_any_group
from zkcoord.znodes.paths import Layout

JUDGED_MS_MAX = 200
READ_MS_MAX = 100
"""Of one look, so that the list of groups does not wait for this: what is left over is the next
look's.
"""

AGAIN_MS = 60_000
"""That a trouble is over shows by time alone."""

Found = Mapping[str, tuple[Trouble, ...]]


class Troubles:
    """See the module. `heard`: any thread; `look`: one."""

    def __init__(self, happenings: Happenings, layout: Layout) -> None:
        self._happenings = happenings
        self._layout = layout
        self._lock = threading.Lock()
        self._heard: dict[str, None] = {}
        self._judged: dict[str, list[Trouble]] = {}
        self._judged_ms: dict[str, int] = {}
        self._by_nodes: dict[str, list[Trouble]] = {}
        self._next = ""

    def heard(self, groups: frozenset[str]) -> None:
        """Something new of these is in a journal."""
        with self._lock:
            self._heard.update(dict.fromkeys(groups))

    def look(
        self, reader: SyncClient, names: Sequence[str], health: Sequence[GroupHealth]
    ) -> Found:
        """By group, those that have some."""
        there = set(names)
        for known in (self._judged, self._judged_ms, self._by_nodes):
            for gone in known.keys() - there:
                del known[gone]
        self._judge(there, {one.group: one for one in health})
        self._read(reader, names)
        return {
            name: found
            for name in there
            if (found := (*self._judged.get(name, ()), *self._by_nodes.get(name, ())))
        }

    def _judge(self, there: set[str], health: Mapping[str, GroupHealth]) -> None:
        until_ms = boot_ms() + JUDGED_MS_MAX
        for name in self._due(there, health):
            with self._lock:
                self._heard.pop(name, None)
            evidence = evidence_of(name, self._happenings.of(name), None, health.get(name))
            self._judged[name] = troubles_of(evidence, (*BY_JOURNAL, *BY_COMMITS))
            self._judged_ms[name] = boot_ms()
            if boot_ms() >= until_ms:
                return

    def _due(self, there: set[str], health: Mapping[str, GroupHealth]) -> Iterator[str]:
        """Groups with news, then those whose verdict or troubles may have changed."""
        with self._lock:
            heard = [name for name in self._heard if name in there]
            self._heard = dict.fromkeys(heard)
        yield from heard
        now = boot_ms()
        waiting = [
            name
            for name in there - set(heard)
            if (self._judged.get(name) and now - self._judged_ms.get(name, 0) >= AGAIN_MS)
            or ((one := health.get(name)) is not None and _may_stand(one))
        ]
        yield from sorted(waiting, key=lambda name: self._judged_ms.get(name, 0))

    def _read(self, reader: SyncClient, names: Sequence[str]) -> None:
        until_ms = boot_ms() + READ_MS_MAX
        ordered = sorted(names)
        after = [name for name in ordered if name > self._next]
        for name in (*after, *ordered[: len(ordered) - len(after)]):
            self._next = name  # whatever comes of it, the others have their turn
            try:
                snapshot = describe_any_group(reader, self._layout, name)
            except (UnknownGroupError, UnavailableError):
                # it has gone, or somebody's ACL hides a part of it: that is said on its own page.
                # That nobody answers is seen by who lists all groups
                self._by_nodes.pop(name, None)
            else:
                self._by_nodes[name] = troubles_of(evidence_of(name, (), snapshot), BY_NODES)
            if boot_ms() >= until_ms:
                return


def _may_stand(one: GroupHealth) -> bool:
    """Whether commits say more than that all is well."""
    return one.verdict not in (HealthVerdict.OK, HealthVerdict.NOTFOUND) or bool(one.lag)
