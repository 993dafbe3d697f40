"""The coordinator's core: all groups, one fair queue, no I/O.

`step(event)` takes what was read, how a write ended, or the time, and says what to do. It is the
draft's coordinator in another shape:

* `groupsBeingRebalanced` (compare-and-set) is the set of dirty groups: a group is queued once,
  however often it changes;
* `rebalanceRequestQ` is the queue of dirty groups, in which each pays for the time that was spent
  on it (`filing.fair_queue`), with a cap on the groups whose write is under way: a bad group costs
  the others one slot at most. A step decides groups of `weight_per_step_max` partitions and members
  together, or one group; what is left waits for the next;
* `consumer_groups_per_topic` and `groups_with_wildcard_topics` say which groups a topic's change
  concerns; wildcards are matched outside, with a safe engine.

Contracts: after `Elected`, groups and topics are fed in any order and nothing is decided before
`Ready`. For each `Write` exactly one `Written` comes back. After an outcome that is not OK the
group is read again (sync first) before it is decided again. Deterministic: the same events give the
same actions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Set

from zkcoord.core.group.machine import Group

from .events import (
    Action,
    AssignorAnswered,
    Elected,
    Event,
    GroupChanged,
    GroupGone,
    GroupLeftAlone,
    GroupUnread,
    Outcome,
    Paused,
    ReadGroup,
    Ready,
    Record,
    Resign,
    Spent,
    Tick,
    TopicsChanged,
    Write,
    WriteOp,
    Written,
)
from .filing.fair_queue import FairQueue
from .filing.topic_index import TopicIndex
from .model import Cause, Command, Malformed, Owner, Pattern, Registrants, Topic, TopicPartition
from .options import CoordinatorOptions
from .target import TargetInput
from .value_type import assert_never

WAKES_STALE_MAX = 1_000


class Coordinator:
    """The core of one coordinator process. Between terms it is empty. `works_for(group)` is told
    for whom the work is done that follows ("": for nobody); what it took comes back as `Spent`.
    """

    def __init__(
        self,
        options: CoordinatorOptions,
        works_for: Callable[[str], None] = lambda group: None,
    ) -> None:
        self.options = options
        self.works_for = works_for
        self.epoch = 0
        self._clear()

    def _clear(self) -> None:
        self.leading = False
        self.ready = False
        self.begun = False
        self.world = TargetInput()
        self.groups: dict[str, Group] = {}
        self.index = TopicIndex()
        self.consumer_groups_per_topic = self.index.groups_of_topic
        self.groups_with_wildcard_topics = self.index.groups_of_pattern
        self.queue = FairQueue()
        self.now_ms = 0
        # when what the last step left is to be decided
        self.more_at_ms: int | None = None
        self.writing: dict[str, tuple[int, tuple[WriteOp, ...]]] = {}
        self.unread: set[str] = set()
        self.reading: set[str] = set()
        self.wakes: list[tuple[int, str]] = []
        self.wake_of: dict[str, int] = {}
        self.malformed_topics: dict[str, Malformed] = {}
        self.left_alone: dict[str, Malformed] = {}
        self.token = 0
        self.seq = 0

    def step(self, event: Event) -> list[Action]:
        """One event in, actions out, in the order in which they are to be taken."""
        actions: list[Action] = []
        if isinstance(event, Elected):
            return self._elected(event)
        if not self.leading:
            return actions
        self.now_ms = event.now_ms
        self.works_for(getattr(event, "group", ""))
        match event:
            case TopicsChanged():
                self._topics(event, actions)
            case GroupChanged():
                self._group(event)
            case GroupGone():
                self._gone(event)
            case GroupUnread():
                self.unread.add(event.group)
                self._enqueue(event.group)
            case GroupLeftAlone():
                self._left_alone(event, actions)
            case Ready():
                self._begin(event.now_ms)
            case Paused():
                self.ready = False
            case Written():
                self._written(event, actions)
            case AssignorAnswered():
                self._answered(event)
            case Spent():
                self._spent(event)
            case Tick():
                pass
            case _:
                assert_never(event)
        if self.leading:
            self._wake(event.now_ms)
            self._serve(event.now_ms, actions, idle=isinstance(event, Tick))
        self.works_for("")
        return actions

    def _elected(self, event: Elected) -> list[Action]:
        self._clear()
        self.leading, self.epoch = True, event.epoch
        detail: dict[str, object] = {"event": "elected", "epoch": event.epoch}
        if self.options.older_lease_ms > self.options.lease_max_ms:
            detail["older_lease_ms"] = self.options.older_lease_ms
        return [Record("term", "", detail)]

    def related(self, group: str, member: str, node: str) -> Iterable[TopicPartition]:
        """What changes together with a command (`node`), or with a registration."""
        known = self.groups.get(group)
        if known is None:
            return ()
        if node:
            command = known.view.commands.get(member, {}).get(node)
            return command.partitions if isinstance(command, Command) else ()
        return known.view.held_by(member)

    def registered(self, group: str) -> Registrants:
        """Who is in a group. While there are owner nodes their sessions' members may believe that
        they are, though nobody is registered.
        """
        known = self.groups.get(group)
        if known is None:
            return Registrants.NOBODY
        if not known.view.members:
            owners = known.view.owners.values()
            held = any(isinstance(one, Owner) and one.session for one in owners)
            return Registrants.LEAVING if held else Registrants.NOBODY
        staying = [one for one in known.view.members.values() if not one.wants_nothing]
        if not staying:
            return Registrants.LEAVING
        clients = all(one.gateway for one in staying)
        return Registrants.CLIENTS if clients else Registrants.MEMBERS

    def next_wake_ms(self) -> int | None:
        """When a `Tick` may have something to do; None = never."""
        times = [at for at in (self._first_wake_ms(), self.more_at_ms) if at is not None]
        return min(times, default=None)

    def _first_wake_ms(self) -> int | None:
        while self.wakes and self.wake_of.get(self.wakes[0][1]) != self.wakes[0][0]:
            heapq.heappop(self.wakes)
        return self.wakes[0][0] if self.wakes else None

    # what was read

    def _topics(self, event: TopicsChanged, actions: list[Action]) -> None:
        dirty: dict[str, Cause] = {}
        for name, topic in event.topics.items():
            self._one_topic(name, topic, dirty, actions)
        self._matched(event.matches, dirty)
        self._retarget(event.now_ms, dirty)

    def _matched(self, matches: Mapping[Pattern, frozenset[str]], dirty: dict[str, Cause]) -> None:
        """Wildcards were matched anew; a group whose matches changed needs a new target, whatever
        was read to find out. A topic that was not matched for a moment may be another one now.
        """
        for pattern, names in matches.items():
            before = self.world.matches.get(pattern)
            if before != names:
                self.world.matches[pattern] = names
                others = names.symmetric_difference(before or ())
                for group in self.groups_with_wildcard_topics.get(pattern, ()):
                    self.groups[group].view.refile_topics(others)
                    dirty.setdefault(
                        group, Cause("topics matched by a wildcard changed", pattern.regex)
                    )

    def _retarget(self, now_ms: int, dirty: Mapping[str, Cause]) -> None:
        for group in sorted(dirty):
            self.groups[group].wants_target(now_ms, dirty[group])
            self._enqueue(group)

    def _one_topic(
        self,
        name: str,
        topic: Topic | Malformed | None,
        dirty: dict[str, Cause],
        actions: list[Action],
    ) -> None:
        before = self.world.topics.get(name)
        if isinstance(topic, Malformed):
            if self.malformed_topics.get(name) != topic:
                actions.append(Record("malformed", "", topic.shown()))
            self.malformed_topics[name] = topic
            return
        self.malformed_topics.pop(name, None)
        if topic == before:
            return
        if topic is None:
            self.world.topics.pop(name, None)
            reason = "topic deleted"
        else:
            self.world.topics[name] = topic
            reason = "topic created" if before is None else "partitions changed"
        for group in self.groups_of_topic(name):
            self.groups[group].view.refile_topics({name})
            dirty.setdefault(group, Cause(reason, name))

    def groups_of_topic(self, name: str) -> set[str]:
        """Whose members name a topic, or a wildcard that matches it."""
        found = set(self.consumer_groups_per_topic.get(name, ()))
        for pattern, groups in self.groups_with_wildcard_topics.items():
            if name in self.world.matches.get(pattern, ()):
                found |= groups
        return found

    def _group(self, event: GroupChanged) -> None:
        group = self.groups.get(event.group)
        if group is None:
            group = self.groups[event.group] = Group(
                event.group, self.options, self.epoch, self.world, self._next_seq, self._next_token
            )
        dirty: dict[str, Cause] = {}
        self._matched(event.matches, dirty)
        self.left_alone.pop(event.group, None)
        if event.delta.full:
            self.reading.discard(event.group)
        group.changed(event.now_ms, event.delta)
        if event.delta.members or event.delta.full:
            known = self.index.members(event.group) if event.delta.full else ()
            self._index(event.group, {*known, *event.delta.members})
        self._retarget(event.now_ms, dirty)
        self._enqueue(event.group)

    def _gone(self, event: GroupGone) -> None:
        self.left_alone.pop(event.group, None)
        self._forget(event.group)

    def _forget(self, name: str) -> None:
        """Nothing is known of a group any more."""
        self.reading.discard(name)
        if name in self.unread:
            self._enqueue(name)
        self.groups.pop(name, None)
        self._index(name, {*self.index.members(name)})
        self.wake_of.pop(name, None)

    def _left_alone(self, event: GroupLeftAlone, actions: list[Action]) -> None:
        """Leave a group alone, say so once, and look at it again later."""
        if event.group not in self.left_alone:
            actions.append(Record("malformed", event.group, event.why.shown()))
        self.left_alone[event.group] = event.why
        self._forget(event.group)
        self._wake_at(event.group, event.now_ms + self.options.left_alone_retry_ms)

    def _begin(self, now_ms: int) -> None:
        self.ready = True
        # all groups were read; one that went meanwhile, and was never known, is told by nothing
        # else
        self.reading.clear()
        if self.begun:
            return  # the same term after a reconnect: what was remembered still holds
        self.begun = True
        for group in self.groups.values():
            if (
                group.view.members
                or group.view.owners
                or group.view.commands
                or group.static_members.promises
            ):
                group.take_over(now_ms)

    def _index(self, name: str, members: Set[str]) -> None:
        """Which topics and wildcards concern this group, as these members name them now."""
        group = self.groups.get(name)
        now = group.view.members if group is not None else {}
        away = group.static_members.topics_away() if group is not None else set()
        named = self.index.take(name, members, now, away)
        # of these nothing was filed while nobody named them: they may have been made again
        for pattern in named.patterns:
            named.topics |= self.world.matches.get(pattern, frozenset())
        if named.topics and group is not None:
            group.view.refile_topics(named.topics)
        for pattern in named.unused:
            self.world.matches.pop(pattern, None)

    # how writes end

    def _written(self, event: Written, actions: list[Action]) -> None:
        token, ops = self.writing.get(event.group, (-1, ()))
        if token != event.token:
            return
        del self.writing[event.group]
        group = self.groups.get(event.group)
        if event.outcome is Outcome.FENCED:
            self.leading = False
            actions.append(Resign(f"fenced: another epoch than {self.epoch} is in force"))
            return
        if group is None:
            return self._enqueue(event.group) if event.group in self.unread else None
        if event.outcome is Outcome.OK:
            group.wrote(event.now_ms, ops, event.nodes)
        else:
            group.refused(event.now_ms, event.outcome is Outcome.UNKNOWN)
            self.reading.add(event.group)
            actions.append(
                ReadGroup(
                    event.group,
                    f"{event.outcome.value}: {event.why}" if event.why else event.outcome.value,
                )
            )
        self._enqueue(event.group)

    def _answered(self, event: AssignorAnswered) -> None:
        group = self.groups.get(event.group)
        if group is not None:
            group.answered(event.now_ms, event.token, event.answer, event.failure)
            self._enqueue(event.group)

    # the queue

    def _next_token(self) -> int:
        self.token += 1
        return self.token

    def _next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def _spent(self, event: Spent) -> None:
        for group, us in event.groups.items():
            self.queue.charge(group, us, event.now_ms)

    def _enqueue(self, group: str) -> None:
        self.queue.add(group, self.now_ms)

    def _wake(self, now_ms: int) -> None:
        while (at_ms := self._first_wake_ms()) is not None and at_ms <= now_ms:
            _, name = heapq.heappop(self.wakes)
            del self.wake_of[name]
            if name in self.left_alone:
                self.unread.add(name)
            self._enqueue(name)

    def _serve(self, now_ms: int, actions: list[Action], idle: bool) -> None:
        """Decide dirty groups in order while slots are free. A group whose write or read is under
        way is decided when that ends. `idle`: no other event waits.
        """
        self.more_at_ms = None
        if not self.ready:
            return
        weight = 0
        while len(self.writing) < self.options.groups_in_flight_max:
            if weight >= self.options.weight_per_step_max:
                break
            name = self.queue.take(now_ms, idle)
            if name is None:
                break
            weight += self._decide(name, now_ms, actions)
        if len(self.writing) < self.options.groups_in_flight_max:
            self.more_at_ms = self.queue.ready_at_ms(now_ms)

    def _decide(self, name: str, now_ms: int, actions: list[Action]) -> int:
        """Decide one group; returns its weight."""
        if name in self.unread and name not in self.writing and name not in self.reading:
            self.unread.discard(name)
            self.reading.add(name)
            why = (
                "it was left alone"
                if name in self.left_alone
                else "the group's node was made or deleted"
            )
            actions.append(ReadGroup(name, why))
            return 1
        group = self.groups.get(name)
        if group is None or name in self.writing or name in self.reading or self._unmatched(name):
            return 1
        self.works_for(name)
        ops = group.decide(now_ms)
        actions.extend(group.records)
        group.records = []
        if ops:
            token = self._next_token()
            self.writing[name] = (token, ops)
            actions.append(Write(name, token, ops))
        if group.unfinished:
            self._enqueue(name)
        self._schedule(name, group, now_ms)
        return group.weight

    def _unmatched(self, name: str) -> bool:
        """Whether a wildcard of it is still to be matched: it is decided when that is done."""
        return any(pattern not in self.world.matches for pattern in self.index.patterns(name))

    def _schedule(self, name: str, group: Group, now_ms: int) -> None:
        at_ms = group.next_wake_ms()
        if name in self.writing or at_ms is None:
            self.wake_of.pop(name, None)
            return
        self._wake_at(name, max(at_ms, now_ms + 1))

    def _wake_at(self, name: str, at_ms: int) -> None:
        if self.wake_of.get(name) != at_ms:
            self.wake_of[name] = at_ms
            heapq.heappush(self.wakes, (at_ms, name))
            if len(self.wakes) > 2 * len(self.wake_of) + WAKES_STALE_MAX:
                self.wakes = [(at, group) for group, at in self.wake_of.items()]
                heapq.heapify(self.wakes)

    def status(self) -> Mapping[str, object]:
        """Counters for metrics and the /groups page."""
        states: dict[str, int] = {}
        for group in self.groups.values():
            states[group.state.value] = states.get(group.state.value, 0) + 1
        return {
            "leading": self.leading,
            "epoch": self.epoch,
            "groups": len(self.groups),
            "states": states,
            "paused": sum(group.word.paused for group in self.groups.values()),
            "queue": len(self.queue),
            "writing": len(self.writing),
            "topics": len(self.world.topics),
            "malformed": (
                len(self.malformed_topics)
                + len(self.left_alone)
                + sum(len(g.view.malformed) for g in self.groups.values())
            ),
        }
