"""Transcripts of the member's core: a script of events with every answer written out.

A script is blocks of input lines, each block followed by `----` and all that the core answered, one
action a line. Time stands still but for `tick`. Lines:

    options [auto_commit=false|max_poll_interval_ms=MS|...]
    subscribe TOPIC[,..] [data=TEXT] | polled | close [TP=POSITION ..] [assignment_epoch=E]
    opened NAME [timeout=MS] | suspended | nobodyserves AGO_MS | resumed | over
    registered INCARNATION [epoch=E] [lease=MS] | joinfailed CODE WORDS..
    command E-S start|stop|reject|notify [TP,..] [inc=I] [code=CODE] [fatal] [data=TEXT]
        [seen=REGISTRATIONS] [topics=TOPIC:INCARNATION,..] [stream=N] [more]
        one command read after its creation was seen; its node is E-S
    channel                                  the whole channel as read: the commands of lines `has
                                             E-S start|stop TP[,..]` before it
    vanished NODE | touched
    read [inc=I|gone] [nocommand] [TOPIC~[INCARNATION][+]@VERSION/ZXID|TOPIC~bad ..]
        [TOPIC!INCARNATION|TOPIC!gone|TOPIC!bad ..]
        TP=mine|foreign|free[:OFFSET@VERSION[/ZXID]|:bad@VERSION[/ZXID]|:hidden]["[METADATA[/ZXID]]]
        ..
        the read that is under way is answered; no offset: the
                                             node is gone; " and nothing: metadata of another
                                                 offset; TOPIC~ is what is said of the offsets of
                                                 a whole topic (+: the newer ones only);
                                             TOPIC! is what the topic is now (nothing said: what the
                                                 last command that names it means)
    ok [ago=MS] [TP@VERSION ..] | evicted | refused | unknown
        how the write under way ended; it was sent so long ago (0)
    epoch E LEASE | leader alive|gone [STATE]
    commit TOKEN TP=OFFSET[,..] [TP"METADATA ..] [assignment_epoch=E] | foresee TP=OFFSET[,..]
    revoked [TP=POSITION ..] [busy=TP[,..]] | resolved TP=OFFSET .. [unset=TP[,..]]
    giveup CODE WORDS..
    mode coordinated|mixed|legacy|bad|none   the group's mode as read
    changed | group SEEN TOPICS              something changed in a shared group; what was read
    old LINE                                 LINE, but the answer is to an earlier question
    tick MS | lease [assignment_epoch=E] | held | wake

`ZKCOORD_REWRITE=1 pytest tests/consumer/core` writes the answers anew; commit them only when the
difference is understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consumer.core import events as ev
from consumer.core import messages as msg
from consumer.core.group_member import GroupMember
from consumer.core.options import MemberOptions
from tests.consumer.core.script_words import (
    beside_of,
    listed,
    offsets_of,
    options_in,
    shown,
    subscribed,
    tp_of,
    tps_of,
    word_in,
)
from zkcoord.core.model import (
    Command,
    GroupMode,
    Malformed,
    Mode,
    Option,
    Subscription,
    Thread,
    TopicPartition,
)

TIMEOUT_MS = 30_000


class World:
    """A member, and what it has requested and not been answered."""

    def __init__(self) -> None:
        self.member = GroupMember(MemberOptions(group="g"))
        self.now = 0
        self.incarnation = 1
        self.name = ""
        self.asked = 0
        self.written = 0
        self.revoke = 0
        self.resolve = 0
        self.there: list[Command] = []
        self.meant: dict[str, str] = {}
        self.topics: tuple[str, ...] = ()

    def run(self, line: str) -> list[str]:
        """Carry out one line of input; what the core answered, as text."""
        word, *rest = line.split()
        method: Callable[..., list[str] | ev.MemberEvent | None] = getattr(self, f"do_{word}")
        answer = method(*rest)
        if answer is None or isinstance(answer, list):
            return answer or []
        return [self.text(action) for action in self.member.step(answer)]

    # what the core says

    def text(self, action: ev.MemberAction) -> str:
        """One action on one line."""
        if isinstance(action, ev.SendMessage):
            return f"tell {self.told(action.message)}"
        if isinstance(action, ev.ReadPartitions):
            self.asked, self.topics = action.token, tuple(action.topics)
            if not action.partitions and not action.command and not action.sync:
                return f"read whether what was started is of {' '.join(action.topics)} as it is"
            synced = " after a sync" if action.sync else ""
            command = f"; command {action.command}" if action.command else ""
            offsets = "".join(f"; offsets of {t}" for t in action.topics)
            return f"read{synced}: {listed(action.partitions)}{command}{offsets}"
        if isinstance(action, (ev.Ack, ev.Store, ev.DropOwners, ev.Resubscribe)):
            self.written = action.token
            return self.write(action)
        if isinstance(action, ev.Join):
            again = "" if action.first else ", not for the first time"
            return f"join as {action.name} for {subscribed(action)}{again}"
        if isinstance(action, ev.CloseSession):
            return f"close the session ({action.reason})"
        if isinstance(action, ev.OpenSession):
            return f"open a session{f' after {action.after_ms} ms' if action.after_ms else ''}"
        if isinstance(action, ev.ReadLegacyGroup):
            self.asked = action.token
        return {
            ev.ReadLegacyGroup: "read the registrations and topics of the group",
            ev.ReadEpoch: "read the epoch",
            ev.ReadCommands: "read the channel",
            ev.ReadLeader: "read the leader",
        }[type(action)]

    def write(self, action: ev.Ack | ev.Store | ev.DropOwners | ev.Resubscribe) -> str:
        """A multi, which always begins with the check of the registration."""
        if isinstance(action, ev.Store):
            values = {
                tp: f"{value}@{'new' if version is None else version}"
                for tp, (value, version) in action.values.items()
            }
            beside = "".join(
                f"; {'write' if there else 'make'} beside {tp}: {text}"
                if text
                else f"; delete what is beside {tp}"
                for tp, (text, there) in action.metadata.items()
            )
            if not action.values:
                return "prove membership"
            return f"store {shown(values)}{beside}{self.noted(action.notes)}"
        if isinstance(action, ev.DropOwners):
            return f"drop owner nodes {listed(action.partitions)}"
        if isinstance(action, ev.Resubscribe):
            return (
                f"register anew for {subscribed(action)};"
                f" delete commands {' '.join(action.commands) or 'none'}"
            )
        takes = {
            t.partition: (
                "without an offset"
                if t.offset is None
                else f"{t.offset}@{'new' if t.version is None else t.version}"
            )
            for t in action.starts
        }
        gives = {
            g.partition: (
                "without an offset"
                if g.offset is None
                else f"{g.offset}@{'new' if g.version is None else g.version}"
                + (" alone" if g.clears else "")
            )
            for g in action.stops
        }
        marks = " ".join(
            f"{m.topic}={m.incarnation}{'+' if m.newer_only else ''}@{m.version}"
            for m in action.marks
        )
        parts = [
            f"say {marks}" if marks else "",
            f"take {shown(takes)}" if takes else "",
            f"give {shown(gives)}" if gives else "",
        ]
        done = "; ".join(filter(None, parts)) or "nothing"
        return f"ack {action.command}: {done}{self.noted(action.notes)}"

    def noted(self, notes: Mapping[str, int]) -> str:
        """What must still be said of the offsets of whole topics."""
        said = " ".join(f"{topic}@{version}" for topic, version in notes.items())
        return f"; if it is still said {said}" if said else ""

    def told(self, m: msg.ToFetcher) -> str:
        """A message to the fetching side."""
        if isinstance(m, msg.Assigned):
            beside = f" beside them {shown(m.metadata)}" if m.metadata else ""
            unset = f" and {listed(m.unset)} without an offset" if m.unset else ""
            beside += f" for streams {shown(m.streams)}" if m.streams else ""
            epoch = f" (epoch {m.assignment_epoch}){', more to come' if m.more else ''}"
            return f"assigned {shown(m.offsets)}{beside}{unset}{epoch}"
        if isinstance(m, msg.Starting):
            return f"starting {listed(m.partitions)}"
        if isinstance(m, msg.Revoke):
            self.revoke = m.token
            whole = "" if m.in_part else " as a whole"
            return f"revoke {listed(m.partitions)}{whole}{', more to come' if m.more else ''}"
        if isinstance(m, msg.Resumed):
            return f"resumed {listed(m.partitions)}"
        if isinstance(m, msg.Lost):
            return f"lost {listed(m.partitions)}: {m.reason} (epoch {m.assignment_epoch})"
        if isinstance(m, msg.Seek):
            return f"seek {m.partition}={m.offset} (epoch {m.assignment_epoch})"
        if isinstance(m, msg.Resolve):
            self.resolve = m.token
            stored, earliest = (
                (f" (stored: {shown(m.stored)})" if m.stored else ""),
                (f" ({listed(m.earliest)} from the first record)" if m.earliest else ""),
            )
            return f"resolve {listed(m.partitions)}{stored}{earliest}"
        if isinstance(m, msg.CommitDone):
            return (
                f"commit {m.token}:"
                f" {m.outcome.value}{f' ({listed(m.partitions)})' if m.partitions else ''}"
            )
        if isinstance(m, msg.Failed):
            return f"failed: {m.code.value}: {m.message}"
        if isinstance(m, msg.Stored):
            beside = f" beside them {shown(m.metadata)}" if m.metadata else ""
            return f"stored{' and given up' if m.given else ''} {shown(m.offsets)}{beside}"
        if isinstance(m, msg.UserData):
            return f"user data {m.text}"
        return f"notice {m.kind.value}{''.join(f' {k}={v}' for k, v in m.detail.items())}"

    # sessions

    def do_options(self, *pairs: str) -> None:
        given = {
            k: {"true": True, "false": False}[v] if v in ("true", "false") else int(v)
            for k, v in (p.split("=") for p in pairs)
        }
        self.member = GroupMember(MemberOptions(group="g", **given))  # type: ignore[arg-type]

    def do_opened(self, name: str, *words: str) -> ev.MemberEvent:
        self.name = name
        return ev.SessionOpened(self.now, name, options_in(words, "timeout", TIMEOUT_MS))

    def do_registered(self, incarnation: str, *words: str) -> ev.MemberEvent:
        self.incarnation = int(incarnation)
        return ev.Registered(
            self.now,
            self.incarnation,
            options_in(words, "epoch", 5),
            options_in(words, "lease", 12_000),
            self.now,
        )

    def do_joinfailed(self, code: str, *words: str) -> ev.MemberEvent:
        return ev.JoinFailed(self.now, msg.FailureCode[code], " ".join(words))

    def do_suspended(self) -> ev.MemberEvent:
        return ev.SessionSuspended(self.now)

    def do_nobodyserves(self, ago_ms: str) -> ev.MemberEvent:
        return ev.NobodyServes(self.now, self.now - int(ago_ms))

    def do_resumed(self) -> ev.MemberEvent:
        return ev.SessionResumed(self.now)

    def do_over(self) -> ev.MemberEvent:
        return ev.SessionOver(self.now)

    # what is read

    def _command(self, node: str, option: str, words: tuple[str, ...]) -> Command:
        partitions = words[0] if words and "-" in words[0] and "=" not in words[0] else ""
        epoch, seq = node.split("-")[:2]
        kind = {
            "start": Option.START,
            "stop": Option.STOP,
            "reject": Option.REJECT,
            "notify": Option.NOTIFY,
        }[option]
        code, stream = word_in(words, "code"), options_in(words, "stream", 0)
        starts = tps_of(partitions) if kind is Option.START else ()
        seen = word_in(words, "seen") or ""
        incarnations = dict(
            pair.split(":") for pair in (word_in(words, "topics") or "").split(",") if pair
        )
        self.meant.update(incarnations)
        return Command(
            self.name,
            options_in(words, "inc", self.incarnation),
            kind,
            int(epoch),
            int(seq),
            1,
            dict.fromkeys(starts, Thread(self.name, stream)),
            tps_of(partitions) if kind is Option.STOP else (),
            code=code or "",
            fatal="fatal" in words,
            message=f"because of {code}" if code else "",
            user_data=word_in(words, "data"),
            node=node,
            incarnations=incarnations,
            more="more" in words,
            seen=seen,
        )

    def do_command(self, node: str, option: str, *words: str) -> ev.MemberEvent:
        return ev.CommandsRead(self.now, (self._command(node, option, words),))

    def do_malformed(self, node: str) -> ev.MemberEvent:
        return ev.CommandsRead(self.now, (Malformed("command", f"{self.name}/{node}", "not JSON"),))

    def do_has(self, node: str, option: str, *words: str) -> None:
        self.there.append(self._command(node, option, words))

    def do_channel(self) -> ev.MemberEvent:
        there, self.there = tuple(self.there), []
        return ev.CommandsRead(self.now, there, True)

    def do_vanished(self, node: str) -> ev.MemberEvent:
        return ev.CommandVanished(self.now, node)

    def do_touched(self) -> ev.MemberEvent:
        return ev.RegistrationTouched(self.now)

    def do_read(self, *words: str) -> ev.MemberEvent:
        holdings: dict[TopicPartition, ev.PartitionReading] = {}
        for word in (w for w in words if "-" in w and "~" not in w and "!" not in w):
            name, what = word.split("=")
            what, quote, metadata = what.partition('"')
            metadata, _, noted_in = metadata.partition("/")
            whose, _, stored = what.partition(":")
            value, _, rest = stored.partition("@")
            version, _, written = rest.partition("/")
            offset = (
                None
                if not stored
                else Malformed("offset", name, "hidden" if value == "hidden" else "not a number")
                if value in ("bad", "hidden")
                else int(value)
            )
            kind = {"mine": ev.Whose.MINE, "foreign": ev.Whose.FOREIGN, "free": ev.Whose.NOBODY}[
                whose
            ]
            holdings[tp_of(name)] = ev.PartitionReading(
                kind,
                offset,
                int(version) if version else None,
                int(written or 0),
                metadata,
                bool(quote),
                int(noted_in or written or 0),
            )
        self.incarnation = options_in(words, "inc", self.incarnation)
        topics = {t: self.meant[t] for t in self.topics if t in self.meant} | {
            t: "" if now == "gone" else now
            for t, _, now in (w.partition("!") for w in words if "!" in w)
        }
        return ev.PartitionsRead(
            self.now,
            self.asked,
            None if "gone" in words else self.incarnation,
            "nocommand" not in words,
            holdings,
            dict(map(beside_of, (w for w in words if "~" in w))),
            {t: now for t, now in topics.items() if now != "bad"},
        )

    def do_epoch(self, epoch: str, lease: str) -> ev.MemberEvent:
        return ev.EpochRead(self.now, int(epoch), int(lease))

    def do_leader(self, alive: str, state: str = "Stable") -> ev.MemberEvent:
        return ev.LeaderSeen(self.now, alive == "alive", state)

    # how writes end

    def do_ok(self, *words: str) -> ev.MemberEvent:
        versions = {tp_of(k): int(v) for k, v in (w.split("@") for w in words if "@" in w)}
        return ev.Wrote(
            self.now, self.written, ev.Ending.OK, self.now - options_in(words, "ago", 0), versions
        )

    def do_evicted(self) -> ev.MemberEvent:
        return ev.Wrote(self.now, self.written, ev.Ending.EVICTED, self.now)

    def do_refused(self) -> ev.MemberEvent:
        return ev.Wrote(self.now, self.written, ev.Ending.REFUSED, self.now)

    def do_unknown(self) -> ev.MemberEvent:
        return ev.Wrote(self.now, self.written, ev.Ending.UNKNOWN, self.now)

    # the fetching side

    def _told(self, message: msg.FromFetcher) -> ev.MemberEvent:
        return ev.FromApplication(self.now, message)

    def do_subscribe(self, topics: str, *words: str) -> ev.MemberEvent:
        return self._told(
            msg.Subscribe(
                Subscription(dict.fromkeys(topics.split(","), 1)), word_in(words, "data") or ""
            )
        )

    def do_polled(self) -> ev.MemberEvent:
        return self._told(msg.Polled())

    def do_foresee(self, *words: str) -> ev.MemberEvent:
        return self._told(msg.ExpectCommit(offsets_of(words)))

    def do_commit(self, token: str, *words: str) -> ev.MemberEvent:
        given = tuple(w for w in words if "=" in w and not w.startswith("assignment_epoch="))
        quoted = (w.split('"') for w in words if '"' in w)
        return self._told(
            msg.Commit(
                int(token),
                offsets_of(given),
                options_in(words, "assignment_epoch", self.member.state.assignment_epoch),
                {tp_of(name): text for name, text in quoted},
            )
        )

    def do_revoked(self, *words: str) -> ev.MemberEvent:
        return self._told(
            msg.Revoked(
                self.revoke,
                offsets_of(tuple(w for w in words if not w.startswith("busy="))),
                tps_of(word_in(words, "busy") or ""),
            )
        )

    def do_resolved(self, *words: str) -> ev.MemberEvent:
        given = tuple(w for w in words if not w.startswith("unset="))
        unset = tps_of(word_in(words, "unset") or "")
        return self._told(msg.Resolved(self.resolve, offsets_of(given), unset))

    def do_giveup(self, code: str, *words: str) -> ev.MemberEvent:
        return self._told(msg.GiveUp(msg.FailureCode[code], " ".join(words)))

    def do_close(self, *words: str) -> ev.MemberEvent:
        given = tuple(w for w in words if not w.startswith("assignment_epoch="))
        return self._told(
            msg.Close(
                offsets_of(given),
                options_in(words, "assignment_epoch", self.member.state.assignment_epoch),
            )
        )

    # groups that are shared with old consumers

    def do_mode(self, kind: str) -> ev.MemberEvent:
        if kind == "bad":
            return ev.ModeRead(self.now, Malformed("mode", "g", "not JSON"))
        return ev.ModeRead(self.now, None if kind == "none" else Mode(GroupMode(kind)))

    def do_changed(self) -> ev.MemberEvent:
        return ev.LegacyGroupTouched(self.now)

    def do_group(self, seen: str, topics: str) -> ev.MemberEvent:
        return ev.LegacyGroupRead(self.now, self.asked, seen, topics)

    # time, and a look inside

    def do_old(self, *line: str) -> list[str]:
        latest = self.asked, self.written, self.revoke, self.resolve
        self.asked, self.written, self.revoke, self.resolve = (token - 1 for token in latest)
        said = self.run(" ".join(line))
        self.asked, self.written, self.revoke, self.resolve = latest
        return said or ["nothing"]

    def do_wake(self) -> list[str]:
        at_ms = self.member.next_wake_ms()
        return ["sleeps" if at_ms is None else f"wakes in {at_ms - self.now} ms"]

    def do_tick(self, ms: str) -> ev.MemberEvent:
        self.now += int(ms)
        return ev.MemberTick(self.now)

    def do_lease(self, *words: str) -> list[str]:
        until = self.member.lease.until(
            options_in(words, "assignment_epoch", self.member.state.assignment_epoch)
        )
        if until == 0:
            return ["lease none"]
        return ["lease over" if until <= self.now else f"lease for {until - self.now} ms"]

    def do_held(self) -> list[str]:
        held = {
            tp: f"{h.committed}@{h.version}"
            + ("" if h.step.value == "active" else f" ({h.step.value})")
            for tp, h in self.member.session.held.items()
        }
        return [f"{self.member.state.phase.value}, holds {shown(held)}"]


def replay(text: str) -> str:
    """A script with its answers written anew."""
    world = World()
    blocks = []
    for block in text.strip("\n").split("\n\n"):
        lines = block.split("\n----")[0].split("\n")
        answer = [
            out for line in lines if line and not line.startswith("#") for out in world.run(line)
        ]
        blocks.append("\n".join([*lines, "----", *answer]))
    return "\n\n".join(blocks) + "\n"
