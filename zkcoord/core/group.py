"""One group: when to compute a new target, and what to write next.

Level-triggered: `decide` looks at the view (members, channels, commands, owners) and says the next write, whatever led there. What it remembers besides the view is the target
and timers. One write at a time; each is of one sort, so that the failure of one (a member that acked meanwhile) never stops another:

1. evict      a command is older than its deadline: delete it, the member's registration and its other commands; if the command is gone meanwhile, nothing happens;
2. clean      commands of members that are gone, of other incarnations or older epochs;
3. orphans    owner nodes whose registration is gone for longer than any lease;
4. command    stop what a member owns and shall not; else start what it shall own and is free. At most one command outstanding per member;
5. channels   the empty channel of a member that is gone, alone.

A partition is started only when it has no owner node and is in nobody's outstanding start, so a stuck member delays only the partitions that it holds and those it shall get.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from .events import (DeleteChannel, DeleteCommand, DeleteOwner, DeleteRegistration, GroupDelta, PutMetadata, Record, Send, WriteOp)
from .model import Cause, Command, GroupMetadata, GroupState, Malformed, Member, Option, TopicPartition
from .options import CoordinatorOptions
from .rebalance import TAKEOVER, RebalanceLog
from .states import Need, next_state
from .target import TargetInput, Targets, compute_target
from .view import GroupView


@dataclass(slots=True)
class Timers:
    """The core's own clocks of one group, all in ms; None = not running."""

    change_first_ms: int | None = None
    assign_at_ms: int | None = None
    assigned_ms: list[int] = field(default_factory=list)
    retry_at_ms: int = 0
    refusals: int = 0
    deadlines: dict[tuple[str, str], int] = field(default_factory=dict)
    gone_since: dict[int, int] = field(default_factory=dict)
    empty_channels: dict[str, int] = field(default_factory=dict)


