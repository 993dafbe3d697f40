"""What a recording says about the world around the coordinator, apart from the coordinator's own
doing: who came, went and changed, and how long answers took.

From the first `Ready` on, only what the coordinator did not bring about is kept: registrations,
sessions' ends, topics, operators' requests, owner nodes of strangers. What followed from its
commands (acks, owner nodes, ends of writes, whole reads that it asked for) is left out, because it
would have been otherwise, and is kept as latencies instead.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from zkcoord.core import events as ev
from zkcoord.core.model import (
    Malformed,
    Member,
    Mode,
    Option,
    Owner,
    Pattern,
    Request,
    TopicPartition,
)
from zkcoord.core.value_type import value
from zkcoord.replay.group_world import OWNER_VERSION_OURS, GroupWorld
from zkcoord.replay.replay import Recording

SILENCE_BEFORE_MS = GONE_AFTER_MS = 1_000
ACK_DEFAULT_MS, WRITE_DEFAULT_MS, READ_DEFAULT_MS = 50, 5, 20


@value
class ExternalChange:
    """What others changed in a group. `ended`: sessions that closed, with all that they own."""

    now_ms: int
    group: str
    members: Mapping[str, Member | Malformed | None] = field(default_factory=dict)
    channels: Mapping[str, bool] = field(default_factory=dict)
    owners: Mapping[TopicPartition, Owner | Malformed | None] = field(default_factory=dict)
    requests: Mapping[str, Request | Malformed | None] = field(default_factory=dict)
    ended: tuple[int, ...] = ()
    matches: Mapping[Pattern, frozenset[str]] = field(default_factory=dict)
    mode: Mapping[str, Mode | Malformed | None] = field(default_factory=dict)


External = ExternalChange | ev.Event


@dataclass
class Learned:
    """The world of one recording. Latencies in ms."""

    inputs: list[External] = field(default_factory=list)
    end_ms: int = 0
    acks: dict[tuple[str, Option], list[int]] = field(default_factory=dict)
    writes: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    silent_from_ms: dict[str, int] = field(default_factory=dict)
    answered: list[tuple[ev.Assign, ev.AssignorAnswered, int]] = field(default_factory=list)

    def ack_ms(self, member: str, option: Option) -> int:
        """How long this member takes: the median of its acks of such commands, else of all its
        acks, else of everybody's.
        """
        own = self.acks.get((member, option)) or [
            ms for (name, _), found in self.acks.items() if name == member for ms in found
        ]
        return _median(
            own or [ms for (_, kind), found in self.acks.items() if kind is option for ms in found],
            ACK_DEFAULT_MS,
        )

    def answers(self, member: str, sent_ms: int) -> bool:
        """Whether a member carries out a command sent then. One that never answered its last one
        (it was evicted, or went, or the recording ended) is silent from a second before that on,
        but not before its last ack: nobody knows.
        """
        return sent_ms < self.silent_from_ms.get(member, sent_ms + 1)

    @property
    def write_ms(self) -> int:
        """From a write to its outcome."""
        return _median(self.writes, WRITE_DEFAULT_MS)

    @property
    def read_ms(self) -> int:
        """From the wish for a whole read to what it says."""
        return _median(self.reads, READ_DEFAULT_MS)


def _median(values: list[int], default: int) -> int:
    return max(1, round(statistics.median(values))) if values else default


def learn(recording: Recording) -> Learned:
    """Read a recording once. Raises `ReplayError`."""
    learner = _Learner()
    for step in recording.steps():
        learner.told(step.event)
        learner.said(step.event.now_ms, step.answers())
        learner.found.end_ms = step.event.now_ms
    learner.unanswered()
    return learner.found


class _Learner:
    def __init__(self) -> None:
        self.found = Learned()
        self.ready = False
        self.worlds: dict[str, GroupWorld] = {}
        self.writing: dict[tuple[str, int], tuple[int, ev.Write]] = {}
        self.reading: dict[str, int] = {}
        self.asked: dict[int, tuple[int, ev.Assign]] = {}
        self.sent: dict[tuple[str, str, str], tuple[int, Option]] = {}
        self.lingering: dict[int, str] = {}
        self.acked_ms: dict[str, int] = {}

    def said(self, now_ms: int, actions: list[ev.Action]) -> None:
        """What the coordinator did about it."""
        for action in actions:
            if isinstance(action, ev.Write):
                self.writing[(action.group, action.token)] = now_ms, action
            elif isinstance(action, ev.ReadGroup):
                self.reading[action.group] = now_ms
            elif isinstance(action, ev.Assign):
                self.asked[action.token] = now_ms, action

    def told(self, event: ev.Event) -> None:
        """One input."""
        match event:
            case ev.GroupChanged():
                self._changed(event)
            case ev.Written():
                self._written(event)
            case ev.AssignorAnswered():
                at_ms, question = self.asked.pop(event.token, (event.now_ms, None))
                if question is not None:
                    self.found.answered.append((question, event, event.now_ms - at_ms))
            case ev.Tick() | ev.Spent():
                pass
            case _:
                self.ready = self.ready or isinstance(event, ev.Ready)
                if isinstance(event, ev.GroupGone):
                    self.worlds.pop(event.group, None)
                self.found.inputs.append(event)

    def _written(self, event: ev.Written) -> None:
        at_ms, write = self.writing.pop((event.group, event.token), (event.now_ms, None))
        if write is None or event.outcome is not ev.Outcome.OK:
            return
        self.found.writes.append(event.now_ms - at_ms)
        nodes = iter(event.nodes)
        world = self.worlds.setdefault(event.group, GroupWorld())
        for op in write.ops:
            if isinstance(op, ev.Send):
                self.sent[(event.group, op.command.member, next(nodes))] = (
                    event.now_ms,
                    op.command.option,
                )
            elif isinstance(op, ev.DeleteRegistration):
                self._evicted(event, world.members.get(op.member), world)
            elif isinstance(op, ev.DeleteCommand):
                sent = self.sent.pop((event.group, op.member, op.node), None)
                if sent is not None:
                    self._unanswered(op.member, sent[0])
        world.write(write.ops, event.nodes)

    def unanswered(self) -> None:
        """At the end: whoever has a command still did not answer it."""
        for (_, member, _), (sent_ms, _) in self.sent.items():
            self._unanswered(member, sent_ms)

    def _unanswered(self, member: str, sent_ms: int) -> None:
        self.found.silent_from_ms.setdefault(
            member, max(self.acked_ms.get(member, -1) + 1, sent_ms - SILENCE_BEFORE_MS)
        )

    def _evicted(
        self, event: ev.Written, member: Member | Malformed | None, world: GroupWorld
    ) -> None:
        """The model evicts by itself; but the session ends as recorded, or soon where that cannot
        be seen.
        """
        if isinstance(member, Member):
            if world.held_by(member.session):
                self.lingering[member.session] = event.group
            else:
                self.found.inputs.append(
                    ExternalChange(
                        event.now_ms + GONE_AFTER_MS, event.group, ended=(member.session,)
                    )
                )

    def _changed(self, event: ev.GroupChanged) -> None:
        world, delta = self.worlds.setdefault(event.group, GroupWorld()), event.delta
        if delta.full and event.group in self.reading:
            self.found.reads.append(event.now_ms - self.reading.pop(event.group))
        before = GroupWorld(
            dict(world.members),
            set(world.channels),
            dict(world.commands),
            dict(world.owners),
            dict(world.requests),
        )
        world.take(delta)
        self._acks(event.now_ms, event.group, before, world)
        if not self.ready:
            self.found.inputs.append(event)
            return
        members: dict[str, Member | Malformed | None] = {
            name: member
            for name, member in world.members.items()
            if before.members.get(name) != member
        }
        members.update({name: None for name in before.members if name not in world.members})
        strangers: dict[TopicPartition, Owner | Malformed | None] = {
            tp: owner
            for tp, owner in world.owners.items()
            if before.owners.get(tp) != owner and self._strange(owner, world, before)
        }
        strangers.update(
            {
                tp: None
                for tp, owner in before.owners.items()
                if tp not in world.owners and self._strange(owner, before, world)
            }
        )
        change = ExternalChange(
            event.now_ms,
            event.group,
            members,
            dict.fromkeys(sorted(world.channels - before.channels), True),
            strangers,
            {
                node: request
                for node, request in world.requests.items()
                if node not in before.requests
            },
            self._ended(event.group, before, world),
            event.matches,
            delta.mode,
        )
        if (
            change.members
            or change.channels
            or change.owners
            or change.requests
            or change.ended
            or change.matches
            or change.mode
        ):
            self.found.inputs.append(change)

    def _acks(self, now_ms: int, group: str, before: GroupWorld, world: GroupWorld) -> None:
        for name, node in before.commands.keys() - world.commands.keys():
            sent = self.sent.pop((group, name, node), None)
            if sent is not None and name in world.members:
                self.found.acks.setdefault((name, sent[1]), []).append(now_ms - sent[0])
                self.acked_ms[name] = now_ms

    def _strange(self, owner: Owner | Malformed, *worlds: GroupWorld) -> bool:
        """An owner node that is of no member here."""
        if isinstance(owner, Malformed) or owner.version != OWNER_VERSION_OURS:
            return True
        sessions = {
            member.session
            for world in worlds
            for member in world.members.values()
            if isinstance(member, Member)
        }
        return owner.session not in sessions and owner.session not in self.lingering

    def _ended(self, group: str, before: GroupWorld, world: GroupWorld) -> tuple[int, ...]:
        """Sessions that closed: their registration went with all their owner nodes, or those went
        later.
        """
        ended = []
        for name, member in before.members.items():
            if isinstance(member, Member) and name not in world.members:
                if world.held_by(member.session):
                    self.lingering[member.session] = group
                else:
                    ended.append(member.session)
        for session in [
            s
            for s, of in self.lingering.items()
            if of == group and len(world.held_by(s)) < len(before.held_by(s))
        ]:
            del self.lingering[session]
            ended.append(session)
        return tuple(ended)
