"""Groups that are shared with old consumers.

An old consumer reads all registrations and all partitions, computes the whole group's assignment by
itself, deletes its own owner nodes and makes those that it computed. It hears of nothing but a
change below ids and of its topics; a partition that somebody else holds makes its attempt fail, and
after four attempts, two seconds apart, it owns nothing until the next change. So a group with such
members is assigned by their maths over all registrations, old and ours; ours let go at once when
the registrations change (`consumer.core.parts.legacy_group`), and nobody's owner node is ever
deleted by the coordinator.

A group's mode is an operator's word: `legacy` (ours are sent away, the coordinator only watches and
reports), `mixed` (both, as above), `coordinated` (ours alone). Without one nothing is commanded
while old consumers are there: they assume that nobody moves their partitions. Nor is it, whatever
the mode, where nobody here knows what one of them subscribes to (`Member.unfollowed`): what it is
to have is not known then. An old consumer that joins a coordinated group nevertheless is kept out
(`KeepOut`): a registration that none of them can read, for as long as it is there, has it let go of
all that it has and claim nothing, whoever of ours dies.

An old consumer that gave up is revived by a registration that is made and deleted in one
transaction (`Rescue`): no reader ever sees it, and all look again. So is one that lost an owner
node and does not know: old consumers delete the nodes of what they had by name, and where two move
at once, one deletes what the other has just made (simulator seed 1014254771636).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from zkcoord.core.assignment import UNLIMITED, Assignment, AssignmentInput
from zkcoord.core.error_codes import GROUP_MODE_LEGACY, rejection
from zkcoord.core.events import KeepOut, Record, Rescue, WriteOp
from zkcoord.core.legacy_assignment import (
    LEGACY_ASSIGNORS,
    EqualHashes,
    Owned,
    followed_in_part,
    target_beside,
)
from zkcoord.core.model import (
    GroupMode,
    Malformed,
    Member,
    Mode,
    Owner,
    Thread,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.shared import KEEPER, mark_of
from zkcoord.core.target import TargetAssignment, TargetInput

from .operator_requests import ModeSaid
from .view import OWNER_VERSION_OURS, GroupView


def shared_target(
    group: str,
    world: TargetInput,
    members: Mapping[str, Member],
    mode: Mode,
    options: CoordinatorOptions,
    owned: Owned,
    at_rest: bool,
) -> tuple[TargetAssignment, str]:
    """Who is to own what in a group that is shared (`mixed`), or that belongs to its old consumers
    alone (`legacy`: ours are rejected). No votes, no places, no promises: what old consumers do not
    know does not count. What does not fit under a session's cap of owner paths is not given to
    ours. `owned` and `at_rest` are for groups in which not everybody is understood (see
    `unfollowed`). The text says why there is no answer, where there is none.
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
    answer: Assignment | EqualHashes
    if any(m.unfollowed for m in members.values()) and not alone:
        certain, undecided = target_beside(given, members, owned, at_rest)
        answer = Assignment(certain, ())
        unassigned += undecided
    else:
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

    def __init__(self, group: str, options: CoordinatorOptions, word: ModeSaid) -> None:
        self.group = group
        self.options = options
        self.word = word
        self.idle: dict[tuple[str, int], int] = {}
        self.odd: dict[str, int] = {}
        self.dead: set[tuple[str, int]] = set()
        self.foreign: dict[TopicPartition, int] = {}
        self.rescued_ms: int | None = None
        self.rescues = 0
        self.problems: tuple[str, ...] = ()
        self.refusal = ""
        self.told = word.told
        # Where not everybody is understood: the registrations and topics, and since when they are
        # so; what of the old consumers the target was made from; and what it leaves out because it
        # may be theirs.
        self.moved_ms = 0
        self.world: tuple[str, frozenset[tuple[str, int, int]]] = ("", frozenset())
        self.seen: tuple[dict[TopicPartition, str], bool] = ({}, False)
        self.undecided: tuple[TopicPartition, ...] = ()
        self.wakes: list[int] = []
        self.due = False

    @property
    def mode(self) -> Mode | None:
        """Whose the group is, where somebody said so."""
        return self.word.mode

    @property
    def shared(self) -> bool:
        """Whether the old consumers' maths decides."""
        return self.mode is not None and self.mode.kind is not GroupMode.COORDINATED

    def leaves_alone(self, view: GroupView) -> bool:
        """Whether nothing may be commanded: old consumers are there, and nobody said that they know
        of ours, or knows what they want.
        """
        if not view.legacy:
            return False
        return self.mode is None or (
            self.mode.kind is GroupMode.MIXED
            and self._unfollowed(view)
            and not followed_in_part(view.members, self.mode)
        )

    def keeps_silent(self, view: GroupView) -> bool:
        """Whether not even a report is written: nobody said that the group is anybody's but its old
        consumers'.
        """
        return self.mode is None and view.legacy > 0

    def keep_out(self, view: GroupView) -> tuple[WriteOp, ...]:
        """The write that keeps old consumers out of a coordinated group, or ends that."""
        there = ("registration", KEEPER) in view.malformed
        wanted = (
            view.legacy > 0 and self.mode is not None and self.mode.kind is GroupMode.COORDINATED
        )
        return (KeepOut(wanted),) if wanted is not there else ()

    def target(self, now_ms: int, world: TargetInput, view: GroupView) -> TargetAssignment:
        """A new target, only where the group is `shared`."""
        assert self.mode is not None
        self.disturbed(now_ms)
        if not self._unfollowed(view):
            targets, self.refusal = shared_target(
                self.group, world, view.members, self.mode, self.options, {}, True
            )
            return targets
        world_now = (
            mark_of(view.members.values()),
            frozenset((t.name, t.created, len(t.partitions)) for t in world.topics.values()),
        )
        if world_now != self.world:
            self.world, self.moved_ms = world_now, now_ms
        self.seen = owned, at_rest = self._seen(now_ms, view)
        targets, self.refusal = shared_target(
            self.group, world, view.members, self.mode, self.options, owned, at_rest
        )
        held = {tp: thread for tp, thread in view.current_owners().items() if tp in owned}
        self.undecided = tuple(tp for tp in targets.unassigned if tp not in held)
        return replace(targets, target={**targets.target, **held}, unassigned=self.undecided)

    def _unfollowed(self, view: GroupView) -> bool:
        return bool(view.legacy) and any(m.unfollowed for m in view.members.values())

    def _seen(self, now_ms: int, view: GroupView) -> tuple[dict[TopicPartition, str], bool]:
        """Who of the old consumers owns what, and whether they have had the time to try."""
        owned = {
            tp: name
            for tp, owner in view.owners.items()
            if isinstance(owner, Owner)
            and (name := view.by_session.get(owner.session)) is not None
            and view.members[name].legacy
        }
        return owned, now_ms >= self.moved_ms + self.options.legacy_attempts_ms

    def learned(self, now_ms: int, view: GroupView) -> bool:
        """Whether what old consumers own says more than when the target was made, in a group in
        which not everybody is understood.
        """
        if not self.shared or not self._unfollowed(view) or self.leaves_alone(view):
            return False
        return self._seen(now_ms, view) != self.seen

    def disturbed(self, now_ms: int) -> None:
        """Something made the old consumers begin anew: what they own, or not, counts from now."""
        self.idle = dict.fromkeys(self.idle, now_ms)
        self.odd = dict.fromkeys(self.odd, now_ms)

    def look(self, now_ms: int, view: GroupView) -> list[Record]:
        """Judge what is there now: `problems`, `due` (a rescue), `wakes`. Returns what is news."""
        before, self.wakes, self.due = self.problems, [], False
        told = self.told[:]
        self.told.clear()
        unusable = self.word.unusable
        if not self.shared and not view.legacy and not before and not unusable:
            return told
        found = (
            self._left_alone(view)
            if not self.shared or self.leaves_alone(view)
            else [
                *(self._in_part if self._unfollowed(view) else self._owners)(now_ms, view),
                *self._foreign(now_ms, view),
                *([self.refusal] if self.refusal else []),
            ]
        )
        if unusable:
            found.append(f"the group's mode cannot be used, so it counts for nothing: {unusable}")
        self.problems = tuple(
            sorted([*found, *_unreadable(view), *_unfollowed(view), *_wildcards(view)])
        )
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
        self._forget()
        if not view.legacy:
            return []
        if self.mode is None:
            return [left_alone_problem(view.legacy)]
        if self.shared:
            return []  # why is said of whom it is about
        return [kept_out_problem(name) for name, member in view.members.items() if member.legacy]

    def _in_part(self, now_ms: int, view: GroupView) -> list[str]:
        """Where not everybody is understood nobody can be judged; what is given to nobody is
        said.
        """
        self._forget()
        at_rest_ms = self.moved_ms + self.options.legacy_attempts_ms
        self.wakes += [at_rest_ms] if at_rest_ms > now_ms else []
        if not self.undecided or at_rest_ms > now_ms:
            return []
        return [
            (
                f"{len(self.undecided)} partitions are owned by nobody, because they may be those"
                f" of an old consumer that is not understood ({self.undecided[0]} is one)"
            )
        ]

    def _forget(self) -> None:
        self.idle.clear()
        self.dead.clear()
        self.odd.clear()

    def _owners(self, now_ms: int, view: GroupView) -> list[str]:
        """Who of the old consumers has not what its maths gives it."""
        mode = self.mode
        assert mode is not None, "only a shared group is judged"
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
        if lasting and mode.kind is GroupMode.MIXED:
            self._rescue_when_free(now_ms, [m for m, _ in lasting if not blocked[m]])
        elif not self.dead:
            self.rescues = 0
        return [
            f"{m} owns {owned or 'nothing'} of its {len(wants[m])} partitions and tries no more"
            + (f" ({blocked[m]} of them are owned by others)" if blocked[m] else "")
            for m, owned in sorted(self.dead)
        ] + [
            f"{m} owns other partitions than {mode.strategy} gives it:"
            " its partition.assignment.strategy or its version is another"
            for m in odd
        ]

    def _rescue_when_free(self, now_ms: int, free: list[str]) -> None:
        pause_ms = min(
            self.options.legacy_attempts_ms * 2 ** min(self.rescues, 8),
            self.options.legacy_rescue_max_ms,
        )
        at_ms = now_ms
        if self.rescues:
            assert self.rescued_ms is not None
            at_ms = self.rescued_ms + pause_ms
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

    @property
    def reported(self) -> tuple[str, ...]:
        """The problems, for the group's report: a group that nobody said anything of is not written
        for them.
        """
        return self.problems if self.mode is not None or self.word.unusable else ()


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
        for (what, name), bad in view.malformed.items()
        if what == "registration" and name != KEEPER and "/" not in bad.name
    ]


def _unfollowed(view: GroupView) -> list[str]:
    """Old consumers of which nobody here knows what they want."""
    return [
        unfollowed_problem(name, m.unfollowed) for name, m in view.members.items() if m.unfollowed
    ]


def left_alone_problem(old: int) -> str:
    """The sentence about old consumers in a group without a mode."""
    return (
        f"{old} old consumers are in the group and it has no mode: nothing is commanded; say what"
        " it is with zkcoord groups mode"
    )


def kept_out_problem(name: str) -> str:
    """The sentence about an old consumer in a coordinated group."""
    return (
        f"{name} is an old consumer in a coordinated group, and gets nothing: stop it, or share"
        " the group with it (zkcoord groups mode GROUP mixed)"
    )


def unfollowed_problem(name: str, why: str) -> str:
    """The sentence about an old consumer that is not followed."""
    return (
        f"{name} is an old consumer whose registration only old consumers can read ({why}): nobody"
        " here knows what it takes, and zkcoord's members get nothing in this group but what is"
        " certainly not its; stop it, or have it subscribe otherwise (a white list of names that"
        " do not begin with __, say, as black_list of __.*)"
    )


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