class Group:
    """The machine of one group. `topics` and `matches` give the resolved world; `next_seq` numbers this term's commands."""

    def __init__(self, name: str, options: CoordinatorOptions, epoch: int, targets: TargetInput, next_seq: Callable[[], int]) -> None:
        self.name = name
        self.options = options
        self.epoch = epoch
        self.view = GroupView(epoch)
        self.targets = targets
        self.next_seq = next_seq
        self.generation = 0
        self.state = GroupState.EMPTY
        self.metadata: GroupMetadata | None = None
        self.result: Targets = Targets({}, "", {}, (), ())
        self.cause = Cause()
        self.timers = Timers()
        self.log = RebalanceLog(name)
        self.departed_names: set[str] = set()
        self.reported: set[tuple[str, str]] = set()
        self.records: list[Record] = []

    # what happened

    def changed(self, now_ms: int, delta: GroupDelta) -> None:
        """Take what was read."""
        before = {n for n in (self.view.members if delta.full else delta.members) if n in self.view.members}
        if delta.metadata is not None and self.metadata is None:
            self.metadata = delta.metadata
            self.generation = delta.metadata.generation
        names = self.view.apply(delta)
        left = [n for n in names if n not in self.view.members]
        self.departed_names.update(left)
        self._watch_timers(now_ms, delta)
        self._report_malformed()
        if names:
            joined = [n for n in names if n in self.view.members and n not in before]
            reason = "member joined" if joined else "member left" if left else "subscription changed"
            self.wants_target(now_ms, Cause(reason, (joined or left or list(names))[0]))

    def wants_target(self, now_ms: int, cause: Cause) -> None:
        """Members, subscriptions or partitions changed: assign anew after the quiet window."""
        t, o = self.timers, self.options
        t.assigned_ms = [at for at in t.assigned_ms if now_ms - at < o.storm_window_ms]
        window_ms = o.debounce_storm_ms if len(t.assigned_ms) >= o.assignments_per_storm_window else o.debounce_ms
        if t.change_first_ms is None:
            t.change_first_ms = now_ms
            self.cause = cause
            self.log.begin(now_ms, cause)
        t.assign_at_ms = min(now_ms + window_ms, t.change_first_ms + o.debounce_max_ms)

    def wrote(self, now_ms: int, ops: tuple[WriteOp, ...], nodes: tuple[str, ...]) -> None:
        """A write happened: the view takes its effects without reading them again."""
        created = iter(nodes)
        commands: dict[tuple[str, str], Command | Malformed | None] = {}
        channels: dict[str, bool] = {}
        evicted = {op.member: None for op in ops if isinstance(op, DeleteRegistration)}
        for op in ops:
            if isinstance(op, Send):
                node = next(created)
                commands[(op.command.member, node)] = replace(op.command, node=node)
                self.log.sent(now_ms, op.command)
            elif isinstance(op, DeleteCommand):
                commands[(op.member, op.node)] = None
            elif isinstance(op, DeleteRegistration):
                self.records.append(Record("evicted", self.name, {"member": op.member, "reason": "did not answer a command in time"}))
            elif isinstance(op, DeleteChannel):
                channels[op.member] = False
            elif isinstance(op, PutMetadata):
                self.metadata = op.metadata
        self.timers.refusals = 0
        owners = {op.partition: None for op in ops if isinstance(op, DeleteOwner)}
        self.changed(now_ms, GroupDelta(members=evicted, commands=commands, channels=channels, owners=owners))

    def refused(self, now_ms: int) -> None:
        """A write was refused or is unknown: back off when that repeats (the caller reads the group before the next decision)."""
        t, o = self.timers, self.options
        t.refusals += 1
        if t.refusals > 1:
            t.retry_at_ms = now_ms + min(o.retry_backoff_ms * 2 ** min(t.refusals, 16), o.retry_backoff_max_ms)

    def _watch_timers(self, now_ms: int, delta: GroupDelta) -> None:
        """Start the clocks of what is seen for the first time, stop those of what is gone. Looks only at the members that were read."""
        t, view = self.timers, self.view
        touched = {*delta.members, *delta.channels, *(m for m, _ in delta.commands)}
        if delta.full:
            touched.update(view.channels, t.empty_channels)
        for key in [k for k in t.deadlines if k[1] not in view.live.get(k[0], {})]:
            del t.deadlines[key]
            self.log.acked(now_ms, key[0])
        for member in touched:
            for node in view.live.get(member, {}):
                if (member, node) not in t.deadlines:
                    wanted = view.members[member].rebalance_timeout_ms
                    t.deadlines[(member, node)] = now_ms + min(wanted, self.options.rebalance_timeout_max_ms)
        sessions = set(view.orphans.values())
        for session in [s for s in t.gone_since if s not in sessions]:
            del t.gone_since[session]
        for session in sessions:
            t.gone_since.setdefault(session, now_ms)
        for member in touched:
            idle = member in view.channels and member not in view.members and ("registration", member) not in view.malformed and not view.commands.get(member)
            if idle:
                wait = self.options.channel_departed_ms if member in self.departed_names else self.options.channel_orphan_ms
                t.empty_channels.setdefault(member, now_ms + wait)
            else:
                t.empty_channels.pop(member, None)

    def _report_malformed(self) -> None:
        for key in sorted(set(self.view.malformed) - self.reported):
            bad = self.view.malformed[key]
            self.records.append(Record("malformed", self.name, {"what": bad.what, "name": bad.name, "reason": bad.reason}))
        self.reported = set(self.view.malformed)

    # what to do

    def next_wake_ms(self) -> int | None:
        """When `decide` may have something to do though nothing changes; None = never."""
        t = self.timers
        times = list(t.deadlines.values()) + list(t.empty_channels.values())
        times += [since + self.options.orphan_wait_ms for since in t.gone_since.values()]
        if t.assign_at_ms is not None:
            times.append(t.assign_at_ms)
        if not times:
            return t.retry_at_ms or None
        return max(min(times), t.retry_at_ms)

    def decide(self, now_ms: int) -> tuple[WriteOp, ...]:
        """The next write, or nothing. Deterministic: members and partitions are taken in sorted order."""
        if now_ms < self.timers.retry_at_ms:
            return ()
        self.timers.retry_at_ms = 0
        for step in (self._evict, self._clean, self._free_orphans):
            ops = step(now_ms)
            if ops:
                return ops
        self._assign_when_due(now_ms)
        sends = self._commands() if not self._mixed() else ()
        state = next_state(self.state, self._need())
        if state is not self.state:
            self.log.state(now_ms, state, self.view, self.result)
        self.state = state
        self.records.extend(self.log.take_records(self.generation))
        ops = sends + self._put_metadata(bool(sends))
        return ops or self._drop_channel(now_ms)

    def _mixed(self) -> bool:
        """A live legacy member: its group is not ours to move (the contract for mixed groups is not built yet), so nothing is commanded."""
        return self.view.legacy > 0

    def _evict(self, now_ms: int) -> tuple[WriteOp, ...]:
        for (member, node), at_ms in sorted(self.timers.deadlines.items()):
            if at_ms <= now_ms:
                others = sorted(n for n in self.view.commands.get(member, {}) if n != node)
                return (DeleteCommand(member, node), DeleteRegistration(member), *(DeleteCommand(member, n) for n in others))
        return ()

    def _clean(self, _now_ms: int) -> tuple[WriteOp, ...]:
        stale = sorted(self.view.stale)[: self.options.ops_per_write_max]
        return tuple(DeleteCommand(member, node) for member, node in stale)

    def _free_orphans(self, now_ms: int) -> tuple[WriteOp, ...]:
        due = {s for s, since in self.timers.gone_since.items() if since + self.options.orphan_wait_ms <= now_ms}
        if not due:
            return ()
        tps = sorted(tp for tp, session in self.view.orphans.items() if session in due)[: self.options.ops_per_write_max]
        ops = []
        for tp in tps:
            owner = self.view.owners[tp]
            assert not isinstance(owner, Malformed)
            ops.append(DeleteOwner(tp, owner.version))
        return tuple(ops)

    def _assign_when_due(self, now_ms: int) -> None:
        t = self.timers
        if t.assign_at_ms is None or now_ms < t.assign_at_ms:
            return
        t.assign_at_ms = t.change_first_ms = None
        t.assigned_ms.append(now_ms)
        members = {n: m for n, m in self.view.members.items() if not m.legacy and n in self.view.channels}
        held = self.view.current_owners()
        result = compute_target(self.name, self.targets, members, held, self.options)
        moved = sum(1 for tp, thread in result.target.items() if held.get(tp) != thread) + sum(1 for tp in held if tp not in result.target)
        if dict(result.target) != self.view.target and (moved or self.view.target):
            self.generation += 1
        self.result = result
        self.view.retarget(result.target)
        self.log.assigned(now_ms, moved, result)

    def _commands(self) -> tuple[WriteOp, ...]:
        """One command for each member that has none outstanding: stop before start."""
        sends: list[WriteOp] = []
        size = 0
        for name in sorted(set(self.view.wrong) | set(self.view.ready) | set(self.result.rejected)):
            member = self.view.members.get(name)
            if member is None or name in self.view.live or name not in self.view.channels:
                continue
            command = self._command_for(member)
            if command is None:
                continue
            size += _command_bytes(command)
            if sends and (size > self.options.commands_bytes_per_write_max or len(sends) >= self.options.ops_per_write_max):
                break
            sends.append(Send(command))
        return tuple(sends)

    def _command_for(self, member: Member) -> Command | None:
        rejected = self.result.rejected.get(member.name)
        wrong = self.view.wrong.get(member.name)
        if wrong:
            stop = self._cap(member, sorted(wrong))
            return Command(member.name, member.incarnation, Option.STOP, self.epoch, self.next_seq(), self.generation, stop=stop)
        if rejected is not None:
            return Command(member.name, member.incarnation, Option.REJECT, self.epoch, self.next_seq(), self.generation,
                           code=rejected.code, fatal=rejected.fatal, message=rejected.message)
        ready = self.view.ready.get(member.name)
        if not ready:
            return None
        start = {tp: self.view.target[tp] for tp in self._cap(member, sorted(ready))}
        return Command(member.name, member.incarnation, Option.START, self.epoch, self.next_seq(), self.generation, start=start)

    def _cap(self, member: Member, partitions: list[TopicPartition]) -> tuple[TopicPartition, ...]:
        """As many partitions as one command, and its ack, may carry."""
        taken: list[TopicPartition] = []
        size = 0
        for tp in partitions[: self.options.partitions_per_command_max]:
            size += len(tp.topic) + len(member.name) + 32
            if taken and size > self.options.command_bytes_max:
                break
            taken.append(tp)
        return tuple(taken)

    def _need(self) -> Need:
        view = self.view
        if self.timers.assign_at_ms is not None:
            return Need.TARGET if view.members else Need.NOBODY
        if not view.members:
            return Need.NOBODY
        options = {c.option for nodes in view.live.values() for c in nodes.values()}
        if view.wrong or Option.STOP in options or any(tp in view.target for tp in (*view.orphans, *view.blocked)):
            return Need.STOPS
        if view.ready or view.starting or Option.START in options:
            return Need.STARTS
        return Need.NOTHING

    def _put_metadata(self, beside_commands: bool) -> tuple[WriteOp, ...]:
        """The group's report: beside commands, and when the group comes to rest."""
        if not beside_commands and self.state not in (GroupState.STABLE, GroupState.EMPTY):
            return ()
        before = self.metadata or GroupMetadata()
        after = GroupMetadata(
            generation=self.generation, state=self.state, assignor=self.result.assignor or before.assignor, topics=self.result.topics,
            members=len(self.view.members), configuration=before.configuration, departed=before.departed, cause=self.cause, since_ms=before.since_ms,
            ownership=self.log.ownership(self.view) if self.state is GroupState.STABLE else "")
        if self.timers.assign_at_ms is not None or _same_report(before, after):
            return ()
        return (PutMetadata(after),)

    def _drop_channel(self, now_ms: int) -> tuple[WriteOp, ...]:
        for member, at_ms in sorted(self.timers.empty_channels.items()):
            if at_ms <= now_ms:
                self.departed_names.discard(member)
                self.timers.empty_channels[member] = now_ms + self.options.channel_orphan_ms
                return (DeleteChannel(member),)
        return ()

    def take_over(self, now_ms: int) -> None:
        """The world was read at the beginning of a term: assign at once, without a quiet window."""
        self.timers.assign_at_ms = self.timers.change_first_ms = now_ms
        self.cause = Cause(TAKEOVER, "")
        self.log.begin(now_ms, self.cause)


def _command_bytes(command: Command) -> int:
    return 256 + sum(len(tp.topic) + len(command.member) + 32 for tp in command.partitions)


def _same_report(a: GroupMetadata, b: GroupMetadata) -> bool:
    """Whether a report says nothing new. A takeover of a balanced group must not write, so the cause alone is not news."""
    return (a.generation, a.state, a.assignor, a.topics, a.members) == (b.generation, b.state, b.assignor, b.topics, b.members)
