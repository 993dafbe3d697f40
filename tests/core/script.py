"""Transcripts: a script of what happens to a coordinator's core, with everything that it answers.

A file under tests/core/scripts is a list of blocks: lines of input, `----`, then the answer, then
an empty line. Lines of input:

    options debounce_ms=10 ...            (before everything else)
    elected EPOCH | ready | paused | tick MS          time goes on by `tick`
    topic NAME PARTITIONS [incarnation] | topic NAME gone
    match REGEX t1,t2                     what a white-list wildcard matches now
    member G NAME@CZXID TOPIC:STREAMS,..|- [assignors=a,b] [protocols=a,b] [instance=I grace=MS]
        [data=TEXT] [timeout=MS] [legacy] [unfollowed=WHY] [pattern=REGEX]
                                          [instead=NAME]      in one reading with the end of another
                                                              registration
    gone G NAME                           registration and, as one close, the owner nodes of its
                                          session
    expired G NAME                        the registration alone (an eviction seen)
    ack G NAME                            the member's outstanding command is carried out and
                                          deleted, owner nodes and all
    own G NAME TOPIC-P[,..] | free G TOPIC-P[,..] | foreign G TOPIC-P session=N [version=0]
    command G NAME epoch=E seq=S stop|start TOPIC-P[,..]      a command found in a channel
    report G GENERATION STATE MEMBERS TOPICS [INSTANCE=GRACE:TOPIC-P,..]
        the group node's data, as the coordinator before us left it
    request G NODE [fresh]                an operator asks for a rebalance
    mode G legacy|mixed|coordinated|none [STRATEGY]      an operator says whose the group is
    answer G TOKEN|last TOPIC-P=MEMBER.. [data.MEMBER=TEXT] | failure G TOKEN|last WHY..
        what a custom assignor said
    given G                               print who owns what in the question that a custom assignor
                                          has not answered yet
    malformed G registration|owner NAME reason..     | unkept G (the keeper's node is gone)
    settle [NAME,..]                      every write succeeds and every command is carried out,
                                          except those of the members named, until nothing more
                                          happens
    ok | fenced | refused WHY | unknown   how the oldest write that is under way ended
    read G                                the whole read that was asked for arrives, and says what
                                          is known
    state                                 print the group's state and its partitions

What `zkcoord replay --to-script` writes, besides comments and some of these:

    wait MS                               time goes on, and the core is not told
    event JSON                            any event as the core's encoding writes it, without its
                                          time
    numbers TOKEN SEQ                     other groups, which were left out, have taken the numbers
                                          so far

`ZKCOORD_REWRITE=1 pytest tests/core` writes the answers anew; commit them only when the difference
is understood.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import get_type_hints

from zkcoord.core import events as ev
from zkcoord.core.assignment import Assignment
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.model import (
    Command,
    Departed,
    GroupMetadata,
    GroupMode,
    GroupState,
    Malformed,
    Member,
    Mode,
    Option,
    Owner,
    Pattern,
    PatternKind,
    Request,
    RequestKind,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.shared import KEEPER
from zkcoord.core_encoding import codec
from zkcoord.replay.text import action_text, partitions_text


def tps(text: str) -> tuple[TopicPartition, ...]:
    """t-0,t-1 as partitions."""
    return tuple(
        TopicPartition(p.rpartition("-")[0], int(p.rpartition("-")[2]))
        for p in text.split(",")
        if p
    )


def _value(name: str, text: str) -> object:
    """An option's value: JSON, or a text as it stands; names of assignors may also stand without
    quotes, with commas.
    """
    try:
        return json.loads(text)
    except ValueError:
        return text.split(",") if name == "external_assignors" else text


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
        self.asked: dict[str, int] = {}
        self.suffix = 0
        self.zxid = 1_000

    def run(self, line: str) -> list[str]:
        """Carry out one line of input; returns what the core answered, as text."""
        word, *rest = line.split()
        if word == "event":
            rest = [line.partition(" ")[2]]  # JSON, spaces and all
        method: Callable[..., list[ev.Action]] = getattr(self, f"do_{word}")
        actions = method(*rest)
        if word != "settle":
            self._remember(actions)
        return [action_text(action) for action in actions]

    def _remember(self, actions: list[ev.Action]) -> None:
        """A write is under way until its end is told."""
        self.writes += [a for a in actions if isinstance(a, ev.Write)]
        self.asked.update({a.group: a.token for a in actions if isinstance(a, ev.Assign)})

    # time and terms

    def do_options(self, *pairs: str) -> list[ev.Action]:
        hints = get_type_hints(CoordinatorOptions)
        self.options = CoordinatorOptions(
            **{
                name: codec(hints[name]).decode(_value(name, text))
                for name, text in (pair.split("=", 1) for pair in pairs)
            }
        )
        self.core = Coordinator(self.options)
        return []

    # what a recording says (zkcoord replay --to-script)

    def do_wait(self, ms: str) -> list[ev.Action]:
        self.now += int(ms)
        return []

    def do_numbers(self, token: str, seq: str) -> list[ev.Action]:
        self.core.token, self.core.seq = int(token), int(seq)
        return []

    def do_event(self, text: str) -> list[ev.Action]:
        ((kind, fields),) = json.loads(text).items()
        return self.core.step(codec(ev.Event).decode({kind: {"now_ms": self.now, **fields}}))

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
            held = {
                m: partitions_text(
                    tp
                    for tp, o in group.view.owners.items()
                    if isinstance(o, Owner) and group.view.by_session.get(o.session) == m
                )
                for m in sorted(group.view.members)
            }
            actions.append(
                ev.Record(
                    "state", name, {"is": group.state.value, "generation": group.generation, **held}
                )
            )
        return actions

    def do_given(self, group: str) -> list[ev.Action]:
        asked = self.core.groups[group].assignor_call
        assert asked is not None, "nothing is asked"
        return [
            ev.Record(
                "given",
                group,
                {
                    member: partitions_text(
                        tp for tp, t in asked.prepared.given.owners.items() if t.member == member
                    )
                    for member in sorted(asked.prepared.given.members)
                },
            )
        ]

    # topics

    def do_topic(self, name: str, partitions: str, incarnation: str = "1") -> list[ev.Action]:
        self.zxid += 1
        before = self.core.world.topics.get(name)
        created = (
            before.created
            if before is not None and before.incarnation == incarnation
            else self.zxid
        )
        topic = (
            None
            if partitions == "gone"
            else Topic(name, incarnation, tuple(range(int(partitions))), created)
        )
        return self.core.step(ev.TopicsChanged(self.now, {name: topic}))

    def do_match(self, regex: str, names: str = "") -> list[ev.Action]:
        return self.core.step(
            ev.TopicsChanged(
                self.now,
                {},
                {
                    Pattern(PatternKind.WHITE_LIST, regex): frozenset(
                        n for n in names.split(",") if n
                    )
                },
            )
        )

    # groups

    def _changed(self, group: str, delta: ev.GroupDelta) -> list[ev.Action]:
        return self.core.step(ev.GroupChanged(self.now, group, delta))

    def do_member(self, group: str, identity: str, topics: str, *extras: str) -> list[ev.Action]:
        name, czxid = identity.split("@")
        given = dict(e.split("=", 1) for e in extras if "=" in e)
        pattern = Pattern(PatternKind.WHITE_LIST, given["pattern"]) if "pattern" in given else None
        named = not pattern and "unfollowed" not in given
        streams = (
            {t.split(":")[0]: int(t.split(":")[1]) for t in topics.split(",")}
            if named and topics != "-"
            else {}
        )
        member = Member(
            name,
            int(czxid),
            int(czxid),
            Subscription(streams, pattern, 1 if named or pattern else int(topics)),
            tuple(given.get("assignors", "sticky").split(",")),
            tuple(given.get("protocols", "cooperative").split(",")),
            given.get("instance"),
            grace_ms=int(given.get("grace", "0")),
            rebalance_timeout_ms=int(given.get("timeout", "60000")),
            user_data=given.get("data", ""),
            legacy="legacy" in extras,
            unfollowed=given.get("unfollowed", ""),
        )
        members = self.members.setdefault(group, {})
        members[name] = member
        ended = {members.pop(given["instead"]).name: None} if "instead" in given else {}
        return self._changed(
            group, ev.GroupDelta(members={**ended, name: member}, channels={name: True})
        )

    def do_report(
        self, group: str, generation: str, state: str, members: str, topics: str, *instances: str
    ) -> list[ev.Action]:
        departed = tuple(
            Departed(i, tps(promise.split(":")[1]), 0, int(promise.split(":")[0]))
            for i, promise in (text.split("=") for text in instances)
        )
        report = GroupMetadata(
            int(generation),
            GroupState(state),
            "sticky",
            topics=tuple(topics.split(",")),
            members=int(members),
            departed=departed,
            failure="it failed before" if state == "Quarantined" else "",
        )
        return self._changed(group, ev.GroupDelta(metadata=report))

    def do_request(self, group: str, node: str, fresh: str = "") -> list[ev.Action]:
        return self._changed(
            group,
            ev.GroupDelta(
                requests={node: Request(RequestKind.REBALANCE, bool(fresh), "an operator")}
            ),
        )

    def do_evict(self, group: str, node: str, name: str, session: str = "") -> list[ev.Action]:
        member = self.members.get(group, {}).get(name)
        known = member.session if isinstance(member, Member) else 0
        asked = Request(
            RequestKind.EVICT, False, "an operator", name, int(session) if session else known
        )
        return self._changed(group, ev.GroupDelta(requests={node: asked}))

    def do_pause(self, group: str, by: str = "ann") -> list[ev.Action]:
        said = Mode(GroupMode.COORDINATED, by=by, paused=True)
        return self._changed(group, ev.GroupDelta(mode={"mode": said}))

    def do_resume(self, group: str, by: str = "bob") -> list[ev.Action]:
        said = Mode(GroupMode.COORDINATED, by=by)
        return self._changed(group, ev.GroupDelta(mode={"mode": said}))

    def do_mode(self, group: str, kind: str, strategy: str = "legacy-range") -> list[ev.Action]:
        return self._changed(
            group,
            ev.GroupDelta(
                mode={
                    "mode": (
                        None if kind == "none" else Mode(GroupMode(kind), strategy, "an operator")
                    )
                }
            ),
        )

    def do_answer(self, group: str, token: str, *parts: str) -> list[ev.Action]:
        given = dict(p.split("=", 1) for p in parts)
        data = {k.removeprefix("data."): v for k, v in given.items() if k.startswith("data.")}
        targets = {tps(k)[0]: Thread(v, 0) for k, v in given.items() if not k.startswith("data.")}
        return self.core.step(
            ev.AssignorAnswered(
                self.now, group, self._token(group, token), Assignment(targets, (), data)
            )
        )

    def _token(self, group: str, token: str) -> int:
        return self.asked[group] if token == "last" else int(token)

    def do_failure(self, group: str, token: str, *why: str) -> list[ev.Action]:
        return self.core.step(
            ev.AssignorAnswered(self.now, group, self._token(group, token), None, " ".join(why))
        )

    def do_gone(self, group: str, name: str) -> list[ev.Action]:
        member = self.members[group].pop(name)
        assert isinstance(member, Member)
        mine = [
            tp
            for tp, o in self.owners.get(group, {}).items()
            if isinstance(o, Owner) and o.session == member.session
        ]
        for tp in mine:
            del self.owners[group][tp]
        return self._changed(group, ev.GroupDelta(members={name: None}, owners=dict.fromkeys(mine)))

    def do_unkept(self, group: str) -> list[ev.Action]:
        return self._changed(group, ev.GroupDelta(members={KEEPER: None}))

    def do_expired(self, group: str, name: str) -> list[ev.Action]:
        self.members[group].pop(name)
        return self._changed(group, ev.GroupDelta(members={name: None}))

    def do_malformed(self, group: str, what: str, name: str, *reason: str) -> list[ev.Action]:
        bad = Malformed(what, name, " ".join(reason))
        if what == "owner":
            self.owners.setdefault(group, {})[tps(name)[0]] = bad
            return self._changed(group, ev.GroupDelta(owners={tps(name)[0]: bad}))
        if what == "request":
            return self._changed(group, ev.GroupDelta(requests={name: bad}))
        self.members.setdefault(group, {})[name] = bad
        return self._changed(group, ev.GroupDelta(members={name: bad}, channels={name: False}))

    def do_own(self, group: str, name: str, partitions: str) -> list[ev.Action]:
        member = self.members[group][name]
        assert isinstance(member, Member)
        owners = {tp: Owner(member.session, Thread(name, 0), 1) for tp in tps(partitions)}
        self.owners.setdefault(group, {}).update(owners)
        return self._changed(group, ev.GroupDelta(owners=owners))

    def do_foreign(
        self, group: str, partitions: str, session: str, version: str = "version=1"
    ) -> list[ev.Action]:
        owners = {
            tp: Owner(int(session.split("=")[1]), Thread("somebody", 0), int(version.split("=")[1]))
            for tp in tps(partitions)
        }
        self.owners.setdefault(group, {}).update(owners)
        return self._changed(group, ev.GroupDelta(owners=owners))

    def do_free(self, group: str, partitions: str) -> list[ev.Action]:
        for tp in tps(partitions):
            self.owners[group].pop(tp, None)
        return self._changed(group, ev.GroupDelta(owners=dict.fromkeys(tps(partitions))))

    def do_command(
        self, group: str, name: str, epoch: str, seq: str, option: str, partitions: str
    ) -> list[ev.Action]:
        member = self.members[group].get(name)
        czxid = member.incarnation if isinstance(member, Member) else 0
        start = {tp: Thread(name, 0) for tp in tps(partitions)} if option == "start" else {}
        stop = () if start else tps(partitions)
        e, s = int(epoch.split("=")[1]), int(seq.split("=")[1])
        node = f"{e}-{s}-{self._suffix()}"
        command = Command(
            name, czxid, Option.START if start else Option.STOP, e, s, 1, start, stop, node=node
        )
        self.commands.setdefault(group, {})[(name, node)] = command
        return self._changed(
            group, ev.GroupDelta(commands={(name, node): command}, channels={name: True})
        )

    def do_ack(self, group: str, name: str) -> list[ev.Action]:
        # the script's author knows that there is one
        key, command = next((k, c) for k, c in self.commands[group].items() if k[0] == name)
        assert isinstance(command, Command)
        member = self.members[group][name]
        assert isinstance(member, Member)
        self.zxid += 1
        owners: dict[TopicPartition, Owner | None] = {
            tp: Owner(member.session, thread, 1, self.zxid) for tp, thread in command.start.items()
        }
        owners.update(dict.fromkeys(command.stop))
        for tp, owner in owners.items():
            if owner is None:
                self.owners.get(group, {}).pop(tp, None)
            else:
                self.owners.setdefault(group, {})[tp] = owner
        del self.commands[group][key]
        return self._changed(group, ev.GroupDelta(commands={key: None}, owners=owners))

    def do_settle(self, but: str = "") -> list[ev.Action]:
        shown: list[ev.Action] = []
        deaf = set(but.split(","))
        while True:
            due = [
                (g, m)
                for g, commands in self.commands.items()
                for (m, _), c in commands.items()
                if m not in deaf
                and isinstance(self.members[g].get(m), Member)
                and isinstance(c, Command)
                and c.option is not Option.REJECT
            ]
            if self.writes:
                actions = self.do_ok()
            elif due:
                actions = self.do_ack(*due[0])
            else:
                return shown
            self._remember(actions)
            shown += actions

    # outcomes

    def _suffix(self) -> str:
        self.suffix += 1
        return f"{self.suffix - 1:010d}"

    def _end(
        self, outcome: ev.Outcome, nodes: tuple[str, ...] = (), why: str = ""
    ) -> list[ev.Action]:
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
        # copies: what the core was told does not change afterwards
        members = dict(self.members.get(group, {}))
        return self._changed(
            group,
            ev.GroupDelta(
                True,
                members,
                dict.fromkeys(members, True),
                dict(self.commands.get(group, {})),
                dict(self.owners.get(group, {})),
            ),
        )


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
