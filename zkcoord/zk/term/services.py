"""What a coordinator serves beside the groups of its core, while it is connected: nodes of groups
that members ask for, groups whose leader is a client, and topics.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from zkcoord.core.events import Record
from zkcoord.core.model import Registrants
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.classic.classic_groups import ClassicGroups
from zkcoord.zk.classic.figures import ClassicFigures, ClassicSeen
from zkcoord.zk.port import READS_PER_REQUEST_MAX, AclEntry, Check, Fired, Port
from zkcoord.zk.term.asked_groups import AskedGroups
from zkcoord.zk.term.topic_source import TopicSourceOf
from zkcoord.znodes.paths import Layout
from zkcoord.znodes.places import AskAt


class TermServices:
    """Of one connection of a term. `groups` counts those of the core, `registered` says who is in
    one; `record` takes what people should know, `fenced` that another coordinator leads, `figures`
    counts for all terms, `topics` serves with the topics that are `named` (None: with all).
    `cpu_ns` is the clock of the thread's work, `reads_max` how much is asked for at once,
    `freed` hears of groups that no client leads any more. `lost` must be called when the session is
    suspended.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        fence: int,
        acl: tuple[AclEntry, ...],
        roles: Roles | None,
        clock: Callable[[], int],
        record: Callable[[Record], None],
        fenced: Callable[[str], None],
        groups: Callable[[], int],
        registered: Callable[[str], Registrants],
        figures: ClassicFigures,
        topics: TopicSourceOf | None = None,
        named: Callable[[], frozenset[str] | None] = lambda: None,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        reads_max: int = READS_PER_REQUEST_MAX,
        freed: Callable[[str], None] = lambda group: None,
    ) -> None:
        self._topics = (
            topics(port, Check(layout.epoch, fence), named, record, fenced)
            if topics is not None
            else None
        )
        self._layout = layout
        self._asked = (
            AskedGroups(port, layout, fence, acl, roles, groups, record)
            if roles is not None
            else None
        )
        self.classic = ClassicGroups(
            port,
            layout,
            fence,
            acl,
            clock,
            record,
            fenced,
            registered,
            roles=roles,
            figures=figures,
            cpu_ns=cpu_ns,
            reads_max=reads_max,
            freed=freed,
        )

    def begin(self) -> None:
        """Look at what is asked for already. What changes is watched with the groups."""
        if self._asked is not None:
            self._asked.begin()
        self.classic.begin()
        if self._topics is not None:
            self._topics.begin()

    def lost(self) -> None:
        """The connection is gone: answers still to come mean nothing."""
        if self._asked is not None:
            self._asked.lost()
        self.classic.lost()
        if self._topics is not None:
            self._topics.lost()

    @property
    def topics_problem(self) -> str:
        """Why nothing new is heard of topics and brokers; "" where it is, or need not be."""
        return self._topics.problem if self._topics is not None else ""

    def groups_changed(self) -> None:
        """A group may name another topic."""
        if self._topics is not None:
            self._topics.groups_changed()

    def fired(self, event: Fired) -> bool:
        """Whether a change is one of what is served here."""
        if self._asked is not None and event.path.startswith(f"{self._layout.asks}/"):
            where = self._layout.locate(event.path)
            if isinstance(where, AskAt):
                self._asked.fired(where, event.change)
            return True
        return self.classic.fired(event)

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        topics = self._topics.next_wake_ms() if self._topics is not None else None
        times = (self.classic.next_wake_ms(), topics)
        return min((at for at in times if at is not None), default=None)

    def tick(self) -> None:
        """Do what is due."""
        self.classic.tick()
        if self._topics is not None:
            self._topics.tick()


def led_seen(services: TermServices | None, figures: ClassicFigures) -> ClassicSeen:
    """What there is of client-led groups; while nobody serves them, what was counted."""
    if services is not None:
        return services.classic.seen()
    return ClassicSeen(refused=dict(figures.refused), answered=figures.answered)
