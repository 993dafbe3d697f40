"""One group: when to compute a new target, and what to write next.

Level-triggered: `decide` looks at the view (members, channels, commands, owners) and says the next
write, whatever led there. What it remembers besides the view is the target and timers. One write at
a time; each is of one sort, so that the failure of one (a member that acked meanwhile) never stops
another:

1. evict      a command is older than its deadline: delete it, the member's registration and its
   other commands; if the command is gone meanwhile, nothing happens. Or an operator asks for it;
2. clean      commands of members that are gone, of other incarnations or older epochs;
3. orphans    owner nodes whose registration is gone for longer than any lease;
4. command    stop what a member owns and must not own; else start what it is to own and is free. At
   most one command outstanding per member;
5. channels   the empty channel of a member that is gone, alone.

A partition is started only when it has no owner node and is in nobody's outstanding start, so a
stuck member delays only the partitions that it holds and those it is to get. A group that fails
again and again is quarantined: 1 to 3 and 5 go on, nothing is started or stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from zkcoord.core.assignment import Assignment
from zkcoord.core.error_codes import REBALANCE_FAILED
from zkcoord.core.events import (
    Assign,
    GroupDelta,
    PutMetadata,
    Record,
    Send,
    WriteOp,
    effects,
)
from zkcoord.core.model import (
    Cause,
    GroupMetadata,
    GroupState,
    Member,
    Thread,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.shared import mark_of
from zkcoord.core.target import (
    PendingAssignorCall,
    TargetAssignment,
    TargetInput,
    accept_proposal,
    assign,
    count_moves,
    differing,
    fits,
    hand_out_nothing,
    prepare,
    proposal_error,
)

from .command_planner import CommandPlanner
from .deadlines import LATE, Deadlines, Removals, evicted_record
from .legacy_group import LegacyGroup
from .malformed_log import MalformedLog
from .operator_requests import OPERATOR, ModeSaid, OperatorRequests
from .quarantine import Quarantine
from .rebalance_log import TAKEOVER, RebalanceLog, membership_cause
from .report import is_due, report
from .states import need_of, next_state
from .static_members import StaticMembers
from .view import GroupView


class Group:
    """The machine of one group. `targets` gives the resolved world; `next_seq` numbers this term's
    commands, `next_token` its questions to custom assignors.
    """

    def __init__(
        self,
        name: str,
        options: CoordinatorOptions,
        epoch: int,
        targets: TargetInput,
        next_seq: Callable[[], int],
        next_token: Callable[[], int],
    ) -> None:
        self.name = name
        self.options = options
        self.view = GroupView(epoch, targets.topics, options.filed_at_once_max)
        self.targets = targets
        self.next_token = next_token
        self.planner = CommandPlanner(self.view, targets, options, next_seq)
        self.static_members = StaticMembers(options.grace_max_ms)
        self.quarantine = Quarantine(options, name)
        self.deadlines = Deadlines(options)
        self.removals = Removals(self.view, self.deadlines, options)
        self.requests = OperatorRequests()
        self.word = ModeSaid(name)
        self.legacy = LegacyGroup(name, options, self.word)
        self.log = RebalanceLog(name)
        self.malformed_log = MalformedLog(name)
        # What happened and was not handed on yet: for the journal, and calls of custom assignors.
        self.records: list[Record | Assign] = []

        # Counts the targets of this group; never goes back.
        self.generation = 0
        self.state = GroupState.EMPTY
        # The report in the group's node; None until it is read.
        self.metadata: GroupMetadata | None = None
        # The target, as the assignor made it, and why it was made.
        self.result: TargetAssignment = TargetAssignment({}, "", {}, (), ())
        self.cause = Cause()
        # The question to a custom assignor that is out.
        self.assignor_call: PendingAssignorCall | None = None
        # How often each partition moved since the last calm.
        self.moved: dict[TopicPartition, int] = {}

    # what happened

    def changed(self, now_ms: int, delta: GroupDelta, evicted: bool = False) -> None:
        """Take what was read, or (`evicted`: of our own deletion of registrations) what was
        written.
        """
        before = {
            n: self.view.members[n]
            for n in (self.view.members if delta.full else delta.members)
            if n in self.view.members
        }
        names = self.view.apply(delta)
        if delta.metadata is not None and self.metadata is None:
            self._inherit(now_ms, delta.metadata)
            self.word.inherit(delta.mode, delta.metadata.paused)
        self.removals.departed |= self.view.channels.intersection(names) - self.view.members.keys()
        for member in self.deadlines.watch(now_ms, delta, self.view, self.removals.departed):
            self.log.acked(now_ms, member)
        self.records.extend(self.malformed_log.report(now_ms, self.view.take_malformed()))
        self._take_up_requests(now_ms)
        if self.word.take(delta.mode, delta.full):
            self._mode_changed(now_ms)
        gone = self.removals.evicted(names, evicted, delta.full)
        for name, by in gone.items():
            self.records.append(evicted_record(self.name, name, by))
            if not by and not self.word.paused:
                self.records += self.quarantine.failed(now_ms, f"{name} {LATE} and was evicted")
        if names:
            self.quarantine.membership_changed()
            self._membership(now_ms, before, names, gone)

    def _inherit(self, now_ms: int, metadata: GroupMetadata) -> None:
        """What the coordinator before us left: a report, promises to static members, a
        quarantine.
        """
        self.metadata = metadata
        self.generation = metadata.generation
        self.static_members.load(metadata.departed)
        self.static_members.settle(now_ms, self.view.members)
        if metadata.state is GroupState.QUARANTINED:
            self.quarantine.inherit(now_ms, metadata.failure)
            self.planner.told = dict.fromkeys(self.view.members, REBALANCE_FAILED)

    def _membership(
        self, now_ms: int, before: dict[str, Member], names: tuple[str, ...], out: Container[str]
    ) -> None:
        """Members came, went (some were put `out`) or changed: a new target, but for static ones
        within their grace.
        """
        members = self.view.members
        left = [n for n in names if n not in members]
        joined = [n for n in names if n not in before]
        news = [n for n in names if n in members and n in before]
        for name in (*left, *news):
            self.planner.forget(name)
        arrived = set(joined)
        # who takes an instance over may be seen in one reading with the end of the one before
        stayed = {n: m for n, m in members.items() if n not in arrived} if left else {}
        for name in left:
            if not self.legacy.shared and self.static_members.left(
                now_ms, before[name], name in out, stayed
            ):
                self._static("left", before[name].instance, member=name)
            else:
                news.append(name)
        for name in joined:
            came, topics_of = members[name], self.targets.topics_of
            place = None if came.instance is None else self.static_members.joined(came, topics_of)
            if place is None or not fits(members[name], self.result, self.options):
                news.append(name)
            else:
                self._static("returned", members[name].instance, member=name)
                self._takes_place(place, name)
        if news:
            left += [n for n in news if n in members and members[n].is_leaving]
            self.wants_target(now_ms, membership_cause(news, joined, left))

    def _static(self, event: str, instance: str | None, **member: str) -> None:
        detail = {"event": event, "instance": instance, **member}
        self.records.append(Record("static", self.name, detail))

    def _takes_place(self, before: str, after: str) -> None:
        """A static member has another name: target, pending answer and news are about that."""
        self.view.rename(before, after)
        if self.assignor_call is not None:
            self.assignor_call = self.assignor_call.renamed(before, after)
        self.result = self.result.renamed(before, after)

    def _take_up_requests(self, now_ms: int) -> None:
        """Operators' requests that were not seen before: assign at once, quarantined or not."""
        for request in self.requests.take_up(self.view.requests):
            self._release(OPERATOR)
            self._assign_at_once(now_ms, Cause(OPERATOR, request.by))

    def _release(self, because: str) -> None:
        """End the quarantine, if there is one; what follows is a rebalance of its own."""
        if self.quarantine.quarantined:
            self.records += self.quarantine.release(because)
            self.deadlines.change_first_ms = None

    def _assign_at_once(self, now_ms: int, cause: Cause) -> None:
        self.wants_target(now_ms, cause)
        self.deadlines.assign_at_ms = now_ms

    def _mode_changed(self, now_ms: int) -> None:
        """An operator said whose the group is, or paused or resumed it. Old consumers know no
        promises to static members. A pause waits for no assignor and for no quarantine.
        """
        records, cause = self.word.news(self.metadata.paused if self.metadata else "")
        self.records += records
        if self.legacy.shared:
            self.static_members.promises.clear()
        if cause.reason != OPERATOR:
            self.assignor_call = None
            self._release(OPERATOR)
        self._assign_at_once(now_ms, cause)
        if cause.reason != OPERATOR:
            self.cause = self.log.cause = cause  # whatever it comes in between of

    def wants_target(self, now_ms: int, cause: Cause) -> None:
        """Members, subscriptions or partitions changed: assign anew after the quiet window."""
        t, o = self.deadlines, self.options
        if t.changed(now_ms):
            self.moved = {}
        if t.change_first_ms is None:
            t.change_first_ms = now_ms
            if self.state is GroupState.EMPTY and not self.view.target:
                t.not_before_ms = now_ms + o.initial_delay_ms
            self.cause = cause
            self.log.begin(now_ms, cause)
        quiet_ms = min(now_ms + t.window_ms(), t.change_first_ms + o.debounce_max_ms)
        pausing = self.word.paused and self.view.target  # it waits for nobody who comes
        t.assign_at_ms = now_ms if pausing else max(quiet_ms, t.not_before_ms)

    def answered(self, now_ms: int, token: int, answer: Assignment | None, failure: str) -> None:
        """A custom assignor answered, or failed."""
        if self.assignor_call is None or self.assignor_call.token != token:
            return
        call, self.assignor_call = self.assignor_call, None
        prepared = call.prepared
        wrong = failure
        if answer is not None:
            wrong = "" if prepared.built_in else proposal_error(prepared, answer)
            if not wrong:
                self.requests.assigned(call.fresh)
                self._take_target(now_ms, accept_proposal(prepared, answer), self._held())
                return
        self.records.append(
            Record("assignor", self.name, {"assignor": prepared.assignor, "reason": wrong})
        )
        self.records += self.quarantine.failed(now_ms, f"assignor {prepared.assignor}: {wrong}")
        self.wants_target(now_ms, self.cause)
        backoff_ms = self.options.backoff_ms(self.quarantine.failures)
        assert self.deadlines.assign_at_ms is not None
        self.deadlines.assign_at_ms = max(self.deadlines.assign_at_ms, now_ms + backoff_ms)

    def wrote(self, now_ms: int, ops: tuple[WriteOp, ...], nodes: tuple[str, ...]) -> None:
        """A write happened: the view takes its effects without reading them again."""
        delta = effects(ops, nodes)
        for op in ops:
            if isinstance(op, Send):
                registered = self.view.members.get(op.command.member)
                if registered is not None and registered.incarnation == op.command.incarnation:
                    self.log.sent(now_ms, op.command)
                    self.planner.wrote(op.command)
            elif isinstance(op, PutMetadata):
                self.metadata = op.metadata
        self.deadlines.refusals, self.removals.evicting = 0, ""
        self.changed(now_ms, delta, evicted=bool(delta.members))

    def refused(self, now_ms: int, unknown: bool) -> None:
        """A write was refused or is `unknown`: back off when that repeats (the caller reads the
        group before the next decision, and what was to be evicted is seen there).
        """
        self.removals.eviction_ended(unknown)
        self.deadlines.refusals += 1
        if self.deadlines.refusals > 1:
            self.deadlines.retry_at_ms = now_ms + self.options.backoff_ms(self.deadlines.refusals)

    # what to do

    def next_wake_ms(self) -> int | None:
        """When `decide` may have something to do though nothing changes; None = never."""
        quarantined = self.quarantine.release_at_ms()
        assigning = quarantined is None and self.assignor_call is None
        wakes = self.static_members.next_wake_ms(), self.planner.next_wake_ms(), quarantined
        others = [at for at in wakes if at is not None]
        return self.deadlines.next_wake_ms(
            assigning, not self.legacy.shared, others + self.legacy.wakes
        )

    def decide(self, now_ms: int) -> tuple[WriteOp, ...]:
        """The next write, or nothing. Deterministic: members and partitions are taken in sorted
        order.
        """
        if now_ms < self.deadlines.retry_at_ms:
            return ()
        self.deadlines.retry_at_ms = 0
        if not self._filed(now_ms):
            return ()
        removed = self._remove(now_ms)
        if removed:
            return removed
        left_alone = self.legacy.leaves_alone(self.view)
        self._time_passed(now_ms)
        self._assign_when_due(now_ms, left_alone)
        sends = () if self.unfinished else self._commands(now_ms, left_alone)
        if self.unfinished:
            return ()
        failed = self.quarantine.quarantined
        need = need_of(self.view, failed, self._settled, left_alone, self.word.paused)
        state = next_state(self.state, need)
        if state is not self.state:
            self.log.state(now_ms, state, self.view, self.result)
        self.state = state
        moves = bool(self.view.to_revoke or self.view.assignable) and not left_alone
        self.quarantine.rests(now_ms, self._settled and not (failed or self.view.live or moves))
        self.records.extend(self.log.take_records(self.generation))
        self.records.extend(self.legacy.look(now_ms, self.view))
        done = self.requests.deletions(self.view.requests, self._settled)
        ops = sends + done + self._put_metadata(bool(sends))
        return (
            ops
            or (self.legacy.rescue(now_ms) if self._settled else ())
            or self.removals.drop_channel(now_ms)
        )

    @property
    def weight(self) -> int:
        """What deciding it may cost: its partitions and members."""
        return 1 + len(self.view.members) + max(len(self.view.target), len(self.view.owners))

    @property
    def unfinished(self) -> bool:
        """Whether it is to be decided again at once: partitions are still to be filed."""
        return self.view.unfinished

    def _filed(self, now_ms: int) -> bool:
        """File a portion of what is to be filed; whether nothing is left."""
        if not self.unfinished:
            return True
        self.view.file()
        if self.unfinished:
            return False
        # orphans may have been found
        self.deadlines.watch(now_ms, GroupDelta(), self.view, self.removals.departed)
        return True

    def _time_passed(self, now_ms: int) -> None:
        """Graces and quarantines end."""
        for instance in self.static_members.expire(now_ms):
            self._static("expired", instance)
            self.wants_target(now_ms, Cause("static member did not come back", instance))
        at_ms = self.quarantine.release_at_ms()
        if at_ms is not None and at_ms <= now_ms:
            because = "membership changed" if self.quarantine.changed else "time"
            self._release(because)
            self._assign_at_once(now_ms, Cause("quarantine is over", ""))

    def _commands(self, now_ms: int, left_alone: bool) -> tuple[WriteOp, ...]:
        self.planner.seen = mark_of(self.view.members.values()) if self.legacy.shared else ""
        if not (left_alone or self.quarantine.quarantined):
            return self.planner.commands(now_ms, self.result, self.generation, self._settled)
        self.planner.pause()
        why = self.quarantine.reason
        return () if left_alone else self.planner.quarantined(self.result, self.generation, why)

    def _remove(self, now_ms: int) -> tuple[WriteOp, ...]:
        """What is to be deleted before anything else is decided."""
        return (
            self.removals.evict(now_ms)
            or self.removals.clean()
            or self.legacy.keep_out(self.view)
            or (() if self.legacy.shared else self.removals.free_orphans(now_ms))
        )

    def _assign_when_due(self, now_ms: int, left_alone: bool) -> None:
        t = self.deadlines
        if self.legacy.learned(now_ms, self.view):
            t.assign_at_ms = now_ms
        if (
            t.assign_at_ms is None
            or now_ms < t.assign_at_ms
            or self.assignor_call is not None
            or self.quarantine.quarantined
        ):
            return
        t.assign_at_ms = t.change_first_ms = None
        t.not_before_ms = now_ms
        if left_alone:
            return self.log.left_alone()
        t.assigned(now_ms, bool(self.view.members))
        now_held, fresh = self._held(), self.requests.fresh
        if self.legacy.shared:
            self.requests.assigned(fresh)
            target = self.legacy.target(now_ms, self.targets, self.view)
            return self._take_target(now_ms, target, now_held)
        prepared = prepare(
            self.name,
            self.targets,
            self.view.coordinated_members(),
            self.static_members.away(),
            {} if fresh else now_held,
            dict(self.moved),
            self.options,
            self.metadata,
            not self.view.aimed,
        )
        if self.word.paused:
            self.requests.assigned(fresh)
            return self._take_target(now_ms, hand_out_nothing(prepared), now_held)
        if prepared.built_in and prepared.partitions <= self.options.assigned_here_max:
            self.requests.assigned(fresh)
            self._take_target(now_ms, accept_proposal(prepared, assign(prepared)), now_held)
            return
        self.assignor_call = PendingAssignorCall(self.next_token(), prepared, fresh)
        self.records.append(
            Assign(self.name, self.assignor_call.token, prepared.assignor, prepared.given)
        )

    def _held(self) -> dict[TopicPartition, Thread]:
        """Who has what now: owned, or promised to a static member (not while paused)."""
        owned = self.view.current_owners()
        promised = {} if self.word.paused else self.static_members.held(self.view.members)
        return {**promised, **owned} if promised else owned

    def _take_target(
        self, now_ms: int, result: TargetAssignment, held: Mapping[TopicPartition, Thread]
    ) -> None:
        moved = differing(result.target, held)
        if (moved or self.view.target) and dict(result.target) != self.view.target:
            self.generation += 1
        self.result = result
        count_moves(self.view.target, result.target, self.view.members, self.moved)
        if not self.legacy.shared and not self.word.paused:
            self.static_members.promise(
                result.target,
                self.view.coordinated_members(),
                result.rejected,
                self.targets.topics_of,
            )
        self.view.retarget(result.target)
        self.log.assigned(now_ms, moved, result)

    @property
    def _settled(self) -> bool:
        """Whether no other target is on its way."""
        return self.deadlines.assign_at_ms is None and self.assignor_call is None

    def _put_metadata(self, beside_commands: bool) -> tuple[WriteOp, ...]:
        """The group's report: beside commands, and at rest."""
        if self.legacy.keeps_silent(self.view):
            return ()
        before = self.metadata or GroupMetadata()
        after = report(
            before,
            self.generation,
            self.state,
            self.result,
            len(self.view.members),
            self.static_members.departed(),
            self.cause,
            self.quarantine,
            self.legacy,
        )
        assigns = self.deadlines.assign_at_ms is not None
        if not is_due(before, after, beside_commands, assigns, self.quarantine):
            return ()
        return (
            PutMetadata(
                replace(after, ownership=self.log.ownership(self.view))
                if self.state is GroupState.STABLE
                else after
            ),
        )

    def take_over(self, now_ms: int) -> None:
        """The world was read at the beginning of a term: assign at once, without a quiet window."""
        t = self.deadlines
        t.assign_at_ms = t.change_first_ms = t.not_before_ms = now_ms
        self.cause = Cause(TAKEOVER, "")
        self.log.begin(now_ms, self.cause)
