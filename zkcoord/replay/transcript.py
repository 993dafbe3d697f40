"""A recording as a transcript of tests/core/scripts: an incident becomes a test of the core by one
command.

The transcript has the core's inputs, as comments in words and as lines that the test carries out,
and below each its answers. Times are counted from the beginning of the term. With a group, only
what concerns that group is kept. A transcript is only written when a core that is told no more than
it says gives the recorded answers, so what was left out did not matter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from zkcoord.core import events as ev
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.model import Member, Topic
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.value_type import value
from zkcoord.core_encoding import codec
from zkcoord.errors import ReplayError
from zkcoord.replay.replay import Recording, Replay
from zkcoord.replay.story import Story
from zkcoord.replay.text import action_text

COMMENT_CHARS_MAX = 200
COMMENTS_MAX = 8
BARE = {ev.Ready: "ready", ev.Paused: "paused"}

_EVENT = codec(ev.Event)


class _Otherwise(ReplayError):
    """A core that is told no more than the transcript says gives other answers."""


@value
class TranscriptInput:
    """One input of the transcript: the event, what it means, what the core answered, and the
    numbers that others had taken before (None: nobody).
    """

    event: ev.Event
    notes: tuple[str, ...]
    actions: tuple[ev.Action, ...]
    numbers: tuple[int, int] | None


def script(recording: Recording, group: str | None) -> str:
    """The transcript. Raises `ReplayError` when the recording does not replay to the same, or the
    group depends on others.
    """
    with recording.believed():
        return _script(recording, group)


def _script(recording: Recording, group: str | None) -> str:
    began_ms = next((step.event.now_ms for step in recording.steps()), 0)
    try:
        told = list(_told(recording, group, began_ms))
    except _Otherwise:
        # something that was read names a time of the coordinator's clock: keep that clock
        told = list(_told(recording, group, 0))
    if not told:
        raise ReplayError(
            f"{recording.name} has no inputs{f' of group {group}' if group else ''}: there is"
            " nothing to write"
        )
    lines = [
        f"# from a recording of epoch {recording.epoch}"
        + (f", group {group} alone" if group else ""),
        *_options(recording.options),
    ]
    text, now_ms = ["\n".join([*lines, "----"])] if len(lines) > 1 else [], 0
    head = lines if len(lines) == 1 else []
    for one in told:
        inputs = [
            *head,
            *(f"# {note}"[:COMMENT_CHARS_MAX] for note in one.notes),
            *_lines(one, one.event.now_ms - now_ms),
        ]
        text.append("\n".join([*inputs, "----", *map(action_text, one.actions)]))
        head, now_ms = [], one.event.now_ms
    return "\n\n".join(text) + "\n"


def _options(options: CoordinatorOptions) -> Iterator[str]:
    """Those that are not the default, all as JSON without spaces, in one line."""
    changed = codec(CoordinatorOptions).encode(options)
    if changed:
        yield "options " + " ".join(
            f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in changed.items()
        )


def _lines(one: TranscriptInput, after_ms: int) -> Iterator[str]:
    """What the transcript's reader carries out."""
    if one.numbers is not None:
        yield f"numbers {one.numbers[0]} {one.numbers[1]}"
    if isinstance(one.event, ev.Tick):
        yield f"tick {after_ms}"
        return
    if after_ms:
        yield f"wait {after_ms}"
    if isinstance(one.event, ev.Elected):
        yield f"elected {one.event.epoch}"
    elif type(one.event) in BARE:
        yield BARE[type(one.event)]
    else:
        ((kind, fields),) = _EVENT.encode(one.event).items()
        fields.pop("now_ms")
        yield f"event {json.dumps({kind: fields})}"


