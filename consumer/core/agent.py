"""The consumer's side of the protocol, pure: events in, actions out.

A member's rights are: its registration (proved by every multi that checks it: the lease), and the owner nodes of its session (what it holds). It has at most one request under
way. What it does next is decided by `_advance`, in this order: settle a doubt by a synced read; learn a new epoch's lease; read the channel; carry out the next command; write
what is due in the order in which it became due (the application's commits, acks); renew the lease.

Doubt is raised by every outcome that is not OK and by a command that vanished. Nothing is concluded from a command's absence: a stop whose command is gone while the owner node
is still ours is withdrawn (`Resumed`), a start whose owner node turns out to be ours has happened (`Assigned`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from zkcoord.core.model import Malformed, Option, TopicPartition

from . import events as ev
from . import messages as msg
from .current import Asked, CommitIntent, Current, DropIntent, Duty, Stage, Waiting
from .holdings import Held, Judgement, Step, judge
from .membership import Membership
from .phases import Happening, Phase, next_phase


class Agent(Membership):
    """One member's decisions: commands, doubts, writes, lease."""

    def step(self, event: ev.AgentEvent) -> list[ev.AgentAction]:
        """One event in, actions out, to be taken in order."""
        self.out = []
        handler = self._HANDLERS[type(event)]
        handler(self, event)
        self._lapse(event.now_ms)
        self._advance(event.now_ms)
        return self.out

    # what was read

    def _commands_read(self, e: ev.CommandsRead) -> None:
        if self.waiting is not None and self.waiting.asked is Asked.CHANNEL and e.complete:
            self.waiting = None
        if e.complete:
            self.pending.clear()
        for command in e.commands:
            if isinstance(command, Malformed):
                self._notice(msg.NoticeKind.MALFORMED, what=command.what, name=command.name, reason=command.reason)
            elif command.incarnation == self.incarnation and self.phase is Phase.MEMBER:
                self.pending[command.node] = command
                self.seen_epoch = max(self.seen_epoch, command.epoch)

    def _command_vanished(self, e: ev.CommandVanished) -> None:
        self.pending.pop(e.node, None)
        acking = self.waiting is not None and self.waiting.asked is Asked.ACK
        if self.current is not None and self.current.command.node == e.node and not acking:
            self.doubt = True

    def _registration_touched(self, e: ev.RegistrationTouched) -> None:
        if self.phase is Phase.MEMBER and not (self.waiting is not None and self.waiting.asked is Asked.RESUBSCRIBE):
            self.doubt = True

    def _epoch_read(self, e: ev.EpochRead) -> None:
        if self.waiting is not None and self.waiting.asked is Asked.EPOCH:
            self.waiting = None
            self.known_epoch = max(e.epoch, self.seen_epoch)
            self.lease_max_ms = e.lease_max_ms

    def _leader_seen(self, e: ev.LeaderSeen) -> None:
        if self.waiting is not None and self.waiting.asked is Asked.LEADER:
            self.waiting = None
            if not e.alive and not self.leader_warned:
                self.leader_warned = True
                self._notice(msg.NoticeKind.NO_COORDINATOR, group_state=e.group_state)
        if e.alive:
            if self.leader_warned:
                self._notice(msg.NoticeKind.COORDINATOR_BACK)
            self.leader_gone_ms, self.leader_warned = None, False
        elif self.leader_gone_ms is None:
            self.leader_gone_ms = e.now_ms

    def _partitions_read(self, e: ev.PartitionsRead) -> None:
        waiting = self.waiting
        if waiting is None or waiting.token != e.token:
            return
        self.waiting = None
        if e.incarnation is None:
            return self._evicted("the registration is gone")
        if waiting.asked is Asked.DOUBT:
            self.doubt = False
            self._settle(e)
        if self.current is not None and (waiting.asked is Asked.START or self.current.command.option is Option.START):
            self._judge_start(e)

    def _settle(self, e: ev.PartitionsRead) -> None:
        """A synced read after a doubt: keep what is ours, drop what is not, and withdraw what was withdrawn."""
        assert e.incarnation is not None
        for tp in sorted(self.held):
            if tp in e.holdings:
                self._settle_one(tp, self.held[tp], e)
        for drop in [i for i in self.intents if isinstance(i, DropIntent) and i.partition in e.holdings and e.holdings[i.partition].whose is not ev.Whose.MINE]:
            self.intents.remove(drop)  # it happened, and the node is another session's by now (version 1 says that a node is one of ours, not whose)
        if e.incarnation != self.incarnation:
            self.incarnation = e.incarnation
            self.registered = self.asked
            self.pending.clear()
            self.read_channel = True
            self.intents = deque(i for i in self.intents if i is not Duty.RESUBSCRIBE)
            self._resubscribe()
            if self.current is not None:
                self._withdraw(self.current)
        current = self.current
        if current is None or current.command.option is not Option.STOP:
            return
        if not e.command_there:
            self._withdraw(current)

    def _settle_one(self, tp: TopicPartition, held: Held, e: ev.PartitionsRead) -> None:
        verdict = judge(held, e.holdings[tp])
        if verdict is Judgement.RESET:
            held.value = held.committed
            self._void_commits(tp)
            if held.step is Step.ACTIVE:
                held.reset = False
                self._tell_seek(tp)
        elif verdict is Judgement.LOST:
            del self.held[tp]
            self._tell_lost((tp,), "another member owns it")
        elif verdict is Judgement.OFFSET_GONE:
            del self.held[tp]
            self.intents.append(DropIntent(tp))
            self._tell_lost((tp,), "its stored offset was deleted")

    def _withdraw(self, current: Current) -> None:
        """The command is gone. What it wanted stopped, and is still ours, goes on."""
        back = [tp for tp in current.command.stop if tp in self.held and self.held[tp].step is not Step.ACTIVE]
        for tp in back:
            self.held[tp].step = Step.ACTIVE
        self._drop_current()
        if back:
            self._tell(msg.Resumed(tuple(back)))
            for tp in back:
                if self.held[tp].reset:
                    self.held[tp].reset = False
                    self._tell_seek(tp)

    def _drop_current(self) -> None:
        self.current = None
        self.intents = deque(i for i in self.intents if i is not Duty.ACK)

    def _judge_start(self, e: ev.PartitionsRead) -> None:
        """What of a start can be done, and what of it was done already."""
        current = self.current
        assert current is not None
        adopted: dict[TopicPartition, int] = {}
        current.takes.clear()
        current.unresolved.clear()
        for tp, thread in sorted(current.command.start.items()):
            read = e.holdings.get(tp)
            if read is None or tp in self.held:
                continue
            offset = read.offset if isinstance(read.offset, int) else None
            if isinstance(read.offset, Malformed):
                self._notice(msg.NoticeKind.MALFORMED, what=read.offset.what, name=read.offset.name, reason=read.offset.reason)
            if read.whose is ev.Whose.MINE and offset is not None and read.version is not None:
                self.held[tp] = Held(thread, offset, read.version)
                adopted[tp] = offset
            elif read.whose is ev.Whose.MINE:
                self.intents.append(DropIntent(tp))  # the ack happened, and then somebody deleted or spoilt its offset: let it be started anew
            elif read.whose is ev.Whose.NOBODY:
                current.takes[tp] = ev.Take(tp, thread, offset or 0, read.version)
                if offset is None:
                    current.unresolved.add(tp)
        self.intents = deque(i for i in self.intents if not (isinstance(i, DropIntent) and i.partition in adopted))
        if adopted:
            self._tell_assigned(adopted)
        if not e.command_there:
            return self._drop_current()
        if current.unresolved:
            self._ask_offsets(current)
        else:
            self._ready(current)

    def _ask_offsets(self, current: Current) -> None:
        current.stage, current.ask, current.resolve_again_ms = Stage.RESOLVING, self._token(), None
        self._tell(msg.Resolve(current.ask, tuple(sorted(current.unresolved))))

    # what is due

    def _tick(self, e: ev.AgentTick) -> None:
        current = self.current
        if current is not None and current.stage is Stage.RESOLVING and current.resolve_again_ms is not None and current.resolve_again_ms <= e.now_ms:
            self._ask_offsets(current)
        limit = self.options.max_poll_interval_ms
        if limit and not self.leaving and self.phase in (Phase.OPENING, Phase.JOINING, Phase.MEMBER) and e.now_ms - self.polled_ms >= limit:
            self.phase = next_phase(self.phase, Happening.UNPOLLED)
            self._drop_all(f"the application did not poll for {limit} ms (max_poll_interval_ms)")
            self.out.append(ev.CloseSession("the application does not poll"))

    def _advance(self, now_ms: int) -> None:
        """One request, if none is under way and one is due."""
        if self.phase is not Phase.MEMBER or not self.connected or self.waiting is not None:
            return
        if self.doubt:
            self._look(Asked.DOUBT, sync=True)
        elif self.leaving:
            self._finish()
        elif self.seen_epoch > self.known_epoch:
            self.waiting = Waiting(Asked.EPOCH, self._token())
            self.out.append(ev.ReadEpoch())
        elif self.read_channel:
            self.read_channel = False
            self.waiting = Waiting(Asked.CHANNEL, self._token())
            self.out.append(ev.ReadCommands())
        else:
            self._begin_command()
            if self.waiting is None and self.phase is Phase.MEMBER:
                self._write_next(now_ms)

    def _finish(self) -> None:
        commit = next((i for i in self.intents if isinstance(i, CommitIntent)), None)
        if commit is None:
            return self._close("closed by the application")
        self.intents.remove(commit)
        self._write_commit(commit)
        if self.waiting is None:
            self._finish()

    def _look(self, asked: Asked, sync: bool) -> None:
        """Read what a command and everything we hold look like now."""
        current = self.current
        wanted = set(self.held) | {i.partition for i in self.intents if isinstance(i, DropIntent)} if asked is Asked.DOUBT else set()
        if current is not None:
            wanted.update(tp for tp in current.command.partitions if asked is Asked.DOUBT or tp not in self.held)
        self.waiting = Waiting(asked, self._token())
        self.out.append(ev.ReadPartitions(self.waiting.token, tuple(sorted(wanted)), current.command.node if current is not None else "", sync))

    def _begin_command(self) -> None:
        """Take up the next valid command: order is (epoch, seq), each once, none of an older epoch."""
        if self.current is not None:
            return
        for node in [n for n, c in self.pending.items() if c.epoch < self.seen_epoch or (c.epoch, c.seq) <= self.done]:
            del self.pending[node]
        if not self.pending:
            return
        command = min(self.pending.values(), key=lambda c: (c.epoch, c.seq))
        del self.pending[command.node]
        self._notice(msg.NoticeKind.COMMAND, option=command.option.value, epoch=command.epoch, seq=command.seq, generation=command.generation, partitions=len(command.partitions))
        if command.option is Option.REJECT:
            return self._break(msg.FailureCode.REJECTED, f"{command.code}: {command.message}")
        if command.option is Option.START:
            self.current = Current(command, Stage.READING)
            return self._look(Asked.START, sync=False)
        self.current = Current(command, Stage.REVOKING)
        mine = tuple(tp for tp in sorted(command.stop) if tp in self.held)
        if not mine:
            return self._ready(self.current)
        for tp in mine:
            self.held[tp].step = Step.RELEASING
        self.current.ask = self._token()
        self._tell(msg.Revoke(self.current.ask, mine))

    def _write_next(self, now_ms: int) -> None:
        while self.intents and self.waiting is None:
            intent = self.intents.popleft()
            if isinstance(intent, CommitIntent):
                self._write_commit(intent)
            elif isinstance(intent, DropIntent):
                self.waiting = Waiting(Asked.DROP, self._token(), intent)
                self.out.append(ev.DropOwners(self.waiting.token, (intent.partition,)))
            elif intent is Duty.ACK:
                self._write_ack()
            else:
                self.asked = self.subscription
                self.waiting = Waiting(Asked.RESUBSCRIBE, self._token(), intent)
                begun = {self.current.command.node} if self.current is not None else set()  # a deadline of it must not evict the new registration
                self.out.append(ev.Resubscribe(self.waiting.token, self.name, self.subscription, tuple(sorted(self.pending.keys() | begun))))
        if self.waiting is not None or self.proof_ms is None:
            return
        if self.leader_gone_ms is not None and not self.leader_warned and now_ms >= self.leader_gone_ms + self.options.coordinator_warning_ms:
            self.waiting = Waiting(Asked.LEADER, self._token())
            self.out.append(ev.ReadLeader())
        elif now_ms >= self.proof_ms + self.lease_ms // 3:
            self.waiting = Waiting(Asked.RENEW, self._token())
            self.out.append(ev.Store(self.waiting.token, {}))

    def _write_commit(self, intent: CommitIntent) -> None:
        """Store the next part of a commit; what is stored already is not written again."""
        for tp in [tp for tp, value in intent.offsets.items() if tp in self.held and self.held[tp].committed == value and not self.held[tp].sent]:
            del intent.offsets[tp]
        foreign = tuple(sorted(tp for tp in intent.offsets if tp not in self.held))
        if foreign or not intent.offsets or intent.tries >= self.options.commit_tries_max:
            failed = msg.CommitOutcome.NOT_OWNED if foreign else msg.CommitOutcome.UNAVAILABLE
            if intent.token is not None:
                self._tell(msg.CommitDone(intent.token, failed, foreign or tuple(sorted(intent.offsets))) if intent.offsets else intent.done())
            return
        part = sorted(intent.offsets)[: self.options.offsets_per_write_max]
        values = {tp: intent.offsets[tp] for tp in part}
        for tp in part:
            self.held[tp].sent.add(values[tp])
        self.waiting = Waiting(Asked.COMMIT, self._token(), intent, values)
        self.out.append(ev.Store(self.waiting.token, {tp: (value, self.held[tp].version) for tp, value in values.items()}))

    def _write_ack(self) -> None:
        current = self.current
        if current is None or current.stage is not Stage.READY:
            return
        gives = []
        for tp in sorted(current.command.stop):
            held = self.held.get(tp)
            if held is not None and held.step is Step.RELEASED:
                if not self.options.auto_commit:
                    held.value = held.committed  # the application's last commit may have happened after it let go
                held.sent.add(held.value)
                gives.append(ev.Give(tp, held.value, held.version))
        ack = ev.Ack(self._token(), current.command.node, tuple(current.takes[tp] for tp in sorted(current.takes)), tuple(gives))
        self.waiting = Waiting(Asked.ACK, ack.token, Duty.ACK, ack=ack)
        self.out.append(ack)

    # how it ended

    def _wrote(self, e: ev.Wrote) -> None:
        waiting = self.waiting
        if waiting is None or waiting.token != e.token:
            return
        self.waiting = None
        if e.ending is ev.Ending.OK:
            self.proof_ms = max(self.proof_ms or 0, e.sent_ms)
            if self.lapsed and e.now_ms < self.lease_until_ms:
                self.lapsed = False
                self._notice(msg.NoticeKind.LEASE_BACK)
            self._happened(waiting, e.versions)
        elif e.ending is ev.Ending.EVICTED:
            if isinstance(waiting.intent, CommitIntent):
                self.intents.appendleft(waiting.intent)
            self._evicted("the registration is gone")
        else:
            self._unsure(waiting, e)

    def _happened(self, waiting: Waiting, versions: Mapping[TopicPartition, int]) -> None:
        if waiting.asked is Asked.COMMIT:
            assert isinstance(waiting.intent, CommitIntent)
            for tp, value in waiting.values.items():
                waiting.intent.offsets.pop(tp, None)
                if tp in self.held:
                    self.held[tp].stored(value, versions[tp])
            if waiting.intent.offsets:
                self.intents.appendleft(waiting.intent)
            elif waiting.intent.token is not None:
                self._tell(waiting.intent.done())
        elif waiting.asked is Asked.ACK:
            assert waiting.ack is not None
            self._acked(waiting.ack, versions)
        elif waiting.asked is Asked.RESUBSCRIBE:
            self.doubt = True

    def _acked(self, ack: ev.Ack, versions: Mapping[TopicPartition, int]) -> None:
        current = self.current
        assert current is not None and current.command.node == ack.command
        for give in ack.gives:
            del self.held[give.partition]
        for take in ack.takes:
            self.held[take.partition] = Held(take.thread, take.offset, versions[take.partition])
        self.generation = current.command.generation
        self.done = (current.command.epoch, current.command.seq)
        self._drop_current()
        if ack.takes:
            self._tell_assigned({t.partition: t.offset for t in ack.takes})

    def _unsure(self, waiting: Waiting, e: ev.Wrote) -> None:
        """Refused (it did not happen) or unknown (it may have): look before doing anything else."""
        self.doubt = True
        if e.ending is ev.Ending.REFUSED:
            for tp, value in waiting.values.items():
                if tp in self.held:
                    self.held[tp].sent.discard(value)
            for give in waiting.ack.gives if waiting.ack is not None else ():
                if give.partition in self.held:
                    self.held[give.partition].sent.discard(give.offset)
        intent = waiting.intent
        if isinstance(intent, CommitIntent):
            intent.tries += 1
            self.intents.appendleft(intent)
        elif intent is not None and not (isinstance(intent, DropIntent) and e.ending is ev.Ending.REFUSED):
            self.intents.appendleft(intent)

    _HANDLERS = {
        ev.SessionOpened: Membership._opened, ev.SessionSuspended: Membership._suspended, ev.SessionResumed: Membership._resumed, ev.SessionOver: Membership._over,
        ev.JoinFailed: Membership._join_failed, ev.Registered: Membership._registered, ev.Told: Membership._told, ev.EpochRead: _epoch_read, ev.CommandsRead: _commands_read,
        ev.CommandVanished: _command_vanished, ev.RegistrationTouched: _registration_touched, ev.PartitionsRead: _partitions_read, ev.Wrote: _wrote, ev.LeaderSeen: _leader_seen,
        ev.AgentTick: _tick}
