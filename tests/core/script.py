"""Transcripts: a script of what happens to a coordinator's core, with everything that it answers.

A file under tests/core/scripts is a list of blocks: lines of input, `----`, then the answer, then an empty line. Lines of input:

    options debounce_ms=10 ...            (before everything else)
    elected EPOCH | ready | paused | tick MS          time goes on by `tick`
    topic NAME PARTITIONS [incarnation] | topic NAME gone
    match REGEX t1,t2                     what a white-list wildcard matches now
    member G NAME@CZXID TOPIC:STREAMS,.. [assignors=a,b] [timeout=MS] [legacy] [pattern=REGEX]
    gone G NAME                           registration and, as one close, the owner nodes of its session
    expired G NAME                        the registration alone (an eviction seen)
    ack G NAME                            the member's outstanding command is carried out and deleted, owner nodes and all
    own G NAME TOPIC-P[,..] | free G TOPIC-P[,..] | foreign G TOPIC-P session=N [version=0]
    command G NAME epoch=E seq=S stop|start TOPIC-P[,..]      a command found in a channel
    report G GENERATION STATE MEMBERS TOPICS      the group node's data, as the coordinator before us left it
    malformed G registration|owner NAME reason..
    ok | fenced | refused WHY | unknown   how the oldest write that is under way ended
    read G                                the whole read that was asked for arrives, and says what is known
    state                                 print the group's state and its partitions

`ZKCOORD_REWRITE=1 pytest tests/core` writes the answers anew; commit them only when the difference is understood.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.core import events as ev
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.model import Command, GroupMetadata, GroupState, Malformed, Member, Option, Owner, Pattern, PatternKind, Subscription, Thread, Topic, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.rebalance import ranges


def tps(text: str) -> tuple[TopicPartition, ...]:
    """t-0,t-1 as partitions."""
    return tuple(TopicPartition(p.rpartition("-")[0], int(p.rpartition("-")[2])) for p in text.split(",") if p)


def shown(partitions: object) -> str:
    """Partitions by topic and range: t[0-3]."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions):  # type: ignore[call-overload]
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return ",".join(f"{t}[{ranges(ps)}]" for t, ps in by_topic.items()) or "nothing"