def _told(recording: Recording, group: str | None, zero_ms: int) -> Iterator[TranscriptInput]:
    """The inputs to keep, times counted from `zero_ms`, each verified with a core that is told no
    others.
    """
    alone = Coordinator(recording.options)
    again = Replay(recording)
    story = Story(again.core)
    names = _topics_of(recording, group) if group is not None else frozenset()
    for step, actions in again.steps(story.told):
        kept = [action for action in actions if group is None or _concerns(action, group)]
        event: ev.Event | None = replace(step.event, now_ms=step.event.now_ms - zero_ms)
        if group is not None:
            assert event is not None
            due = alone.next_wake_ms()
            ticks = bool(kept) or (due is not None and due <= event.now_ms)
            event = _narrowed(event, group, names) or (ev.Tick(event.now_ms) if ticks else None)
        notes = _comments(story, group)
        if event is None:
            continue
        numbers = _numbers(alone, kept) if group is not None else None
        if numbers is not None:
            alone.token, alone.seq = numbers
        said = alone.step(event)
        if said != kept:
            raise _Otherwise(_otherwise(group, step.line))
        yield TranscriptInput(event, notes, tuple(said), numbers)
    if again.verdict.difference is not None:
        raise ReplayError(
            f"line {again.verdict.difference.step.line} of {recording.name} does not replay to the"
            " same: a transcript of it would say what this zkcoord decides, not what happened"
        )


def _comments(story: Story, group: str | None) -> tuple[str, ...]:
    """What this step means, in words; the story forgets it."""
    notes = [
        " ".join((f"{of}: {note}" if of and group is None else note).split())
        for of, found in story.notes.items()
        if group in (None, of)
        for _, note in found
    ]
    story.notes.clear()
    return tuple(notes[:COMMENTS_MAX])


def _otherwise(group: str | None, line: int) -> str:
    if group is None:
        return f"line {line} gives something else to a core of its own: please report it"
    return (
        f"at line {line} the group {group} depends on other groups (they shared a limit): write the"
        " whole term, without --group"
    )


def _concerns(action: ev.Action, group: str) -> bool:
    """Of this group, or of the whole term."""
    of = getattr(action, "group", "")
    return of == group or (
        of == "" and not (isinstance(action, ev.Record) and action.kind == "malformed")
    )


def _narrowed(event: ev.Event, group: str, topics: frozenset[str]) -> ev.Event | None:
    """The event without what is not this group's; None: nothing of it is."""
    if isinstance(event, ev.Tick):
        return None
    if isinstance(event, ev.Spent):
        return (
            replace(event, groups={group: event.groups[group]}) if group in event.groups else None
        )
    if isinstance(event, ev.TopicsChanged):
        found = {
            name: topic
            for name, topic in event.topics.items()
            if name in topics and isinstance(topic, (Topic, type(None)))
        }
        return replace(event, topics=found) if found or event.matches else None
    return event if getattr(event, "group", group) == group else None


def _topics_of(recording: Recording, group: str) -> frozenset[str]:
    """Every topic that a member of the group named, or that a wildcard matched, at any time."""
    names: set[str] = set()
    for step in recording.steps():
        if isinstance(step.event, ev.GroupChanged) and step.event.group == group:
            for member in step.event.delta.members.values():
                if isinstance(member, Member):
                    names.update(member.subscription.topics)
        if isinstance(step.event, (ev.GroupChanged, ev.TopicsChanged)):
            names.update(*step.event.matches.values())
    return frozenset(names)


def _numbers(core: Coordinator, actions: Sequence[ev.Action]) -> tuple[int, int] | None:
    """(token, seq) to stand before this step so that it takes the recorded ones; None where it will
    anyway.
    """
    tokens = [action.token for action in actions if isinstance(action, (ev.Write, ev.Assign))]
    seqs = [
        op.command.seq
        for action in actions
        if isinstance(action, ev.Write)
        for op in action.ops
        if isinstance(op, ev.Send)
    ]
    wanted = (min(tokens, default=core.token + 1) - 1, min(seqs, default=core.seq + 1) - 1)
    return None if wanted == (core.token, core.seq) else wanted
