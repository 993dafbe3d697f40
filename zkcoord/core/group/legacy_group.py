"""Groups that are shared with old consumers.

An old consumer reads all registrations and all partitions, computes the whole group's assignment by
itself, deletes its own owner nodes and makes those that it computed. It hears of nothing but a
change below ids and of its topics; a partition that somebody else holds makes its attempt fail, and
after four attempts, two seconds apart, it owns nothing until the next change. So a group with such
members is assigned by their maths over all registrations, old and ours; ours let go at once when
the registrations change (`consumer.core.parts.legacy_group`), and nobody's owner node is ever
deleted by the coordinator.

A group's mode is an operator's word: `legacy` (ours are sent away, the coordinator only watches and
reports), `mixed` (both, as above), `coordinated` (ours alone). Without one, and in a coordinated
group that an old consumer joins nevertheless, nothing is commanded while old consumers are there:
they assume that nobody moves their partitions.

An old consumer that gave up is revived by a registration that is made and deleted in one
transaction (`Rescue`): no reader ever sees it, and all look again. So is one that lost an owner
node and does not know: old consumers delete the nodes of what they had by name, and where two move
at once, one deletes what the other has just made (simulator seed 1014254771636).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zkcoord.core.assignment import UNLIMITED, AssignmentInput
from zkcoord.core.error_codes import GROUP_MODE_LEGACY, rejection
from zkcoord.core.events import Record, Rescue, WriteOp
from zkcoord.core.legacy_assignment import LEGACY_ASSIGNORS, EqualHashes
from zkcoord.core.model import GroupMode, Malformed, Member, Mode, Owner, Thread, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.target import TargetAssignment, TargetInput

from .view import OWNER_VERSION_OURS, GroupView


def shared_target(
    group: str,
    world: TargetInput,
    members: Mapping[str, Member],
    mode: Mode,
    options: CoordinatorOptions,
) -> tuple[TargetAssignment, str]:
    """Who is to own what in a group that is shared (`mixed`), or that belongs to its old consumers
    alone (`legacy`: ours are rejected). No votes, no places, no promises: what old consumers do not
    know does not count. What does not fit under a session's cap of owner paths is not given to
    ours. The text says why there is no answer, where there is none.
    """
    alone = mode.kind is GroupMode.LEGACY
    taking = {name: m for name, m in members.items() if m.legacy or not alone}
    wants = {name: world.topics_of(m) for name, m in taking.items()}
    partitions = {
        t: world.topics[t].partitions
        for t in sorted({t for topics in wants.values() for t in topics})
    }
    given = AssignmentInput(
        wants, partitions, {}, UNLIMITED, options.owner_path_prefix_bytes + len(group)
    )
    target: dict[TopicPartition, Thread] = {}
    used: dict[str, int] = {}
    unassigned: list[TopicPartition] = []
    answer = LEGACY_ASSIGNORS[mode.strategy](given)
    for tp, thread in () if isinstance(answer, EqualHashes) else sorted(answer.targets.items()):
        used[thread.member] = used.get(thread.member, 0) + given.path_bytes(tp)
        if used[thread.member] > options.owner_path_bytes_max and not members[thread.member].legacy:
            unassigned.append(tp)
        else:
            target[tp] = thread
    why = (
        "the group belongs to its old consumers (mode legacy): let both share it with `zkcoord"
        " groups mode GROUP mixed`, then start this consumer again"
    )
    rejected = {
        name: rejection(GROUP_MODE_LEGACY, why)
        for name, m in members.items()
        if alone and not m.legacy
    }
    return TargetAssignment(
        target, mode.strategy, rejected, tuple(unassigned), tuple(partitions)
    ), (answer.sentence if isinstance(answer, EqualHashes) else "")


class LegacyGroup:
    """What one group's coordinator knows of the old consumers in it. Times are ms of its own clock:
    `idle` since when an old consumer owns nothing of what it is to have, or so many of it while
    nobody has the rest, `dead` are those that have given up at that, `odd` since when it owns
    something else, `foreign` since when an owner node belongs to nobody who is registered.
    """

    def __init__(self, group: str, options: CoordinatorOptions) -> None:
        self.group = group
        self.options = options
        self.mode: Mode | None = None
        self.idle: dict[tuple[str, int], int] = {}
        self.odd: dict[str, int] = {}
        self.dead: set[tuple[str, int]] = set()
        self.foreign: dict[TopicPartition, int] = {}
        self.rescued_ms: int | None = None
        self.rescues = 0
        self.problems: tuple[str, ...] = ()
        self.refusal = ""
        self.unusable = ""
        self.told: list[Record] = []
        self.wakes: list[int] = []
        self.due = False

    @property
    def shared(self) -> bool:
        """Whether the old consumers' maths decides."""
        return self.mode is not None and self.mode.kind is not GroupMode.COORDINATED

    def take(self, read: Mapping[str, Mode | Malformed | None], full: bool) -> bool:
        """The mode node was read, perhaps. True: it says something else than before. One that
        cannot be used changes nothing, and is named.
        """
        found = read.get("mode", None if full else self.mode)
        if isinstance(found, Malformed):
            if found.reason != self.unusable:
                self.told.append(Record("malformed", self.group, found.shown()))
            self.unusable = found.reason
            return False
        if full or "mode" in read:
            self.unusable = ""
        if found == self.mode:
            return False
        self.mode = found
        return True

    def news(self) -> Record:
        """The mode, for the journal."""
        mode = self.mode
        return Record(
            "mode",
            self.group,
            {
                "mode": self.said(),
                "strategy": mode.strategy if mode is not None else "",
                "by": mode.by if mode is not None else "",
            },
        )

    def leaves_alone(self, view: GroupView) -> bool:
        """Whether nothing may be commanded: old consumers are there, and nobody said that they know
        of ours.
        """
        return bool(view.legacy) and not self.shared

    def target(
        self, now_ms: int, world: TargetInput, members: Mapping[str, Member]
    ) -> TargetAssignment:
        """A new target, only where the group is `shared`."""
        assert self.mode is not None
        self.disturbed(now_ms)
        targets, self.refusal = shared_target(self.group, world, members, self.mode, self.options)
        return targets

    def disturbed(self, now_ms: int) -> None:
        """Something made the old consumers begin anew: what they own, or not, counts from now."""
        self.idle = dict.fromkeys(self.idle, now_ms)
        self.odd = dict.fromkeys(self.odd, now_ms)

    def look(self, now_ms: int, view: GroupView) -> list[Record]:
        """Judge what is there now: `problems`, `due` (a rescue), `wakes`. Returns what is news."""
        before, self.wakes, self.due = self.problems, [], False
        told, self.told = self.told, []
        if not self.shared and not view.legacy and not before and not self.unusable:
            return told
        found = (
            self._left_alone(view)
            if not self.shared
            else [
                *self._owners(now_ms, view),
                *self._foreign(now_ms, view),
                *([self.refusal] if self.refusal else []),
            ]
        )
        if self.unusable:
            found.append(
                f"the group's mode cannot be used, so it counts for nothing: {self.unusable}"
            )
        self.problems = tuple(sorted([*found, *_unreadable(view), *_wildcards(view)]))
        news = [("found", p) for p in self.problems if p not in before] + [
            ("solved", p) for p in before if p not in self.problems
        ]
        return told + [
            Record("legacy", self.group, {"event": event, "problem": problem})
            for event, problem in news
        ]

    def rescue(self, now_ms: int) -> tuple[WriteOp, ...]:
        """The write that revives who gave up, if it is due."""
        if not self.due:
            return ()
        self.rescued_ms = now_ms
        self.rescues += 1
        self.due = False
        self.disturbed(now_ms)
        self.told.append(
            Record(
                "legacy",
                self.group,
                {
                    "event": "rescued",
                    "problem": "old consumers that gave up are made to look again",
                },
            )
        )
        return (Rescue(),)

    def _left_alone(self, view: GroupView) -> list[str]:
        self.idle.clear()
        self.dead.clear()
        self.odd.clear()
        mode = "it is in mode coordinated" if self.mode is not None else "it has no mode"
        return (
            [
                (
                    f"{view.legacy} old consumers are in the group and {mode}: nothing is"
                    " commanded; say what it is with zkcoord groups mode"
                )
            ]
            if view.legacy
            else []
        )

    def _owners(self, now_ms: int, view: GroupView) -> list[str]:
        """Who of the old consumers has not what its maths gives it."""
        wants: dict[str, set[TopicPartition]] = {}
        owns: dict[str, set[TopicPartition]] = {}
        for tp, thread in view.target.items():
            wants.setdefault(thread.member, set()).add(tp)
        for tp, owner in view.owners.items():
            if isinstance(owner, Owner):
                owns.setdefault(view.by_session.get(owner.session, ""), set()).add(tp)
        old = [name for name, member in view.members.items() if member.legacy]
        lacks = {m: wants.get(m, set()) - owns.get(m, set()) for m in old}
        blocked = {m: sum(1 for tp in lacks[m] if tp in view.owners) for m in old}
        idle = {
            m: len(owns.get(m, ()))
            for m in old
            if lacks[m] and (not owns.get(m) or (owns[m] < wants[m] and not blocked[m]))
        }
        self._since(now_ms, self.idle, idle.items())
        self._since(
            now_ms,
            self.odd,
            [m for m in old if owns.get(m) and owns[m] != wants.get(m, set()) and m not in idle],
        )
        lasting = self._lasting(now_ms, self.idle, self.options.legacy_attempts_ms)
        self.dead = {who for who in self.idle if who in lasting or who in self.dead}
        odd = self._lasting(now_ms, self.odd, self.options.legacy_odd_ms)
        if lasting and self.mode is not None and self.mode.kind is GroupMode.MIXED:
            self._rescue_when_free(now_ms, [m for m, _ in lasting if not blocked[m]])
        elif not self.dead:
            self.rescues = 0
        return [
            f"{m} owns {owned or 'nothing'} of its {len(wants[m])} partitions and tries no more"
            + (f" ({blocked[m]} of them are owned by others)" if blocked[m] else "")
            for m, owned in sorted(self.dead)
        ] + [
            f"{m} owns other partitions than {self.mode.strategy if self.mode else ''} gives it:"
            " its partition.assignment.strategy or its version is another"
            for m in odd
        ]

    def _rescue_when_free(self, now_ms: int, free: list[str]) -> None:
        pause_ms = min(
            self.options.legacy_attempts_ms * 2 ** min(self.rescues, 8),
            self.options.legacy_rescue_max_ms,
        )
        at_ms = (
            now_ms if self.rescued_ms is None or not self.rescues else self.rescued_ms + pause_ms
        )
        self.due = bool(free) and at_ms <= now_ms
        if free and not self.due:
            self.wakes.append(at_ms)

    def _foreign(self, now_ms: int, view: GroupView) -> list[str]:
        """Owner nodes of nobody: left behind by a foreign tool, or of a registration that cannot be
        read.
        """
        nobodys = [
            tp
            for tp, owner in view.owners.items()
            if isinstance(owner, Malformed) or owner.session not in view.by_session
        ]
        self._since(now_ms, self.foreign, nobodys)
        return [
            f"the owner node of {tp} belongs to no registration that can be read{_whose(view, tp)}"
            for tp in self._lasting(now_ms, self.foreign, self.options.legacy_odd_ms)
        ]

    def _since(self, now_ms: int, clocks: dict[Any, int], keys: Iterable[Any]) -> None:
        kept = {key: clocks.get(key, now_ms) for key in keys}
        clocks.clear()
        clocks.update(kept)

    def _lasting(self, now_ms: int, clocks: dict[Any, int], lasts_ms: int) -> list[Any]:
        self.wakes += [since + lasts_ms for since in clocks.values() if since + lasts_ms > now_ms]
        return sorted(key for key, since in clocks.items() if since + lasts_ms <= now_ms)

    def said(self) -> str:
        """The mode, for the group's report."""
        return "" if self.mode is None else self.mode.kind.value

    @property
    def reported(self) -> tuple[str, ...]:
        """The problems, for the group's report: a group that nobody said anything of is not written
        for them.
        """
        return self.problems if self.mode is not None or self.unusable else ()


def _whose(view: GroupView, tp: TopicPartition) -> str:
    owner = view.owners[tp]
    return (
        ""
        if isinstance(owner, Malformed)
        else f", it says {owner.thread}"
        + (" and is one of ours" if owner.version == OWNER_VERSION_OURS else "")
    )


def _unreadable(view: GroupView) -> list[str]:
    """Registrations that kill old consumers, which read all of them."""
    if not view.legacy:
        return []
    return [
        f"the registration {bad.shown()['name']} cannot be used ({bad.reason}): old consumers that"
        " read it may give up until it is gone"
        for (what, _), bad in view.malformed.items()
        if what == "registration" and "/" not in bad.name
    ]


def _wildcards(view: GroupView) -> list[str]:
    """A wildcard that was escaped twice (old consumers 1.0.1 to 1.1.1 with a backslash in it)
    matches nothing.
    """
    patterns = {name: m.subscription.pattern for name, m in view.members.items() if m.legacy}
    return [
        f"{name} subscribes the wildcard {p.regex}, escaped twice (a defect of the old consumer"
        " 1.0.1 to 1.1.1): it matches no topic; use [.] instead of a backslash"
        for name, p in patterns.items()
        if p is not None and "\\\\" in p.regex
    ]
