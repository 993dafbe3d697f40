"""The coordinator's picture of ZooKeeper: watch first, then read; an event is a hint, a decision
uses only what was read.

Watch events only mark what to read (`Want`). `flush`, called once the queue of events is drained,
asks for ONE multiRead of everything marked; the answers become one delta per group. With a command
the owner nodes of its partitions are read, with a registration those of its session.

Why an event for a path that is being read right now marks nothing: ZooKeeper sends a session its
events and answers in one order, so an event that arrives before an answer happened before that
answer was made: an ack of 24 partitions costs one read.

A whole group, or the whole world at the start of a term, is read by a *sweep*: level by level
(children, registrations and channels, commands, and only then owner nodes), at most
`READS_PER_REQUEST_MAX` reads a request, a slice of the groups after the other. Events during a
sweep mark, and are read after it; what is marked of other groups is read beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from zkcoord.core.events import (
    Event,
    GroupChanged,
    GroupDelta,
    GroupGone,
    GroupLeftAlone,
    GroupUnread,
    Ready,
    TopicsChanged,
)
from zkcoord.core.model import Malformed, Topic, TopicPartition
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    Change,
    Children,
    Denied,
    Fired,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
    WatchMode,
    reads_that_fit,
)
from zkcoord.zk.term.work_meter import WorkMeter
from zkcoord.znodes import names, places
from zkcoord.znodes.matching import PatternMatches
from zkcoord.znodes.paths import Layout

from . import answers
from .answers import Delta
from .full_read import BAD_NAME, FullRead
from .group_acls import GroupJudge
from .group_draft import GroupRead
from .pending_reads import PendingReads, SizeLimits, Sizes, Want, read_of
from .read_ahead import ReadAhead, heard_elsewhere, unwatch_group, watch_group
from .wildcards import Matches, Wildcards

GROUPS_PER_SLICE = 500
SLICES_UNDER_WAY_MAX = 2
"""ZooKeeper reads one while the other, still in the processor's cache, is decoded and taken."""
IGNORED_GROUPS_MAX = 64
COUNTED = (places.RegistrationAt, places.ChannelAt, places.CommandAt, places.OwnerAt)

RelatedPartitions = Callable[[str, str, str], Iterable[TopicPartition]]


