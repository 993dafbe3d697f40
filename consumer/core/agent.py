"""The consumer's side of the protocol, pure: events in, actions out.

A member's rights are: its registration (proved by every multi that checks it: the lease), and the
owner nodes of its session (what it holds). It has at most one request under way. What it does next
is decided by `_advance`, in this order: settle a doubt by a synced read; look back at the topics of
what it started; learn a new epoch's lease; read the channel; carry out the next command; write what
is due in the order in which it became due (the application's commits, acks); renew the lease.

Doubt is raised by every outcome that is not OK and by a command that vanished. Nothing is concluded
from a command's absence: a stop whose command is gone while the owner node is still ours is
withdrawn (`Resumed`), a start whose owner node turns out to be ours has happened (`Assigned`).
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from zkcoord.core.model import Malformed, Option, TopicPartition

from . import events as ev
from . import messages as msg
from .in_progress import (
    CommandInProgress,
    CommandStage,
    CommitIntent,
    DropIntent,
    DueWrite,
    InFlightKind,
    RequestInFlight,
)
from .legacy_group import LegacyGroupRules
from .member_writes import MemberWrites
from .owned_partitions import OwnedPartition, OwnedStep, OwnershipReading, judge, judge_owner
from .phases import Happening, Phase, next_phase
from .topic_incarnations import Fate, counts, fate, is_meant, mark


class GroupMember(LegacyGroupRules):
    """One member's decisions: commands, doubts, writes, lease."""

    def step(self, event: ev.AgentEvent) -> list[ev.AgentAction]:
        """One event in, actions out, to be taken in order."""
        self.out = []
        handler = self._HANDLERS[type(event)]
        handler(self, event)
        self._announce(event.now_ms)
        self._lapse(event.now_ms)
        self._release_overdue(event.now_ms)
        self._advance(event.now_ms)
        return self.out

    # what was read

    def _commands_read(self, e: ev.CommandsRead) -> None:
        if self.waiting is not None and self.waiting.asked is InFlightKind.CHANNEL and e.complete:
            self.waiting = None
        if e.complete:
            self.pending.clear()
        for command in e.commands:
            if isinstance(command, Malformed):
                self._notice(
                    msg.NoticeKind.MALFORMED,
                    what=command.what,
                    name=command.name,
                    reason=command.reason,
                )
            elif command.incarnation == self.incarnation and self.phase is Phase.MEMBER:
                self.pending[command.node] = command
                self.seen_epoch = max(self.seen_epoch, command.epoch)

    def _command_vanished(self, e: ev.CommandVanished) -> None:
        self.pending.pop(e.node, None)
        acking = self.waiting is not None and self.waiting.asked is InFlightKind.ACK
        if self.current is not None and self.current.command.node == e.node and not acking:
            self.doubt = True

    def _registration_touched(self, e: ev.RegistrationTouched) -> None:
        if self.phase is Phase.MEMBER and not (
            self.waiting is not None and self.waiting.asked is InFlightKind.RESUBSCRIBE
        ):
            self.doubt = True

    def _epoch_read(self, e: ev.EpochRead) -> None:
        if self.waiting is not None and self.waiting.asked is InFlightKind.EPOCH:
            self.waiting = None
            self.known_epoch = max(e.epoch, self.seen_epoch)
            self.lease_max_ms = e.lease_max_ms

    def _leader_seen(self, e: ev.LeaderSeen) -> None:
        if self.waiting is not None and self.waiting.asked is InFlightKind.LEADER:
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
        if (
            waiting.asked is InFlightKind.START
            and self.shared
            and self.current is not None
            and any(tp in self.held for tp in self.current.command.start)
        ):
            # for the coordinator it is free: an old consumer deleted our owner node by its path
            self.doubt = True
        if waiting.asked is InFlightKind.DOUBT:
            self.doubt = False
            self._settle(e)
        elif waiting.asked is InFlightKind.TOPICS:
            return self._prove(e)
        if self.current is not None and (
            waiting.asked is InFlightKind.START or self.current.command.option is Option.START
        ):
            self._judge_start(e)

    def _settle(self, e: ev.PartitionsRead) -> None:
        """A synced read after a doubt: keep what is ours, drop what is not, and withdraw what was
        withdrawn.
        """
        assert e.incarnation is not None
        known = {tp: held.committed for tp, held in self.held.items()}
        for tp in sorted(self.held):
            if tp in e.holdings:
                self._settle_one(tp, self.held[tp], e)
        self._tell_stored(
            {
                tp: held.committed
                for tp, held in sorted(self.held.items())
                if tp in known and known[tp] != held.committed
            }
        )
        for drop in [
            i
            for i in self.intents
            if isinstance(i, DropIntent)
            and i.partition in e.holdings
            and e.holdings[i.partition].whose is not ev.Whose.MINE
        ]:
            # it happened, and the node is another session's by now (version 1 says that a node is
            # one of ours, not whose)
            self.intents.remove(drop)
        if e.incarnation != self.incarnation:
            self.incarnation = e.incarnation
            self.registered = self.asked
            self.pending.clear()
            self.read_channel = True
            self.intents = deque(i for i in self.intents if i is not DueWrite.RESUBSCRIBE)
            self._resubscribe()
            if self.current is not None:
                self._withdraw(self.current)
        current = self.current
        if current is None or current.command.option is Option.START:
            return
        if current.command.node and not e.command_there:
            self._withdraw(current)

    def _settle_one(self, tp: TopicPartition, held: OwnedPartition, e: ev.PartitionsRead) -> None:
        ours = held.committed
        verdict = (
            judge(held, e.holdings[tp])
            if self.options.stores_offsets
            else judge_owner(e.holdings[tp])
        )
        if verdict is OwnershipReading.RESET and self.shared:
            self._write_again(tp, held, ours)
        elif verdict is OwnershipReading.RESET:
            held.value = held.committed
            self._void_commits(tp)
            if held.step is OwnedStep.ACTIVE:
                held.reset = False
                self._tell_seek(tp)
        elif verdict is OwnershipReading.LOST:
            del self.held[tp]
            self._tell_lost((tp,), "another member owns it")
        elif verdict is OwnershipReading.OFFSET_GONE:
            del self.held[tp]
            self.intents.append(DropIntent(tp))
            self._tell_lost((tp,), "its stored offset was deleted")

    def _prove(self, e: ev.PartitionsRead) -> None:
        """Read after the start acks: whether each topic was still the one that was meant. One that
        is made again later than this is younger than the owner node, which the coordinator sees.
        """
        unproved, self.unproved = self.unproved, {}
        wrong = tuple(
            tp
            for tp, meant in sorted(unproved.items())
            if tp in self.held
            and e.topics.get(tp.topic)
            and not is_meant(meant, e.topics[tp.topic])
        )
        for tp in wrong:
            del self.held[tp]
            self.intents.append(DropIntent(tp))
        if wrong:
            self._tell_lost(wrong, "it was started while its topic was made again")

    def _judge_start(self, e: ev.PartitionsRead) -> None:
        """What of a start can be done, and what of it was done already."""
        current = self.current
        assert current is not None
        adopted: dict[TopicPartition, int] = {}
        current.begin_anew()
        for tp, thread in sorted(current.command.start.items()):
            read = e.holdings.get(tp)
            if read is None or tp in self.held:
                continue
            offset = (
                read.offset
                if isinstance(read.offset, int) and self.options.stores_offsets
                else None
            )
            if isinstance(read.offset, Malformed):
                self._notice(
                    msg.NoticeKind.MALFORMED,
                    what=read.offset.what,
                    name=read.offset.name,
                    reason=read.offset.reason,
                )
            if read.whose is ev.Whose.MINE and offset is not None and read.version is not None:
                self.held[tp] = OwnedPartition(thread, offset, read.version)
                self._prove_later(current.command, tp)
                adopted[tp] = offset
            elif read.whose is ev.Whose.MINE:
                # the ack happened, and then somebody deleted or spoilt its offset: let it be
                # started anew (so it is where offsets are kept elsewhere)
                self.intents.append(DropIntent(tp))
            elif (
                read.whose is ev.Whose.NOBODY
                and not current.void
                and is_meant(current.command.incarnations.get(tp.topic), e.topics.get(tp.topic))
            ):
                self._take(current, tp, read, e)
        self.intents = deque(
            i for i in self.intents if not (isinstance(i, DropIntent) and i.partition in adopted)
        )
        self._tell_stored(adopted)
        self.untold.update(adopted)
        self._report_past(current, e)
        if not e.command_there:
            return self._drop_current()
        if current.unresolved:
            self._ask_offsets(current)
        else:
            self._ready(current)

    def _take(
        self,
        current: CommandInProgress,
        tp: TopicPartition,
        read: ev.PartitionReading,
        e: ev.PartitionsRead,
    ) -> None:
        """A partition that can be started: at its stored offset, if that counts for the topic as it
        is now.
        """
        now, beside = current.command.incarnations.get(tp.topic), e.beside.get(tp.topic)
        found = fate(now, beside)
        stored = (
            read.offset
            if isinstance(read.offset, int) and counts(found, read.written, beside)
            else None
        )
        current.takes[tp] = ev.StartPartition(
            tp, current.command.start[tp], stored or 0, read.version
        )
        if not self.options.stores_offsets:
            current.unresolved.add(tp)
            if stored is not None:
                current.stored[tp] = stored
            return
        if stored is None:
            current.unresolved.add(tp)
            if found in (Fate.PAST, Fate.NEWER_COUNT):
                current.afresh.add(tp)
        said = mark(tp.topic, now, beside)
        if said is not None:
            current.marks[tp.topic] = said

    def _report_past(self, current: CommandInProgress, e: ev.PartitionsRead) -> None:
        """Say once which stored offsets do not count any more, and which notes of whose they are
        cannot be read.
        """
        for topic in sorted({tp.topic for tp in current.takes}):
            beside, now = e.beside.get(topic), current.command.incarnations.get(topic, "")
            ignored = [
                f"{tp}={e.holdings[tp].offset}"
                for tp in sorted(current.afresh)
                if tp.topic == topic and isinstance(e.holdings[tp].offset, int)
            ]
            if isinstance(beside, Malformed):
                self._notice(
                    msg.NoticeKind.MALFORMED,
                    what=beside.what,
                    name=beside.name,
                    reason=beside.reason,
                )
            elif beside is not None and ignored and (topic, now) not in self.recreated:
                self.recreated.add((topic, now))
                self._notice(
                    msg.NoticeKind.TOPIC_RECREATED,
                    topic=topic,
                    was=(
                        ""
                        if beside.newer_only and topic not in current.marks
                        else beside.incarnation
                    ),
                    now=now,
                    ignored=" ".join(ignored),
                )

    def _ask_offsets(self, current: CommandInProgress) -> None:
        current.stage, current.ask, current.resolve_again_ms = (
            CommandStage.RESOLVING,
            self._token(),
            None,
        )
        stored = {
            tp: offset for tp, offset in sorted(current.stored.items()) if tp in current.unresolved
        }
        self._tell(
            msg.Resolve(
                current.ask,
                tuple(sorted(current.unresolved)),
                tuple(sorted(current.unresolved & current.afresh)),
                stored,
            )
        )

    # what is due

    def _tick(self, e: ev.AgentTick) -> None:
        current = self.current
        if (
            current is not None
            and current.stage is CommandStage.RESOLVING
            and current.resolve_again_ms is not None
            and current.resolve_again_ms <= e.now_ms
        ):
            self._ask_offsets(current)
        limit = self.options.max_poll_interval_ms
        if (
            limit
            and not self.leaving
            and self.phase in (Phase.OPENING, Phase.JOINING, Phase.MEMBER)
            and e.now_ms - self.polled_ms >= limit + self.options.poll_slack_ms
        ):
            self.phase = next_phase(self.phase, Happening.UNPOLLED)
            self._drop_all(
                f"the application did not poll for {limit} ms (max_poll_interval_ms): poll more"
                " often, or take fewer records at a time (max_poll_records)"
            )
            self.out.append(ev.CloseSession("the application does not poll"))

    def _advance(self, now_ms: int) -> None:
        """One request, if none is under way and one is due."""
        if self.phase is not Phase.MEMBER or not self.connected or self.waiting is not None:
            return
        if self.doubt:
            self._look(InFlightKind.DOUBT, sync=True)
        elif self.unproved:
            self.waiting = RequestInFlight(InFlightKind.TOPICS, self._token())
            self.out.append(
                ev.ReadPartitions(
                    self.waiting.token,
                    (),
                    "",
                    False,
                    {tp.topic: meant for tp, meant in sorted(self.unproved.items())},
                )
            )
        elif self.look_around:
            self._ask_around()
        elif self.leaving:
            self._finish()
        elif self.untold or self.lapsed:
            # a command may be one to a session that is over, and nobody was told yet of what it
            # names
            self._prove_membership()
        elif self.seen_epoch > self.known_epoch:
            self.waiting = RequestInFlight(InFlightKind.EPOCH, self._token())
            self.out.append(ev.ReadEpoch())
        elif self.read_channel:
            self.read_channel = False
            self.waiting = RequestInFlight(InFlightKind.CHANNEL, self._token())
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

    def _look(self, asked: InFlightKind, sync: bool) -> None:
        """Read what a command and everything we hold look like now."""
        current = self.current
        wanted = (
            set(self.held) | {i.partition for i in self.intents if isinstance(i, DropIntent)}
            if asked is InFlightKind.DOUBT
            else set()
        )
        if current is not None:
            wanted.update(
                tp
                for tp in current.command.partitions
                if asked is InFlightKind.DOUBT or tp not in self.held
            )
        self.waiting = RequestInFlight(asked, self._token())
        topics = dict(sorted(current.command.incarnations.items())) if current is not None else {}
        self.out.append(
            ev.ReadPartitions(
                self.waiting.token,
                tuple(sorted(wanted)),
                current.command.node if current is not None else "",
                sync,
                topics,
            )
        )

    def _begin_command(self) -> None:
        """Take up the next valid command: order is (epoch, seq), each once, none of an older
        epoch.
        """
        if self.current is not None:
            return
        if self.release_by_ms is not None and self._begin_release():
            return
        for node in [
            n
            for n, c in self.pending.items()
            if c.epoch < self.seen_epoch or (c.epoch, c.seq) <= self.done
        ]:
            del self.pending[node]
        if not self.pending:
            return
        command = min(self.pending.values(), key=lambda c: (c.epoch, c.seq))
        if command.option is Option.START and self.shared and self.looked_for != command.node:
            self.looked_for = command.node
            # the registrations that it was decided from must be those that are there
            return self._ask_around()
        del self.pending[command.node]
        self._notice(
            msg.NoticeKind.COMMAND,
            option=command.option.value,
            epoch=command.epoch,
            seq=command.seq,
            generation=command.generation,
            partitions=len(command.partitions),
        )
        if command.user_data is not None:
            self._tell(msg.UserData(command.user_data))
        if command.option is Option.REJECT:
            return self._rejected(command)
        if command.option is Option.NOTIFY:
            self._notified(command)
            self.current = CommandInProgress(command, CommandStage.READY)
            return self._ready(self.current)
        self._rebalances()
        if command.option is Option.START:
            self.current = CommandInProgress(command, CommandStage.READING)
            if self._outdated_start(command):
                return self._void(self.current)
            return self._look(InFlightKind.START, sync=False)
        self.current = CommandInProgress(command, CommandStage.REVOKING)
        mine = tuple(tp for tp in sorted(command.stop) if tp in self.held)
        if not mine:
            return self._ready(self.current)
        for tp in mine:
            self.held[tp].step = OwnedStep.RELEASING
        self.current.ask = self._token()
        self._tell(msg.Revoke(self.current.ask, mine, True))

    def _write_next(self, now_ms: int) -> None:
        while self.intents and self.waiting is None:
            intent = self.intents.popleft()
            if isinstance(intent, CommitIntent):
                self._write_commit(intent)
            elif isinstance(intent, DropIntent):
                self.waiting = RequestInFlight(InFlightKind.DROP, self._token(), intent)
                self.out.append(ev.DropOwners(self.waiting.token, (intent.partition,)))
            elif intent is DueWrite.ACK:
                self._write_ack()
            else:
                self.asked = self.wanted
                self.waiting = RequestInFlight(InFlightKind.RESUBSCRIBE, self._token(), intent)
                # a deadline of it must not evict the new registration
                begun = {self.current.command.node} if self.current is not None else set()
                self.out.append(
                    ev.Resubscribe(
                        self.waiting.token,
                        self.name,
                        self.asked.subscription,
                        tuple(sorted(self.pending.keys() | begun)),
                        self.asked.user_data,
                    )
                )
        if self.waiting is not None or self.proof_ms is None:
            return
        if (
            self.leader_gone_ms is not None
            and not self.leader_warned
            and now_ms >= self.leader_gone_ms + self.options.coordinator_warning_ms
        ):
            self.waiting = RequestInFlight(InFlightKind.LEADER, self._token())
            self.out.append(ev.ReadLeader())
        elif now_ms >= self.proof_ms + self.lease_ms // 3:
            self._prove_membership()

    def _prove_membership(self) -> None:
        self.waiting = RequestInFlight(InFlightKind.RENEW, self._token())
        self.out.append(ev.Store(self.waiting.token, {}))

    _HANDLERS: ClassVar[dict[type, Any]] = {
        ev.SessionOpened: MemberWrites._opened,
        ev.SessionSuspended: MemberWrites._suspended,
        ev.SessionResumed: MemberWrites._resumed,
        ev.SessionOver: MemberWrites._over,
        ev.JoinFailed: MemberWrites._join_failed,
        ev.Registered: MemberWrites._registered,
        ev.FromApplication: MemberWrites._told,
        ev.EpochRead: _epoch_read,
        ev.CommandsRead: _commands_read,
        ev.CommandVanished: _command_vanished,
        ev.RegistrationTouched: _registration_touched,
        ev.PartitionsRead: _partitions_read,
        ev.Wrote: MemberWrites._wrote,
        ev.LeaderSeen: _leader_seen,
        ev.ModeRead: LegacyGroupRules._mode_read,
        ev.AroundTouched: LegacyGroupRules._around_touched,
        ev.AroundRead: LegacyGroupRules._around_read,
        ev.NobodyServes: MemberWrites._nobody_serves,
        ev.AgentTick: _tick,
    }