class World:
    """What ZooKeeper holds, as far as the script said, and the core that is told of it."""

    def __init__(self) -> None:
        self.options = CoordinatorOptions()
        self.core = Coordinator(self.options)
        self.now = 0
        self.members: dict[str, dict[str, Member | Malformed]] = {}
        self.owners: dict[str, dict[TopicPartition, Owner | Malformed]] = {}
        self.commands: dict[str, dict[tuple[str, str], Command | Malformed]] = {}
        self.writes: list[ev.Write] = []
        self.suffix = 0

    def run(self, line: str) -> list[str]:
        """Carry out one line of input; returns what the core answered, as text."""
        word, *rest = line.split()
        method: Callable[..., list[ev.Action]] = getattr(self, f"do_{word}")
        return [self.text(action) for action in method(*rest)]

    # what the core says, as text

    def text(self, action: ev.Action) -> str:
        """One action on one line."""
        if isinstance(action, ev.Write):
            self.writes.append(action)
            return f"write {action.group}: " + "; ".join(self.op(op) for op in action.ops)
        if isinstance(action, ev.ReadGroup):
            return f"read {action.group} ({action.why})"
        if isinstance(action, ev.Resign):
            return f"resign: {action.reason}"
        detail = " ".join(f"{k}={v}" for k, v in action.detail.items() if k != "waited_for")
        return f"record {action.kind}{' ' + action.group if action.group else ''}: {detail}"

    def op(self, op: ev.WriteOp) -> str:
        """One operation of a write."""
        if isinstance(op, ev.Send):
            c = op.command
            what = f" {c.code}" if c.option is Option.REJECT else ""
            by_thread: dict[str, list[TopicPartition]] = {}
            for tp, thread in c.start.items():
                by_thread.setdefault(str(thread), []).append(tp)
            parts = " ".join(f"{t}={shown(p)}" for t, p in sorted(by_thread.items())) or shown(c.stop)
            return f"{c.option.value}{what} {c.member} #{c.seq} g{c.generation} {parts if not what else ''}".rstrip()
        if isinstance(op, ev.PutMetadata):
            m = op.metadata
            return f"metadata g{m.generation} {m.state.value} {m.assignor} members={m.members}"
        if isinstance(op, ev.DeleteCommand):
            return f"delete command {op.member}/{op.node}"
        if isinstance(op, ev.DeleteRegistration):
            return f"delete registration {op.member}"
        if isinstance(op, ev.DeleteOwner):
            return f"delete owner {op.partition}@{op.version}"
        return f"delete channel {op.member}"

    # time and terms

    def do_options(self, *pairs: str) -> list[ev.Action]:
        self.options = CoordinatorOptions(**{k: int(v) if v.isdigit() else v for k, v in (p.split("=") for p in pairs)})  # type: ignore[arg-type]
        self.core = Coordinator(self.options)
        return []

    def do_elected(self, epoch: str) -> list[ev.Action]:
        self.writes.clear()
        return self.core.step(ev.Elected(self.now, int(epoch)))

    def do_ready(self) -> list[ev.Action]:
        return self.core.step(ev.Ready(self.now))

    def do_paused(self) -> list[ev.Action]:
        return self.core.step(ev.Paused(self.now))

    def do_tick(self, ms: str) -> list[ev.Action]:
        self.now += int(ms)
        return self.core.step(ev.Tick(self.now))

    def do_state(self) -> list[ev.Action]:
        actions: list[ev.Action] = []
        for name, group in sorted(self.core.groups.items()):
            held = {m: shown(tp for tp, o in group.view.owners.items() if isinstance(o, Owner) and group.view.by_session.get(o.session) == m) for m in sorted(group.view.members)}
            actions.append(ev.Record("state", name, {"is": group.state.value, "generation": group.generation, **held}))
        return actions

    # topics

    def do_topic(self, name: str, partitions: str, incarnation: str = "1") -> list[ev.Action]:
        topic = None if partitions == "gone" else Topic(name, incarnation, tuple(range(int(partitions))))
        return self.core.step(ev.TopicsChanged(self.now, {name: topic}))

    def do_match(self, regex: str, names: str = "") -> list[ev.Action]:
        return self.core.step(ev.TopicsChanged(self.now, {}, {Pattern(PatternKind.WHITE_LIST, regex): frozenset(n for n in names.split(",") if n)}))

    # groups

    def _changed(self, group: str, delta: ev.GroupDelta) -> list[ev.Action]:
        return self.core.step(ev.GroupChanged(self.now, group, delta))

    def do_member(self, group: str, identity: str, topics: str, *extras: str) -> list[ev.Action]:
        name, czxid = identity.split("@")
        given = dict(e.split("=", 1) for e in extras if "=" in e)
        pattern = Pattern(PatternKind.WHITE_LIST, given["pattern"]) if "pattern" in given else None
        streams = {} if pattern else {t.split(":")[0]: int(t.split(":")[1]) for t in topics.split(",")}
        member = Member(name, int(czxid), int(czxid), Subscription(streams, pattern), tuple(given.get("assignors", "sticky").split(",")),
                        rebalance_timeout_ms=int(given.get("timeout", "60000")), legacy="legacy" in extras)
        self.members.setdefault(group, {})[name] = member
        return self._changed(group, ev.GroupDelta(members={name: member}, channels={name: True}))

    def do_report(self, group: str, generation: str, state: str, members: str, topics: str) -> list[ev.Action]:
        report = GroupMetadata(int(generation), GroupState(state), "sticky", topics=tuple(topics.split(",")), members=int(members))
        return self._changed(group, ev.GroupDelta(metadata=report))

    def do_gone(self, group: str, name: str) -> list[ev.Action]:
        member = self.members[group].pop(name)
        assert isinstance(member, Member)
        mine = [tp for tp, o in self.owners.get(group, {}).items() if isinstance(o, Owner) and o.session == member.session]
        for tp in mine:
            del self.owners[group][tp]
        return self._changed(group, ev.GroupDelta(members={name: None}, owners=dict.fromkeys(mine)))

    def do_expired(self, group: str, name: str) -> list[ev.Action]:
        self.members[group].pop(name)
        return self._changed(group, ev.GroupDelta(members={name: None}))

    def do_malformed(self, group: str, what: str, name: str, *reason: str) -> list[ev.Action]:
        bad = Malformed(what, name, " ".join(reason))
        if what == "owner":
            self.owners.setdefault(group, {})[tps(name)[0]] = bad
            return self._changed(group, ev.GroupDelta(owners={tps(name)[0]: bad}))
        self.members.setdefault(group, {})[name] = bad
        return self._changed(group, ev.GroupDelta(members={name: bad}, channels={name: False}))

    def do_own(self, group: str, name: str, partitions: str) -> list[ev.Action]:
        member = self.members[group][name]
        assert isinstance(member, Member)
        owners = {tp: Owner(member.session, Thread(name, 0), 1) for tp in tps(partitions)}
        self.owners.setdefault(group, {}).update(owners)
        return self._changed(group, ev.GroupDelta(owners=owners))

    def do_foreign(self, group: str, partitions: str, session: str, version: str = "version=1") -> list[ev.Action]:
        owners = {tp: Owner(int(session.split("=")[1]), Thread("somebody", 0), int(version.split("=")[1])) for tp in tps(partitions)}
        self.owners.setdefault(group, {}).update(owners)
        return self._changed(group, ev.GroupDelta(owners=owners))

    def do_free(self, group: str, partitions: str) -> list[ev.Action]:
        for tp in tps(partitions):
            self.owners[group].pop(tp, None)
        return self._changed(group, ev.GroupDelta(owners=dict.fromkeys(tps(partitions))))

    def do_command(self, group: str, name: str, epoch: str, seq: str, option: str, partitions: str) -> list[ev.Action]:
        member = self.members[group].get(name)
        czxid = member.incarnation if isinstance(member, Member) else 0
        start = {tp: Thread(name, 0) for tp in tps(partitions)} if option == "start" else {}
        stop = () if start else tps(partitions)
        e, s = int(epoch.split("=")[1]), int(seq.split("=")[1])
        node = f"{e}-{s}-{self._suffix()}"
        command = Command(name, czxid, Option.START if start else Option.STOP, e, s, 1, start, stop, node=node)
        self.commands.setdefault(group, {})[(name, node)] = command
        return self._changed(group, ev.GroupDelta(commands={(name, node): command}, channels={name: True}))

    def do_ack(self, group: str, name: str) -> list[ev.Action]:
        (key, command) = next((k, c) for k, c in self.commands[group].items() if k[0] == name)  # the script's author knows that there is one
        assert isinstance(command, Command)
        member = self.members[group][name]
        assert isinstance(member, Member)
        owners: dict[TopicPartition, Owner | None] = {tp: Owner(member.session, thread, 1) for tp, thread in command.start.items()}
        owners.update(dict.fromkeys(command.stop))
        for tp, owner in owners.items():
            if owner is None:
                self.owners.get(group, {}).pop(tp, None)
            else:
                self.owners.setdefault(group, {})[tp] = owner
        del self.commands[group][key]
        return self._changed(group, ev.GroupDelta(commands={key: None}, owners=owners))

    # outcomes

    def _suffix(self) -> str:
        self.suffix += 1
        return f"{self.suffix - 1:010d}"

    def _end(self, outcome: ev.Outcome, nodes: tuple[str, ...] = (), why: str = "") -> list[ev.Action]:
        write = self.writes.pop(0)
        return self.core.step(ev.Written(self.now, write.group, write.token, outcome, nodes, why))

    def do_ok(self) -> list[ev.Action]:
        write = self.writes[0]
        nodes = []
        commands = self.commands.setdefault(write.group, {})
        for op in write.ops:
            if isinstance(op, ev.Send):
                nodes.append(f"{op.command.epoch}-{op.command.seq}-{self._suffix()}")
                commands[(op.command.member, nodes[-1])] = op.command
            elif isinstance(op, ev.DeleteCommand):
                commands.pop((op.member, op.node), None)
            elif isinstance(op, ev.DeleteOwner):
                self.owners[write.group].pop(op.partition, None)
        return self._end(ev.Outcome.OK, tuple(nodes))

    def do_fenced(self) -> list[ev.Action]:
        return self._end(ev.Outcome.FENCED)

    def do_refused(self, *why: str) -> list[ev.Action]:
        return self._end(ev.Outcome.REFUSED, why=" ".join(why))

    def do_unknown(self) -> list[ev.Action]:
        return self._end(ev.Outcome.UNKNOWN)

    def do_read(self, group: str) -> list[ev.Action]:
        members = self.members.get(group, {})
        return self._changed(group, ev.GroupDelta(True, members, {n: True for n in members}, self.commands.get(group, {}), self.owners.get(group, {})))


def replay(text: str) -> str:
    """A script with its answers written anew."""
    world = World()
    blocks = []
    for block in text.strip("\n").split("\n\n"):
        lines = block.split("\n----")[0].split("\n")
        answer = [out for line in lines if line and not line.startswith("#") for out in world.run(line)]
        blocks.append("\n".join([*lines, "----", *answer]))
    return "\n\n".join(blocks) + "\n"