class Mirror:
    """Reads one session's view of the world into events for the core.

    `emit` takes the events; `related(group, member, node)` names the partitions of a command that
    is known (`node` given) or those that a member owns (`node` empty); `before` is the mirror of
    the same term's last connection: what it knew and is gone must be told, too; `epoch` is this
    term's: commands that it wrote itself are not read back; `clock` gives ms; `limits` say how much
    of a group is read, `reads_max` how much is asked for at once, `groups_per_slice` how many
    groups are read together. `matches` remembers what patterns match, from one connection to the
    next; `meter` counts what is done for whom, and knows who rests; `may_be_led` is to say in which
    groups nobody may be assigned beside clients; `ahead` has read them before. `lost()` must be
    called when the session is suspended; a new `Mirror` is made for a new connection.
    """

    def __init__(
        self,
        port: Port,
        layout: Layout,
        epoch: int,
        clock: Callable[[], int],
        emit: Callable[[Event], None],
        related: RelatedPartitions,
        before: Mirror | None = None,
        limits: SizeLimits = SizeLimits(),
        reads_max: int = READS_PER_REQUEST_MAX,
        groups_per_slice: int = GROUPS_PER_SLICE,
        roles: Roles | None = None,
        matches: PatternMatches | None = None,
        meter: WorkMeter | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        self.port = port
        self.own_prefix = f"{epoch}-"
        self.layout = layout
        self.clock = clock
        self.emit = emit
        self.related = related
        self.judge = GroupJudge(port, layout, roles, self._leave_alone) if roles else None
        self.wants = PendingReads()
        self.limits = limits
        self.reads_max = reads_max
        self.sizes = Sizes(limits)
        self.left_alone: set[str] = set()
        self.ignored: list[str] = []
        self.inflight: frozenset[Want] = frozenset()
        self.sweeps: dict[str, None] = {}
        self.groups_per_slice = groups_per_slice
        self.unswept: list[Sequence[str]] = []
        self.slices = 0
        self.asking = self.dead = self.begun = False
        self.sweeping: frozenset[str] = frozenset()
        self.may_be_led: Callable[[str], bool] = lambda group: False
        self.known: set[str] = set()
        self.topics: dict[str, Topic] = dict(before.topics) if before is not None else {}
        self.sweeps.update(dict.fromkeys(before.known if before is not None else ()))
        self.watched_topics: set[str] = set()
        self.meter = meter if meter is not None else WorkMeter()
        self.wildcards = Wildcards(matches if matches is not None else PatternMatches())
        self.ahead = ahead

    # the beginning

    def begin(self) -> None:
        """Watch, sync, read everything, then emit `Ready`."""
        for path in self.layout.watch_roots():
            self.port.watch(path, WatchMode.RECURSIVE, heard_elsewhere)
        self.port.watch(self.layout.topics_root, WatchMode.PERSISTENT, heard_elsewhere)
        self.asking = True
        self.port.sync(self._synced)

    def _synced(self, result: ReadResult) -> None:
        self.asking = False
        if isinstance(result, ReadDone) and not self.dead:
            self._ask([Want("topics"), Want("groups")])

    def lost(self) -> None:
        """The connection is gone: answers still to come mean nothing."""
        self.dead = True

    # marking

    def fired(self, event: Fired) -> None:
        """A watch saw something."""
        if self.ahead is not None:
            self.ahead.fired(event)
        if self.left_alone and self.layout.group_above(event.path) in self.left_alone:
            return  # not ignored yet, or not by the port
        where = self.layout.locate(event.path)
        self.meter.works_for(getattr(where, "group", ""))
        counts = event.change in (Change.CREATED, Change.DELETED)
        if counts and isinstance(where, COUNTED) and not self._fits(where, event.change):
            return
        if not answers.can_be_read(where):
            self._name_is_all(where, event.change)
        elif isinstance(where, places.RegistrationAt):
            self._mark_member(where.group, where.member)
        elif isinstance(where, places.CommandAt):
            # the write's own outcome says so
            own = event.change is Change.CREATED and where.node.startswith(self.own_prefix)
            if event.change is not Change.DATA and not own:
                self._mark_command(where.group, where.member, where.node)
        elif isinstance(where, places.OwnerAt):
            self._mark(Want("owner", where.group, tp=where.partition))
        elif isinstance(where, (places.RequestAt, places.ModeAt)):
            self._word(where, event.change)
        elif isinstance(where, places.ChannelAt):
            if event.change is Change.DELETED:
                self._mark(Want("channel", where.group, where.member))
        elif isinstance(where, places.GroupAt):
            if event.change is not Change.DATA:
                self._unread(where.group)
        elif isinstance(where, places.TopicsAt):
            self._mark(Want("topics"))
        elif isinstance(where, places.TopicAt):
            self._mark(Want("topic", node=where.topic))

    def _word(self, where: places.RequestAt | places.ModeAt, change: Change) -> None:
        """An operator's. With roles, who can have made it is asked with the whole group."""
        if self.judge is not None and change is not Change.DELETED:
            return self._unread(where.group)
        node = where.node if isinstance(where, places.RequestAt) else ""
        self._mark(Want("request" if node else "mode", where.group, node=node))

    def _fits(
        self,
        where: places.RegistrationAt | places.ChannelAt | places.CommandAt | places.OwnerAt,
        change: Change,
    ) -> bool:
        """Count a node of a group; False where it may be too large now: a whole read says so."""
        if where.group in self.known and self.sizes.grew(
            where.group,
            1 if change is Change.CREATED else -1,
            isinstance(where, places.RegistrationAt),
        ):
            self._follow_no_more(where.group)
            self._ignore()
            self._unread(where.group)
            return False
        return True

    def _name_is_all(self, where: places.Where, change: Change) -> None:
        """A node with a name that it cannot have: it is not read, and a registration is named for
        it (a whole read names the others).
        """
        if isinstance(where, places.RegistrationAt) and where.group in self.known and self.begun:
            name = names.kept(where.member)
            gone = change is Change.DELETED
            value = None if gone else Malformed("registration", name, BAD_NAME)
            self._emit_group(where.group, GroupDelta(members={name: value}))

    def _follow_no_more(self, group: str) -> None:
        self.left_alone.add(group)
        self.wants.drop(group)

    def _ignore(self) -> None:
        """The floods of events of groups that are left alone must cost next to nothing. Each event
        is compared with all of these, so of very many some are heard.
        """
        groups = sorted(self.left_alone)[:IGNORED_GROUPS_MAX]
        if groups != self.ignored:
            self.ignored = groups
            self.port.ignore([path for group in groups for path in self.layout.group_roots(group)])

    def _mark(self, want: Want) -> None:
        if want.group and want.group not in self.known:
            self._unread(want.group)
        elif want not in self.inflight and want.group not in self.left_alone:
            self.wants.add(want)

    def _unread(self, group: str) -> None:
        """A group to read as a whole. The core says when: not while a write of it is under way."""
        if self.begun:
            self.emit(GroupUnread(self.clock(), group))
        else:
            self.sweeps[group] = None

    def _mark_member(self, group: str, member: str) -> None:
        if self.may_be_led(group):
            return self._unread(group)
        self._mark(Want("registration", group, member))
        self._mark(Want("channel", group, member))
        for tp in self.related(group, member, ""):
            self._mark(Want("owner", group, tp=tp))

    def _mark_command(self, group: str, member: str, node: str) -> None:
        self._mark(Want("command", group, member, node))
        for tp in self.related(group, member, node):
            self._mark(Want("owner", group, tp=tp))

    def look_again(self, group: str) -> None:
        """No client leads it any more."""
        if group in self.known:
            self._unread(group)

    def read_group(self, group: str) -> None:
        """Read all of a group (after a sync), then emit `GroupChanged(full)`. Only when the core
        asks: no write of the group may be under way.
        """
        self.sweeps[group] = None

    # reading

    @property
    def busy(self) -> bool:
        """Whether a read is under way."""
        return self.asking or self.slices > 0

    @property
    def due(self) -> bool:
        """Whether `flush` has something to do now."""
        return not self.dead and (self.wildcards.due or self._may_ask or self._may_sweep)

    @property
    def _may_ask(self) -> bool:
        return self.begun and not self.asking and not self.dead and self.wants.ready(self._held)

    @property
    def _may_sweep(self) -> bool:
        free = self.begun and not self.slices and not self.dead
        return free and not all(map(self.meter.rests, self.sweeps))

    def _held(self, group: str) -> bool:
        """Whether what is marked of a group is not to be read now."""
        return group in self.sweeping or self.meter.rests(group)

    @property
    def waits(self) -> bool:
        """Whether a group that rests is to be read."""
        return self.begun and any(map(self.meter.rests, (*self.wants.groups, *self.sweeps)))

    def flush(self) -> None:
        """Once in each turn of the loop: match for a while, and ask for what is marked, unless a
        request is under way.
        """
        if not self.dead:
            self._matched(self.wildcards.turn())
        self._ask_on()

    def _ask_on(self) -> None:
        """Whole reads and what is marked of other groups are asked for side by side: a group that
        changes all the time keeps neither from its turn, and a long read holds up nobody else.
        """
        if self._may_ask:
            self._ask(self.wants.take(self.reads_max, self._held, self.meter.is_heavy))
        if self._may_sweep:
            self._sweep(sorted(g for g in self.sweeps if not self.meter.rests(g)))

    def _sweep(self, groups: Sequence[str]) -> None:
        self.sweeping = frozenset(groups)
        for group in groups:
            self.sweeps.pop(group, None)
            self.sizes.drop(group)
            ahead = self.ahead is not None and self.ahead.has_watched(group)
            if not ahead and group not in self.known:
                watch_group(self.port, self.layout, group)
        self.known.update(groups)
        self.left_alone.difference_update(groups)
        self._ignore()
        size = self.groups_per_slice
        self.unswept = [groups[at : at + size] for at in range(0, len(groups), size)] or [()]
        for _ in range(SLICES_UNDER_WAY_MAX):
            self._next_slice()

    def _next_slice(self) -> None:
        if self.unswept:
            self.slices += 1
            groups = self.unswept.pop(0)
            FullRead(
                self.port,
                self.layout,
                groups,
                self.limits,
                self.reads_max,
                self._swept,
                self.judge,
                self.meter.works_for,
                self.may_be_led,
                self.ahead.take(groups) if self.ahead is not None else {},
            ).begin()

    def _swept(self, groups: Mapping[str, GroupRead]) -> None:
        if self.dead:
            return
        self.slices -= 1
        self._next_slice()  # it is read while this one is taken
        for group, read in groups.items():
            if read.left_alone is not None:
                self._leave_alone(group, read.left_alone)
            elif read.delta is None:
                self._group_gone(group)
            else:
                self._emit_group(group, read.delta)
                if self.sizes.read(group, read.registrations, read.nodes):
                    self._follow_no_more(group)
                    self._unread(group)
        self._ignore()
        if self.slices:
            return
        self.sweeping = frozenset()
        if not self.begun:
            self.begun, self.ahead = True, None
            late, self.sweeps = list(self.sweeps), {}
            # marked while the world was read: like any other whole read, when the core asks, or it
            # would overlap a write (seed 405052481827)
            for group in late:
                self._unread(group)
            self.emit(Ready(self.clock()))
        self._ask_on()

    def _leave_alone(self, group: str, why: Malformed) -> None:
        if not self.dead and group in self.known:
            self._follow_no_more(group)
            self.wildcards.forget(group)
            self.emit(GroupLeftAlone(self.clock(), group, why))

    def _ask(self, wants: Sequence[Want]) -> None:
        self.asking = True
        reads = [read_of(self.layout, want) for want in wants]
        count = reads_that_fit(reads, self.reads_max)
        for want in wants[count:]:
            self.wants.add(want)
        asked = wants[:count]
        self.inflight = frozenset(asked)
        self.port.read(reads[:count], lambda result: self._answered(asked, result))

    def _answered(self, wants: Sequence[Want], result: ReadResult) -> None:
        if self.dead or not isinstance(result, ReadDone):
            return
        self.asking, self.inflight = False, frozenset()
        deltas: dict[str, Delta] = {}
        topics: dict[str, Topic | Malformed | None] = {}
        working_for = ""
        for want, answer in zip(wants, result.answers, strict=False):
            if want.group != working_for:
                working_for = want.group
                self.meter.works_for(working_for)
            if want.kind == "topic":
                topics[want.node] = answers.topic_of(answer, want.node)
            elif want.kind == "topics":
                topics.update(self._topic_names(answer))
            elif want.kind == "groups":
                if isinstance(answer, Children):
                    self.sweeps.update(dict.fromkeys(g for g in answer.names if names.is_group(g)))
            else:
                self._take(deltas.setdefault(want.group, Delta()), want, answer)
        if topics:
            self._emit_topics(topics)
        for group, delta in deltas.items():
            self._emit_group(group, delta.build())
        self._continue()

    def _continue(self) -> None:
        if self.begun:
            self._ask_on()
        elif self.wants:
            self._ask(self.wants.take(self.reads_max))
        elif not self.dead:
            self._sweep(sorted(self.sweeps))

    def _take(self, delta: Delta, want: Want, answer: ReadAnswer) -> None:
        if want.kind == "registration":
            delta.members[want.member] = answers.member_of(answer, want.member)
        elif want.kind == "command":
            delta.commands[(want.member, want.node)] = answers.command_of(
                answer, want.member, want.node
            )
        elif want.kind == "owner":
            delta.owners[want.tp] = answers.owner_of(answer, want.tp)
        elif want.kind == "request":
            delta.requests[want.node] = answers.request_of(answer, want.node)
        elif want.kind == "mode":
            delta.mode["mode"] = answers.mode_of(answer)
        elif want.kind == "channel":
            there = isinstance(answer, Children)
            delta.channels[want.member] = there
            for node in answer.names if isinstance(answer, Children) else ():
                self._mark_command(want.group, want.member, node)

    # topics

    def _topic_names(self, answer: ReadAnswer) -> dict[str, Topic | Malformed | None]:
        if isinstance(answer, Denied):
            return {}  # what is hidden, or too large, is not gone
        # of very many hardly any are new: only these are looked at
        present = set(answer.names) if isinstance(answer, Children) else set()
        for name in sorted(self.watched_topics - present):
            self.watched_topics.remove(name)
            self.port.unwatch(self.layout.topic(name), heard_elsewhere)
        for name in sorted(n for n in present - self.watched_topics if names.is_topic(n)):
            self.watched_topics.add(name)
            self.port.watch(self.layout.topic(name), WatchMode.PERSISTENT, heard_elsewhere)
            self.wants.add(Want("topic", node=name))
        return dict.fromkeys(sorted(self.topics.keys() - present))

    def _emit_topics(self, topics: Mapping[str, Topic | Malformed | None]) -> None:
        for name, topic in topics.items():
            if isinstance(topic, Topic):
                self.topics[name] = topic
            elif topic is None:
                self.topics.pop(name, None)
        self.emit(TopicsChanged(self.clock(), topics, self.wildcards.topics_are(self.topics)))
        self._matched({})

    def _matched(self, matches: Matches) -> None:
        """Wildcards were matched: tell, and name the members whose pattern is refused."""
        for group, spent_ns in self.wildcards.take_spent_ns().items():
            self.meter.charge(group, spent_ns)
        if matches:
            self.emit(TopicsChanged(self.clock(), {}, matches))
        for group, delta in self.wildcards.take_refused():
            self.emit(GroupChanged(self.clock(), group, delta))

    # groups

    def _emit_group(self, group: str, delta: GroupDelta) -> None:
        self.meter.works_for("")  # matching is counted apart
        delta, matches = self.wildcards.group(group, delta)
        self.emit(GroupChanged(self.clock(), group, delta, matches))
        self._matched({})

    def _group_gone(self, group: str) -> None:
        """Its watches go, too: names of groups come and go for as long as a session lasts. When it
        comes again it is watched again before it is read.
        """
        self.known.discard(group)
        unwatch_group(self.port, self.layout, group)
        self.wants.drop(group)
        self.left_alone.discard(group)
        self.sizes.drop(group)
        self.wildcards.forget(group)
        self.emit(GroupGone(self.clock(), group))
