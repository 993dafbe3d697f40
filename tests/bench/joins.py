"""Sections 1 and 2: joins and clean leaves, and the partitions that do not move meanwhile.

A join's clocks start at the constructor, in a process that has had a consumer before, and at the
registration (the znode's ctime); both end with the first fetch response of the last partition of
the group's new assignment. A leave's clocks start at the call of close() and at the end of the
registration, as a watch tells it. kafka-python's group consumer goes through the same on the same
broker, by its own defaults (range, eager), a join from its constructor, a leave from its close();
eager means that every partition is assigned anew, so the last one of all counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bench.figures import Bar, Row, Section
from tests.bench.group import TOUCHING, Group
from tests.bench.rig import NS, Rig, Worker
from zkcoord.errors import ConditionTimeoutError

MEMBERS = 3
LOAD_PER_S = 2_000
LOADED_BARS = (Bar("median", 100), Bar("p95", 300))
IDLE_BARS = (Bar("median", 250),)
WINDOW_TAIL_NS = 300 * NS
GAP_RESOLUTION_MS = 20.0
GROUPS_OF_THEIRS = 3


@dataclass(frozen=True)
class Event:
    """One join or leave. `asked_ns`: constructor or close(); `known_ns`: the registration's begin
    or end (kafka-python: the same as asked); `end_ns`: the last first fetch.
    """

    kind: str
    asked_ns: int
    known_ns: int
    end_ns: int
    before: Mapping[int, str]
    after: Mapping[int, str]

    @property
    def asked_ms(self) -> float:
        return (self.end_ns - self.asked_ns) / NS

    @property
    def known_ms(self) -> float:
        return (self.end_ns - self.known_ns) / NS

    @property
    def kept(self) -> list[int]:
        """Partitions whose owner stayed."""
        return [number for number, who in self.before.items() if self.after.get(number) == who]


@dataclass
class Kept:
    """What happened to partitions that did not move: per event the longest gap between hand-outs
    and the oldest record handed out, the same in a window of the same length without an event just
    before; and every touch.
    """

    gaps_ms: list[float] = field(default_factory=list)
    ages_ms: list[float] = field(default_factory=list)
    quiet_gaps_ms: list[float] = field(default_factory=list)
    quiet_ages_ms: list[float] = field(default_factory=list)
    touches: int = 0
    events: int = 0


class Side:
    """A group of three and one that comes and goes: zkcoord's, or kafka-python's."""

    def __init__(
        self,
        rig: Rig,
        partitions: int,
        order: Mapping[str, Any],
        workers: list[Worker],
        members: int = MEMBERS,
    ) -> None:
        self.rig = rig
        self.order = order
        self.ours = order["kind"] == "zkcoord"
        self.group_id: str = order["configs"]["group_id"]
        self.group = Group(partitions)
        self.workers = workers
        self.guest = workers[-1]
        self.members = [rig.join(self.group, worker, order) for worker in workers[:members]]

    def warm_up(self) -> None:
        """Balanced, and one join and leave that do not count."""
        self.rig.wait_balanced(self.group, self.members)
        self.join()
        self.leave()

    def join(self) -> Event:
        """One more member."""
        before = self.group.owners()
        who = self.rig.join(self.group, self.guest, self.order)
        self.rig.wait_balanced(self.group, [*self.members, who])
        self.members.append(who)
        view = self.group.views[who]
        asked_ns = view.at["new"]
        known_ns = self.rig.registered_ns(self.group_id, view.name) if self.ours else asked_ns
        return self._event("join", asked_ns, known_ns, before)

    def leave(self) -> Event:
        """The newest member leaves."""
        before = self.group.owners()
        who = self.members.pop()
        view = self.group.views[who]
        heard = self.rig.when_gone(self.group_id, view.name) if self.ours else []
        self.rig.leave(who)
        self.rig.wait_balanced(self.group, self.members)
        self.rig.wait(lambda: "closed" in view.at, "the end of a member that left")
        asked_ns = view.at["closing"]
        event = self._event("leave", asked_ns, heard[0] if heard else asked_ns, before)
        with self.rig.children.lock:
            self.group.gone(who)
        return event

    def _event(self, kind: str, asked_ns: int, known_ns: int, before: Mapping[int, str]) -> Event:
        end_ns = max(seen.t_ns for seen in self.group.since(asked_ns, "first_fetch"))
        return Event(kind, asked_ns, known_ns, end_ns, before, self.group.owners())


@dataclass
class Found:
    """All events of one side in one setting."""

    events: list[Event] = field(default_factory=list)
    kept: Kept = field(default_factory=Kept)

    def of(self, kind: str, clock: str) -> list[float]:
        """Durations of one kind by one clock (`asked` or `known`)."""
        return [getattr(event, f"{clock}_ms") for event in self.events if event.kind == kind]


def rounds_of(
    found: Found, side: Side, rounds: int, section: Section, label: str, watch_kept: bool
) -> None:
    """Joins and leaves, `rounds` of each."""
    rig = side.rig
    side.warm_up()
    for number in range(rounds):
        for act in (side.join, side.leave):
            rig.pause()
            side.group.forget(_horizon(side))
            event = act()
            found.events.append(event)
            if side.ours:
                steps(section, f"{event.kind}, {label}", side, event)
            if watch_kept:
                look_at_kept(rig, side.group, event, found.kept)
        rig.say(
            f"  {label}, {'zkcoord' if side.ours else 'kafka-python'}: round {number + 1} of"
            f" {rounds}: join {found.events[-2].known_ms:.0f} ms, leave"
            f" {found.events[-1].known_ms:.0f} ms"
        )


def rounds_of_theirs(
    rig: Rig, found: Found, partitions: int, topic: str, rounds: int, section: Section, label: str
) -> None:
    """The same for kafka-python's group. A member of it misses a rebalance now and then and owns
    nothing until metadata are asked for again, five minutes later: that is noted, and a new group
    does the rounds that are left.
    """
    for groups_left in reversed(range(GROUPS_OF_THEIRS)):
        with rig.staff(MEMBERS + 1) as workers:
            try:
                return rounds_of(
                    found,
                    Side(rig, partitions, rig.theirs(rig.unique("k"), topic), workers),
                    rounds - len(found.of("leave", "asked")),
                    section,
                    label,
                    False,
                )
            except ConditionTimeoutError as error:
                if not groups_left:
                    raise
                section.notes.append(
                    f"{label}, kafka-python: a group got stuck, another took its place: {error}"
                )


def _horizon(side: Side) -> int:
    """Everything older than the last event's end is history; hand-outs since then are the quiet
    time to compare with.
    """
    fetches = side.group.since(0, "first_fetch")
    return max((seen.t_ns for seen in fetches), default=0) + WINDOW_TAIL_NS


def steps(section: Section, label: str, side: Side, event: Event) -> None:
    """Where the time went: ms since the registration began or ended (before it: since the call)."""
    seen = side.group.since(event.asked_ns)
    section.step(label, "call to registration", (event.known_ns - event.asked_ns) / NS)
    marks = {
        "first command heard": sorted(s.t_ns for s in seen if s.event == "command")[:1],
        "last stop answered": [s.t_ns for s in seen if s.event == "revoked" and s.partitions],
        "last start heard": [
            s.t_ns for s in seen if s.event == "command" and s.option == "start-fetcher"
        ],
        "last assigned": [s.t_ns for s in seen if s.event == "assigned"],
        "last first fetch": [event.end_ns],
    }
    for name, times in marks.items():
        if times:
            section.step(label, name, (max(times) - event.known_ns) / NS)


def look_at_kept(rig: Rig, group: Group, event: Event, kept: Kept) -> None:
    """Commands, callbacks and gaps of partitions that did not move."""
    rig.wait(
        lambda: all(
            group.last_hand_out_ns(number) > event.end_ns + WINDOW_TAIL_NS for number in event.kept
        ),
        "records of every partition that stayed",
    )
    begin_ns, end_ns = event.asked_ns, event.end_ns + WINDOW_TAIL_NS
    still = set(event.kept)
    kept.events += 1
    kept.touches += sum(
        not still.isdisjoint(seen.partitions) for seen in group.since(begin_ns, *TOUCHING)
    )
    commanded = sum(seen.count for seen in group.since(begin_ns, "command"))
    named = sum(len(seen.partitions) for seen in group.since(begin_ns, "revoke", "assigned"))
    kept.touches += max(0, commanded - named)
    oldest_ns = min((times[0][0] for times in group.handed_out.values() if times), default=begin_ns)
    quiet_begin_ns = max(begin_ns - (end_ns - begin_ns), min(oldest_ns, begin_ns))
    for gaps, ages, window in (
        (kept.gaps_ms, kept.ages_ms, (begin_ns, end_ns)),
        (kept.quiet_gaps_ms, kept.quiet_ages_ms, (quiet_begin_ns, begin_ns)),
    ):
        gaps.append(max((group.gap_ns(number, *window) for number in still), default=0) / NS)
        ages.append(float(max((group.age_ms(number, *window) for number in still), default=0)))


def setting(
    rig: Rig,
    section: Section,
    kept: Section,
    partitions: int,
    per_s: int,
    rounds: int,
    rounds_theirs: int,
) -> None:
    """One number of partitions, idle or loaded: zkcoord's group, then kafka-python's."""
    label = f"{partitions} partitions, {'loaded' if per_s else 'idle'}"
    topic = rig.topic(partitions)
    theirs = Found()
    found = Found()
    with rig.producer(topic, partitions, per_s):
        with rig.staff(MEMBERS + 1) as workers:
            side = Side(
                rig, partitions, rig.ours(rig.unique("g"), topic, records=bool(per_s)), workers
            )
            section.attempt(
                f"{label}, zkcoord",
                lambda: rounds_of(found, side, rounds, section, label, bool(per_s)),
            )
        if rounds_theirs:
            section.attempt(
                f"{label}, kafka-python",
                lambda: rounds_of_theirs(
                    rig, theirs, partitions, topic, rounds_theirs, section, label
                ),
            )
    if per_s:
        section.notes.append(f"{label}: {rig.produced_per_s():.0f} records/s acknowledged")
    bars = LOADED_BARS if per_s else IDLE_BARS
    for kind, call, event in (
        ("join", "constructor", "registration"),
        ("leave", "close()", "end of registration"),
    ):
        asked, peer = found.of(kind, "asked"), theirs.of(kind, "asked")
        section.rows.append(
            Row(f"{kind}, {label}", f"from the {event}", found.of(kind, "known"), bars)
        )
        section.rows.append(
            Row(
                f"{kind}, {label}",
                f"from {call}",
                asked,
                ratio=(
                    statistics.median(peer) / statistics.median(asked) if peer and asked else None
                ),
            )
        )
        if peer:
            section.rows.append(Row(f"{kind}, {label}, kafka-python", f"from {call}", peer))
    if per_s:
        kept_rows(kept, label, found.kept)


def kept_rows(section: Section, label: str, kept: Kept) -> None:
    """Section 2 for one setting."""
    for what, clock, values, quiet in (
        ("longest gap", "hand-out to hand-out", kept.gaps_ms, kept.quiet_gaps_ms),
        ("oldest record", "produced to handed out", kept.ages_ms, kept.quiet_ages_ms),
    ):
        limit = (statistics.median(quiet) if quiet else 0.0) + GAP_RESOLUTION_MS
        section.rows.append(
            Row(
                f"{what} of a partition that stays, {label}",
                clock,
                values,
                (Bar("median", round(limit, 1)),),
            )
        )
        section.rows.append(Row("the same, just before, without an event", clock, quiet))
    section.rows.append(
        Row(
            f"commands and callbacks about them, {label}",
            f"{kept.events} events",
            [float(kept.touches)],
            (Bar("max", 0),),
            unit="touches",
        )
    )


def run(
    rig: Rig,
    sections: list[Section],
    rounds: int,
    theirs: bool,
    partitions: tuple[int, ...],
    loads: tuple[int, ...],
) -> None:
    """Both sections."""
    joins = Section(
        "join",
        f"Joins and clean leaves, {MEMBERS} -> {MEMBERS + 1} -> {MEMBERS} members, shipped"
        f" defaults; loaded: {max(loads)} records/s",
    )
    kept = Section("kept", f"Partitions that do not move, {max(loads)} records/s")
    sections += [joins, kept]
    with rig.coordinators():
        for count in partitions:
            for per_s in loads:
                setting(
                    rig, joins, kept, count, per_s, rounds, max(1, rounds // 2) if theirs else 0
                )
