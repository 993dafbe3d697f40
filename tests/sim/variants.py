"""Weakened systems: each takes exactly one rule out of the production code, to show that the rule
is needed and that the checkers see it. (`no_stop_barrier_no_claims` takes out two that stand for
each other, and says what follows for records and offsets.)

A variant replaces one named hook of the production code for as long as it is applied. It says which
rule it removes in the words of docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from consumer.core import topic_incarnations
from consumer.core.events import Ack, Ending, PartitionsRead, Store, Whose, Wrote
from consumer.core.lease import Lease
from consumer.core.parts import starts
from consumer.core.parts.announcements import Announcements
from consumer.core.parts.commands import Commands
from consumer.core.parts.commits import Commits
from consumer.core.parts.doubts import Doubts
from consumer.core.parts.lease_proofs import LeaseProofs
from consumer.core.parts.legacy_group import LegacyGroupRules
from consumer.core.parts.requests import Requests
from consumer.core.parts.sessions import Sessions
from consumer.core.parts.starts import Starts
from consumer.member import multis
from consumer.member.driver import MemberDriver
from consumer.member.multis import MemberMulti, MemberMultis
from tests.sim.change.variants import CHANGE_VARIANTS
from tests.sim.led.variants import LED_VARIANTS
from tests.sim.mixes import DEFAULT
from tests.sim.processes import Lookout
from tests.sim.sources.variants import SOURCE_VARIANTS
from tests.sim.variants_operators import OPERATOR_VARIANTS
from tests.sim.variants_wire import WIRE_VARIANTS
from tests.sim.weakened import Patch, Variant
from zkcoord.core import target
from zkcoord.core.assignment import assign_sticky
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.group import legacy_group
from zkcoord.core.group.command_planner import CommandPlanner
from zkcoord.core.group.deadlines import Deadlines, Removals
from zkcoord.core.group.machine import Group
from zkcoord.core.group.quarantine import Quarantine
from zkcoord.core.group.static_members import StaticMembers
from zkcoord.core.group.view import GroupView, PartitionPlace
from zkcoord.core.model import TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.mirror.read_ahead import ReadAhead
from zkcoord.zk.port import (
    Check,
    Create,
    Delete,
    GetData,
    Node,
    Op,
    Port,
    ReadDone,
    ReadResult,
    SetData,
)
from zkcoord.zk.term import asked_groups, writer
from zkcoord.znodes.commit_metadata import CommitMetadata

FOREVER_MS = 10**12


def _nothing_wrong(original: Callable[..., str]) -> Callable[..., str]:
    def closed(self: Belief, path: str, answer: Any) -> str:
        return ""

    return closed


def _hears_nothing(original: Callable[..., None]) -> Callable[..., None]:
    def fired(self: ReadAhead, event: Any) -> None:
        pass

    return fired


def _as_it_was_read(original: Callable[..., None]) -> Callable[..., None]:
    def have_read(self: ReadAhead, read: Any) -> None:
        self._changed.clear()
        original(self, read)

    return have_read


def _any_epoch(original: Callable[..., Check]) -> Callable[..., Check]:
    def check(path: str, version: int) -> Check:
        return original(path, -1)

    return check


def _lease_never_ends(
    original: Callable[[Lease, int], int],
) -> Callable[[Lease, int], int]:
    def until(self: Lease, assignment_epoch: int) -> int:
        return FOREVER_MS

    return until


def _read_renews(original: Callable[..., None]) -> Callable[..., None]:
    def write(self: MemberDriver, port: Port, action: Any) -> None:
        if not isinstance(action, Store) or action.values:
            original(self, port, action)
            return
        path, sent, token = (
            self.layout.registration(self.options.group, self.name),
            self.clock(),
            action.token,
        )

        def answered(result: ReadResult) -> None:
            there = isinstance(result, ReadDone) and isinstance(result.answers[0], Node)
            ending = (
                Ending.OK
                if there
                else Ending.EVICTED
                if isinstance(result, ReadDone)
                else Ending.UNKNOWN
            )
            self._feed(Wrote(self.clock(), token, ending, sent))

        port.read([GetData(path)], self._when(port, answered))

    return write


def _whatever_it_hears(original: Callable[..., None]) -> Callable[..., None]:
    def begin(self: Lookout, proved: Callable[[int], None]) -> None:
        original(self, proved)
        proved(self.process.clock())

    return begin


class _NeverCleared(dict[int, int]):
    def clear(self) -> None:
        """What was counted goes on."""


def _counted_on(original: Callable[..., None]) -> Callable[..., None]:
    def made(self: Deadlines, options: CoordinatorOptions) -> None:
        original(self, options)
        self.gone_since = _NeverCleared()

    return made


def _no_wait(original: property) -> property:
    return property(lambda self: 0)


def _whatever_is_subscribed(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, member, tp: self.view.exists(tp)


def _own_lease(original: property) -> property:
    return property(lambda self: original.fget(replace(self, older_lease_ms=0)))  # type: ignore[misc]


def _any_version(original: type[SetData]) -> Callable[[str, bytes, int], SetData]:
    return lambda path, data, version: SetData(path, data, -1 if "/offsets/" in path else version)


def _beside_all(
    _original: Callable[[CommitMetadata, object], str],
) -> Callable[[CommitMetadata, object], str]:
    return lambda self, _offset: self.text


def _nothing_beside(_original: Callable[..., list[Op]]) -> Callable[..., list[Op]]:
    return lambda *_: []


def _nothing_adopted(
    original: Callable[[Starts, PartitionsRead], None],
) -> Callable[[Starts, PartitionsRead], None]:
    def judge(self: Starts, e: PartitionsRead) -> None:
        others = {
            tp: replace(h, whose=Whose.FOREIGN) if h.whose is Whose.MINE else h
            for tp, h in e.holdings.items()
        }
        original(self, replace(e, holdings=others))

    return judge


def _not_resumed(
    original: Callable[[Commands, Any], None],
) -> Callable[[Commands, Any], None]:
    def withdraw(self: Commands, current: Any) -> None:
        self.drop()

    return withdraw


def _ack_unchecked(original: Callable[..., MemberMulti]) -> Callable[..., MemberMulti]:
    def multi(self: MemberDriver, action: Any) -> MemberMulti:
        made = original(self, action)
        if not isinstance(action, Ack):
            return made
        return replace(made, ops=(Check("/consumers", -1), *made.ops[1:]))

    return multi


def _unfenced(original: type[Check]) -> Callable[[str, int], Check]:
    return lambda path, version: Check(path, -1)


def _started_at_once(
    original: Callable[[GroupView, TopicPartition], tuple[PartitionPlace, str]],
) -> Callable[[GroupView, TopicPartition], tuple[PartitionPlace, str]]:
    def judge(self: GroupView, tp: TopicPartition) -> tuple[PartitionPlace, str]:
        place, member = original(self, tp)
        want = self.target.get(tp)
        if (
            place is PartitionPlace.TO_REVOKE
            and want is not None
            and want.member in self.members
            and want.member != member
            and tp not in self.start_pending
        ):
            return PartitionPlace.ASSIGNABLE, want.member
        return place, member

    return judge


def _never_evicted(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, now_ms: ()


def _claims_unfenced(original: Callable[..., MemberMulti]) -> Callable[..., MemberMulti]:
    """A start takes an owner node whoever has it."""

    def multi(self: MemberDriver, action: Any) -> MemberMulti:
        made = original(self, action)
        if not isinstance(action, Ack):
            return made
        there = self.port._ensemble.tree.nodes  # type: ignore[union-attr]  # the model's own tree: what a claim without a condition would do
        kept: list[Op] = []
        moved: dict[int, TopicPartition] = {}
        for index, op in enumerate(made.ops):
            if isinstance(op, Create) and op.ephemeral and op.path in there:
                kept.append(Delete(op.path, -1))
            if index in made.stores:
                moved[len(kept)] = made.stores[index]
            kept.append(op)
        return MemberMulti(tuple(kept), moved)

    return multi


def _foreign_is_free(
    original: Callable[[Starts, PartitionsRead], None],
) -> Callable[[Starts, PartitionsRead], None]:
    def judge(self: Starts, e: PartitionsRead) -> None:
        original(
            self,
            replace(
                e,
                holdings={
                    tp: replace(h, whose=Whose.NOBODY) if h.whose is Whose.FOREIGN else h
                    for tp, h in e.holdings.items()
                },
            ),
        )

    return judge


def _cooperative_always(original: Callable[..., bool]) -> Callable[..., bool]:
    def recall(self: CommandPlanner, result: Any) -> bool:
        self.view.recall(False)
        return False

    return recall


def _nobody_is_expected(original: Callable[..., bool]) -> Callable[..., bool]:
    def left(self: StaticMembers, now_ms: int, member: Any, evicted: bool, members: Any) -> bool:
        return original(self, now_ms, member, True, members)

    return left


def _every_topic_is_the_same(original: Callable[[str, str], bool]) -> Callable[[str, str], bool]:
    return lambda a, b: True


def _slot_until_acked(original: Callable[..., None]) -> Callable[..., None]:
    def serve(self: Coordinator, now_ms: int, actions: list[Any], idle: bool) -> None:
        options, busy = self.options, sum(1 for group in self.groups.values() if group.view.live)
        self.options = replace(options, groups_in_flight_max=options.groups_in_flight_max - busy)
        original(self, now_ms, actions, idle)
        self.options = options

    return serve


def _no_backoff(original: Callable[..., int | None]) -> Callable[..., int | None]:
    def release_at_ms(self: Quarantine) -> int | None:
        began_ms = self.by_itself_ms - max(
            self.options.quarantine_ms, self.options.quarantine_backoff_max_ms
        )
        return began_ms + 50 if self.quarantined and self.changed else original(self)

    return release_at_ms


def _same_generation(original: Callable[..., None]) -> Callable[..., None]:
    def take_target(self: Group, now_ms: int, *result: Any) -> None:
        before = self.generation
        original(self, now_ms, *result)
        self.generation = max(before, 1)

    return take_target


def _never(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *arguments: False


def _always(original: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *arguments: True


def _nothing(original: Callable[..., None]) -> Callable[..., None]:
    return lambda *arguments: None


def _nothing_to_write(original: Callable[..., tuple[()]]) -> Callable[..., tuple[()]]:
    return lambda *arguments: ()


def _started_twice(
    original: Callable[[GroupView, TopicPartition], tuple[PartitionPlace, str]],
) -> Callable[[GroupView, TopicPartition], tuple[PartitionPlace, str]]:
    def judge(self: GroupView, tp: TopicPartition) -> tuple[PartitionPlace, str]:
        place, member = original(self, tp)
        want = self.target.get(tp)
        return (
            (PartitionPlace.ASSIGNABLE, want.member)
            if place is PartitionPlace.START_PENDING and want is not None and want.member != member
            else (place, member)
        )

    return judge


def _many_commands(original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def free(self: CommandPlanner, names: list[str]) -> list[Any]:
        live, self.view.live = self.view.live, {}
        try:
            return original(self, names)
        finally:
            self.view.live = live

    return free


def _unheard(
    original: Callable[[Lease, int], int],
) -> Callable[[Lease, int], int]:
    def until(self: Lease, assignment_epoch: int) -> int:
        return self.until_ms

    return until


def _no_last_place(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda members, options: original(members, replace(options, members_per_group_max=10**6))


def _first_always(original: Callable[[Sessions], None]) -> Callable[[Sessions], None]:
    def join(self: Sessions) -> None:
        self.state.registered_before = False
        original(self)

    return join


def _automatic_always(original: Callable[..., Any]) -> Callable[..., Any]:
    def write(self: Commands | Commits, *arguments: Any) -> Any:
        given, self.options = self.options, replace(self.options, auto_commit=True)
        try:
            return original(self, *arguments)
        finally:
            self.options = given

    return write


def _whenever(original: Callable[..., None]) -> Callable[..., None]:
    def release_all(self: LegacyGroupRules, now_ms: int) -> None:
        original(self, now_ms)
        if self.state.session.release_by_ms is not None:
            self.state.session.release_by_ms = FOREVER_MS

    return release_all


def _announced_late(original: Callable[..., None]) -> Callable[..., None]:
    return lambda self, now_ms: original(self, -1)


def _obeyed_late(original: Callable[..., None]) -> Callable[..., None]:
    def advance(self: Requests, now_ms: int) -> None:
        session = self.state.session
        lapsed, session.lapsed = session.lapsed, False
        original(self, now_ms)
        session.lapsed = lapsed

    return advance


def _whole_at_once(original: Callable[..., None]) -> Callable[..., None]:
    return lambda self, m: original(self, replace(m, busy=()))


def _sticky_maths(original: Any) -> Any:
    return dict.fromkeys(original, assign_sticky)


_ALL = (
    Variant(
        "no_lease",
        "a member hands records out whatever its lease says",
        (Patch(Lease, "until", _lease_never_ends),),
    ),
    Variant(
        "announced_late",
        "a member says what it has started whatever its lease says",
        (Patch(Announcements, "announce_started", _announced_late),),
        by=("I3",),
    ),
    Variant(
        "obeyed_late",
        "a member takes up a command whatever its lease says",
        (Patch(Requests, "advance", _obeyed_late),),
        by=("I3",),
    ),
    Variant(
        "lease_by_read",
        "an idle member renews its lease by reading its registration",
        (Patch(MemberDriver, "_write", _read_renews),),
    ),
    Variant(
        "no_eviction_wait",
        "owner nodes without a registration are removed at once",
        (Patch(CoordinatorOptions, "orphan_wait_ms", _no_wait),),
    ),
    Variant(
        "no_older_lease",
        "a coordinator waits for its own lease, though the one before let members have a"
        " longer one",
        (Patch(CoordinatorOptions, "orphan_wait_ms", _own_lease),),
        "coordinators",
        ("I3",),
    ),
    Variant(
        "no_recount",
        "an outage counts as part of the wait before an orphaned owner node is removed",
        (Patch(Deadlines, "__init__", _counted_on),),
        "failsafe",
        ("I3",),
    ),
    Variant(
        "failsafe_unproved",
        "a member that is cut off takes it that nobody serves",
        (Patch(Lookout, "begin", _whatever_it_hears),),
        "failsafe",
        ("I3",),
    ),
    Variant(
        "failsafe_revives",
        "a lease that is over comes back when nobody serves",
        (Patch(LeaseProofs, "_may_prolong", _always),),
        "failsafe",
        ("I3",),
    ),
    Variant(
        "ahead_deaf",
        "what a coordinator read while it stood by counts, though it has changed since",
        (Patch(ReadAhead, "fired", _hears_nothing),),
        "coordinators",
    ),
    Variant(
        "ahead_half_read",
        "so does what changed while it was read",
        (Patch(ReadAhead, "_have_read", _as_it_was_read),),
        "coordinators",
    ),
    Variant(
        "no_version_fence",
        "offsets are written whatever their version",
        (Patch(multis, "SetData", _any_version),),
    ),
    Variant(
        "text_of_another_offset",
        "text counts beside whatever offset is stored",
        (Patch(CommitMetadata, "beside", _beside_all),),
        "commits",
        ("I21",),
    ),
    Variant(
        "text_left_out",
        "an offset is stored without the text that was committed with it",
        (Patch(MemberMultis, "_metadata_ops", _nothing_beside),),
        "commits",
        ("I21",),
    ),
    Variant(
        "no_adoption",
        "after an unknown start, owner nodes of one's own are not adopted",
        (Patch(Starts, "judge", _nothing_adopted),),
    ),
    Variant(
        "no_resume",
        "a stop that was withdrawn is not resumed",
        (Patch(Commands, "withdraw", _not_resumed),),
    ),
    Variant(
        "no_ack_check",
        "an ack does not check the member's own registration",
        (Patch(MemberDriver, "_multi", _ack_unchecked),),
    ),
    Variant(
        "no_epoch_fence",
        "the coordinator's writes do not check the epoch",
        (Patch(writer, "Check", _unfenced),),
    ),
    Variant(
        "no_stop_barrier",
        "a partition is started elsewhere before its stop was acked",
        (Patch(GroupView, "_judge", _started_at_once),),
        by=("I7",),
    ),
    Variant(
        "no_stop_barrier_no_claims",
        "as no_stop_barrier, and claims are no fence: a start takes what another owns, offsets are"
        " written whatever their version",
        (
            Patch(GroupView, "_judge", _started_at_once),
            Patch(Starts, "judge", _foreign_is_free),
            Patch(MemberDriver, "_multi", _claims_unfenced),
            Patch(multis, "SetData", _any_version),
        ),
        by=("I3", "I4", "I13"),
    ),
    Variant(
        "no_ack_deadline",
        "a member that does not answer a command is never evicted",
        (Patch(Removals, "evict", _never_evicted),),
        "members",
        ("I8",),
    ),
    Variant(
        "no_eager_barrier",
        "in the eager form only what moves is stopped, and starts do not wait for stops",
        (Patch(CommandPlanner, "_recall", _cooperative_always),),
        "eager",
        ("I15",),
    ),
    Variant(
        "no_grace",
        "a static member that leaves is gone at once",
        (Patch(StaticMembers, "left", _nobody_is_expected),),
        "static",
        ("I16",),
    ),
    Variant(
        "no_incarnation_check",
        "offsets of a topic count for another of the same name",
        (Patch(topic_incarnations, "same_incarnation", _every_topic_is_the_same),),
        "topics",
        ("I13",),
    ),
    Variant(
        "no_slots",
        "a group keeps its slot until its members have answered",
        (Patch(Coordinator, "_serve", _slot_until_acked),),
        "wide",
        ("I8", "I9"),
    ),
    Variant(
        "no_quarantine_backoff",
        "a quarantine ends 50 ms after it began, if anything changed meanwhile",
        (Patch(Quarantine, "release_at_ms", _no_backoff),),
        "members",
        ("I17",),
    ),
    Variant(
        "no_look_back",
        "a member does not look back at the topics of what it started",
        (Patch(Commands, "prove_topic_later", _nothing),),
        "moments",
    ),
    Variant(
        "no_meaning",
        "a member starts partitions of a topic whatever incarnation of it the command means",
        (Patch(starts, "is_meant", _always),),
        "moments",
    ),
    Variant(
        "no_owners_of_the_past",
        "owner nodes and starts of a topic that was made again count for the new one",
        (Patch(GroupView, "_outdated", _never),),
        "topics",
    ),
    Variant(
        "no_clean",
        "commands of older epochs, of other incarnations and of members that are gone are not"
        " deleted",
        (Patch(Removals, "clean", _nothing_to_write),),
        "coordinators",
    ),
    Variant(
        "no_start_barrier",
        "a partition is started while somebody else's start of it is outstanding",
        (Patch(GroupView, "_judge", _started_twice),),
    ),
    Variant(
        "no_one_command",
        "a member may have several commands outstanding",
        (Patch(CommandPlanner, "_free", _many_commands),),
        DEFAULT,
        ("I6",),
    ),
    Variant(
        "no_floor",
        "a lease counts also for what was lost and not heard of",
        (Patch(Lease, "until", _unheard),),
    ),
    Variant(
        "no_rename",
        "a static member that is back does not take its place in the target",
        (Patch(GroupView, "rename", _nothing),),
        "static",
    ),
    Variant(
        "no_replaced_process",
        "a process whose instance was taken over takes it back when it returns",
        (Patch(Sessions, "_join", _first_always),),
        "static",
    ),
    Variant(
        "no_second_look",
        "what the target before says is started whatever a member has subscribed since",
        (Patch(CommandPlanner, "_may_start", _whatever_is_subscribed),),
        "full",
        ("I20",),
    ),
    Variant(
        "no_places",
        "a group takes any number of members",
        (Patch(target, "_admit", _no_last_place),),
        "full",
        ("I19",),
    ),
    Variant(
        "stores_unasked",
        "what is given up is stored at the position also where the application commits by itself",
        (
            Patch(Commands, "revoked", _automatic_always),
            Patch(Commands, "write_ack", _automatic_always),
        ),
        "default",
        ("I18",),
    ),
    Variant(
        "leaves_unasked",
        "a member that leaves stores its positions also where the application commits by itself",
        (Patch(Commits, "store_positions", _automatic_always),),
        "default",
        ("I18",),
    ),
    Variant(
        "no_release",
        "a member of a shared group lets go when the coordinator says so, not when the"
        " registrations change",
        (Patch(LegacyGroupRules, "_release_all", _nothing),),
        "mixed",
        ("C3",),
    ),
    Variant(
        "no_release_deadline",
        "it waits for its application as long as that takes",
        (Patch(LegacyGroupRules, "_release_all", _whenever),),
        "mixed",
        ("C3",),
    ),
    Variant(
        "no_rescue",
        "an old consumer that gave up is left to itself",
        (Patch(legacy_group.LegacyGroup, "rescue", _nothing_to_write),),
        "mixed",
        ("I8",),
    ),
    Variant(
        "no_old_maths",
        "a shared group is assigned as any other",
        (Patch(legacy_group, "LEGACY_ASSIGNORS", _sticky_maths),),
        "mixed",
        ("I8",),
    ),
    Variant(
        "no_partial_stop",
        "what the application is working on is given up with the rest",
        (Patch(Commands, "revoked", _whole_at_once),),
        "members",
        ("I13",),
    ),
    Variant(
        "first_offset_unmarked",
        "a first offset is stored whatever is said of its topic's offsets by then",
        (
            Patch(MemberMultis, "_note_checks", _nothing_to_write),
            Patch(Doubts, "_settle_note", _nothing),
        ),
        "commits",
        ("I13",),
    ),
    Variant(
        "any_mode",
        "a group's mode counts whoever could have made it",
        (Patch(Belief, "closed", _nothing_wrong),),
        "roles",
        ("I22",),
    ),
    Variant(
        "no_fence_for_asks",
        "a coordinator makes the groups that are asked for whether it still leads or not",
        (Patch(asked_groups, "Check", _any_epoch),),
        "roles",
        ("I2",),
    ),
    Variant(
        "no_generations",
        "another target is no new generation",
        (Patch(Group, "_take_target", _same_generation),),
        "default",
        ("I14",),
    ),
)
VARIANTS: dict[str, Variant] = {
    v.name: v
    for v in (
        *_ALL,
        *WIRE_VARIANTS,
        *CHANGE_VARIANTS,
        *LED_VARIANTS,
        *SOURCE_VARIANTS,
        *OPERATOR_VARIANTS,
    )
}
