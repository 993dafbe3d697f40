"""A replay as a story: what was decided for which group, when, and because of what.

A decision often comes later than its cause: a group waits for a quiet window, for a slot, for a
write that is under way. So the story keeps, per group, what it was told since its last write, and
names that as the reason of the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

from zkcoord.core import events as ev
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.group.machine import Group
from zkcoord.core.model import (
    SOMEBODY,
    Command,
    Malformed,
    Member,
    Mode,
    Option,
    Owner,
    Request,
    RequestKind,
    Topic,
    TopicPartition,
)
from zkcoord.core.value_type import assert_never, value
from zkcoord.replay.text import action_text, any_text, op_text, partitions_text
from zkcoord.terminal import printable
from zkcoord.words import counted

NOTES_KEPT_MAX = 50
REASONS_SHOWN_MAX = 6
PARTITIONS_CHARS_MAX = 160
WRITE_OK = "its last write succeeded"
WORDS = {Option.STOP: "stop", Option.START: "start"}


@value
class Decision:
    """Something the core decided. `ms` since the term began; `because` is what the group was told
    since its last write, with how many ms before that was.
    """

    ms: int
    group: str
    what: tuple[str, ...]
    because: tuple[tuple[int, str], ...]
    line: int

    def text(self) -> str:
        """On two lines, the second for the reasons."""
        shown = [
            f"{why}{f' ({ago} ms before)' if ago else ''}"
            for ago, why in self.because[-REASONS_SHOWN_MAX:]
        ]
        more = len(self.because) - len(shown)
        reasons = (
            "; ".join([*([f"{more} more"] if more else []), *shown])
            or "a deadline or a wait was over"
        )
        head = f"{self.ms:>8} ms  {self.group or 'all groups'}: {'; '.join(self.what)}"
        return f"{printable(head)}\n{' ' * 13}because {printable(reasons)}\n"


@dataclass
class Story:
    """Tells of one core. Call `told` before each step and `decided` after it."""

    core: Coordinator
    began_ms: int | None = None
    notes: dict[str, deque[tuple[int, str]]] = field(default_factory=dict)

    def told(self, event: ev.Event) -> None:
        """The core is about to take this."""
        if self.began_ms is None:
            self.began_ms = event.now_ms
        for group, note in self._notes(event):
            self.notes.setdefault(group, deque(maxlen=NOTES_KEPT_MAX)).append((event.now_ms, note))

    def decided(
        self, event: ev.Event, actions: Sequence[ev.Action], line: int
    ) -> Iterator[Decision]:
        """What came out of it, per group."""
        ms = event.now_ms - (self.began_ms or 0)
        by_group: dict[str, list[ev.Action]] = {}
        for action in actions:
            by_group.setdefault(getattr(action, "group", ""), []).append(action)
        for group, theirs in by_group.items():
            what = [
                words
                for action in theirs
                for words in (
                    op_words(action.ops)
                    if isinstance(action, ev.Write)
                    else (action_words(action),)
                )
            ]
            notes = self.notes.get(group, ())
            # a success explains only what nothing else does
            telling = [note for note in notes if note[1] != WRITE_OK] or (
                () if isinstance(event, (ev.Tick, ev.Spent)) else notes
            )
            if not group or any(isinstance(action, ev.Write) for action in theirs):
                self.notes.pop(group, None)
            yield Decision(
                ms,
                group,
                tuple(what),
                tuple((event.now_ms - at, note) for at, note in telling),
                line,
            )

    def _notes(self, event: ev.Event) -> Iterator[tuple[str, str]]:
        """What an event means to which group."""
        match event:
            case ev.GroupChanged():
                yield from (
                    (event.group, note)
                    for note in _group_notes(event.delta, self.core.groups.get(event.group))
                )
            case ev.TopicsChanged():
                yield from self._topic_notes(event)
            case ev.Written():
                ended = WRITE_OK
                if event.outcome is not ev.Outcome.OK:
                    why = f" ({event.why})" if event.why else ""
                    ended = f"its write {event.token} ended: {event.outcome.value}{why}"
                yield event.group, ended
            case ev.Ready():
                yield from ((group, "all groups have been read") for group in self.core.groups)
            case ev.GroupUnread():
                yield event.group, "its node is new, or was made again"
            case ev.Elected():
                yield "", f"elected with epoch {event.epoch}"
            case ev.Tick() | ev.Spent():
                pass
            case ev.GroupGone() | ev.GroupLeftAlone() | ev.AssignorAnswered():
                yield event.group, _event_words(event)
            case ev.Paused():
                yield "", _event_words(event)
            case _:
                assert_never(event)

    def _topic_notes(self, event: ev.TopicsChanged) -> Iterator[tuple[str, str]]:
        for name, topic in event.topics.items():
            if isinstance(topic, Topic):
                note = f"topic {name} has {counted(len(topic.partitions), 'partition')}"
            else:
                note = f"topic {name} is {'gone' if topic is None else 'malformed'}"
            yield from ((group, note) for group in sorted(self.core.groups_of_topic(name)))
        for pattern, names in event.matches.items():
            yield from (
                (group, f"{pattern.regex} matches {counted(len(names), 'topic')}")
                for group in sorted(self.core.groups_with_wildcard_topics.get(pattern, ()))
            )


def _group_notes(delta: ev.GroupDelta, group: Group | None) -> Iterator[str]:
    known = group.view.members if group is not None else {}
    if delta.full:
        yield "it was read as a whole"
    for name in sorted({*delta.members, *(known if delta.full else ())}):
        member = delta.members.get(name)
        if isinstance(member, Malformed):
            yield f"the registration of {name} is malformed"
        elif isinstance(member, Member) and name not in known:
            yield f"{name} joined"
        elif isinstance(member, Member) and member != known[name]:
            yield f"{name} changed its registration"
        elif member is None and name in known:
            yield f"{name} left"
    yield from _operator_notes(delta, group)
    acked: set[TopicPartition] = set()
    for (name, node), command in delta.commands.items():
        before = group.view.commands.get(name, {}).get(node) if group is not None else None
        if command is None and isinstance(before, Command):
            acked.update(before.partitions)
            yield f"{name} acked {before.option.value} #{before.seq}"
        elif command is not None and before is None:
            yield f"a command of {name} was found"
    yield from _owner_notes(delta, group, acked)


def _operator_notes(delta: ev.GroupDelta, group: Group | None) -> Iterator[str]:
    """What an operator has asked for, or said."""
    known = group.view.requests if group is not None else {}
    for node, request in delta.requests.items():
        if isinstance(request, Request) and node not in known:
            is_eviction = request.kind is RequestKind.EVICT
            what = f"have {request.member} evicted" if is_eviction else "have it rebalanced"
            fresh = " as if nobody owned anything" if request.fresh else ""
            yield f"{request.by or SOMEBODY} asked to {what}{fresh}"
    before = group.word.mode if group is not None else None
    was_paused = before is not None and before.paused
    for mode in delta.mode.values():
        if mode is None and before is not None:
            yield "its mode was deleted"
        if not isinstance(mode, Mode) or mode == before:
            continue
        what = f"said that its mode is {mode.kind.value}"
        if mode.paused is not was_paused:
            what = "paused it" if mode.paused else "resumed it"
        yield f"{mode.by or SOMEBODY} {what}"


def _owner_notes(
    delta: ev.GroupDelta, group: Group | None, acked: set[TopicPartition]
) -> Iterator[str]:
    """Owner nodes that came or went without an ack."""
    if group is None or delta.full:
        return
    gone = [
        tp
        for tp, owner in delta.owners.items()
        if owner is None and tp in group.view.owners and tp not in acked
    ]
    came = [
        tp
        for tp, owner in delta.owners.items()
        if isinstance(owner, Owner) and tp not in group.view.owners and tp not in acked
    ]
    if gone:
        yield f"{partitions_shown(gone)} became free"
    if came:
        yield f"{partitions_shown(came)} got an owner"


def op_words(ops: Sequence[ev.WriteOp]) -> Iterator[str]:
    """A write in words; owner nodes that are freed together are named together."""
    freed = [op.partition for op in ops if isinstance(op, ev.DeleteOwner)]
    if freed:
        yield f"free {partitions_shown(freed)} of a session that is gone"
    for op in ops:
        match op:
            case ev.Send():
                yield command_words(op.command)
            case ev.DeleteRegistration():
                yield f"evict {op.member}"
            case ev.PutMetadata():
                yield f"report generation {op.metadata.generation}, {op.metadata.state.value}"
            case ev.DeleteChannel():
                yield f"delete the channel of {op.member}"
            case ev.DeleteCommand():
                yield f"delete the command {op.member}/{op.node}"
            case ev.DeleteOwner():
                pass  # named above
            case ev.DeleteRequest() | ev.Rescue() | ev.KeepOut():
                yield any_text(op)
            case _:
                assert_never(op)


def command_words(command: Command) -> str:
    """Whom, what, and how many partitions."""
    if command.option is Option.REJECT:
        return f"reject {command.member}: {command.code}"
    if command.option not in WORDS:
        return op_text(ev.Send(command))
    count = len(command.partitions)
    return (
        f"{WORDS[command.option]} {command.member} #{command.seq}: "
        f"{counted(count, 'partition')} ({partitions_shown(command.partitions)})"
    )


def action_words(action: ev.Action) -> str:
    """What is not a write."""
    if isinstance(action, ev.ReadGroup):
        return f"read the group ({action.why})"
    if isinstance(action, ev.Resign):
        return f"resign: {action.reason}"
    if isinstance(action, ev.Record):
        return f"record {action.kind}: " + " ".join(
            f"{key}={value}"
            for key, value in action.detail.items()
            if value not in ("", None) and not isinstance(value, (list, dict))
        )
    return action_text(action)


def partitions_shown(partitions: Sequence[TopicPartition]) -> str:
    """By topic and range, cut where that is long."""
    text = partitions_text(partitions)
    return text if len(text) <= PARTITIONS_CHARS_MAX else text[:PARTITIONS_CHARS_MAX] + "..."


def _event_words(event: ev.Event) -> str:
    left_out = {"now_ms", "group"}
    values = " ".join(
        f"{f.name}={getattr(event, f.name)}" for f in fields(event) if f.name not in left_out
    )
    text = f"{any_text(event).partition(' now_ms=')[0]} {values}".strip()
    return text if len(text) <= PARTITIONS_CHARS_MAX else text[:PARTITIONS_CHARS_MAX] + "..."
