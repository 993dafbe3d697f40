"""What if: the same world with another coordinator, as a closed loop.

The recorded commands cannot be compared with what other options would have decided, because members
would have answered to other commands. So the world answers here: what others did comes from the
recording at its recorded time (`zkcoord.replay.recorded_world`), and what followed from commands is
simulated by these rules:

* a write succeeds after the median time of the recorded ones, unless what it deletes is gone; a
  whole read and a custom assignor's answer take as long as recorded;
* a member carries out a command after the median time of its own recorded acks of that kind,
  completely, and does what it says to its owner nodes;
* a member that never answered its last recorded command (it was evicted, or went first) falls
  silent a second before that, but not before its last ack;
* members come, change and go as recorded, whatever they are commanded. An eviction that only the
  model has is not followed by a return. A member that was evicted in the recording is evicted by
  the model's own decision, and is gone at the latest when its session's owner nodes went, or a
  second after the recorded eviction where it had none;
* a custom assignor is not run: it answers a question that was recorded as it did, and any other
  with a failure.

The model ends with the recording.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from zkcoord.core import events as ev
from zkcoord.core.assignment import ASSIGNORS
from zkcoord.core.coordinator import Coordinator
from zkcoord.core.model import Malformed, Member
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.value_type import assert_never
from zkcoord.errors import ReplayError
from zkcoord.replay.group_world import GroupWorld
from zkcoord.replay.recorded_world import External, ExternalChange, Learned

IDLE_TICKS_MAX = 1_000_000
NOT_ASKED = "a custom assignor is not run in a what-if"

Watch = Callable[[ev.Event, list[ev.Action]], None]


@dataclass
class Model:
    """One run. `watch` is told every event with the actions; `assignor` overrides what members
    name.
    """

    learned: Learned
    options: CoordinatorOptions
    watch: Watch
    assignor: str | None = None
    unanswered: int = 0
    now_ms: int = 0
    over: bool = False
    worlds: dict[str, GroupWorld] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.core = Coordinator(self.options)
        self._order = self._suffix = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []

    def run(self) -> None:
        """From the first recorded input to the time of the last."""
        for given in self.learned.inputs:
            self._at(given.now_ms, partial(self._external, given))
        idle = 0
        while not self.over:
            at_ms = self._due[0][0] if self._due else None
            wake = self.core.next_wake_ms() if self.core.leading else None
            times = [t for t in (at_ms, wake) if t is not None]
            if not times or min(times) > self.learned.end_ms:
                return
            self.now_ms = max(self.now_ms, min(times))
            if at_ms is not None and (wake is None or at_ms < wake):
                idle = 0
                heapq.heappop(self._due)[2]()
            elif idle == IDLE_TICKS_MAX:
                raise ReplayError(
                    f"the model has nothing to do but wait at {self.now_ms} ms, {idle} times in a"
                    " row: a time in the recording was changed or damaged; if it was not, please"
                    " report it"
                )
            else:
                idle += 1
                self._step(ev.Tick(self.now_ms))

    def _at(self, ms: int, thunk: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._due, (ms, self._order, thunk))

    def _step(self, event: ev.Event) -> None:
        actions = self.core.step(event)
        self.watch(event, actions)
        for action in actions:
            match action:
                case ev.Write():
                    self._at(self.now_ms + self.learned.write_ms, partial(self._write_ends, action))
                case ev.ReadGroup():
                    self._at(self.now_ms + self.learned.read_ms, partial(self._read, action.group))
                case ev.Assign():
                    self._ask(action)
                case ev.Resign():
                    self.over = True
                case ev.Record():
                    pass
                case _:
                    assert_never(action)

    # what others did

    def _external(self, given: External) -> None:
        if isinstance(given, ExternalChange):
            self._change(given)
            return
        if isinstance(given, ev.GroupChanged):
            given = replace(
                given,
                delta=replace(
                    given.delta,
                    members={
                        name: self._told(member) for name, member in given.delta.members.items()
                    },
                ),
            )
            self.worlds.setdefault(given.group, GroupWorld()).take(given.delta)
        elif isinstance(given, ev.GroupGone):
            self.worlds.pop(given.group, None)
        self._step(given)

    def _told(self, member: Member | Malformed | None) -> Member | Malformed | None:
        """A registration as the coordinator reads it here."""
        return (
            replace(member, assignors=(self.assignor,))
            if isinstance(member, Member) and self.assignor is not None
            else member
        )

    def _change(self, given: ExternalChange) -> None:
        world = self.worlds.setdefault(given.group, GroupWorld())
        ended = {
            name: None
            for name, member in world.members.items()
            if isinstance(member, Member) and member.session in given.ended
        }
        members = {
            **ended,
            **{
                name: self._told(member)
                for name, member in given.members.items()
                if member is not None or name in world.members
            },
        }
        renewed = {
            name
            for name, member in members.items()
            if isinstance(member, Member) and name in world.members
        }
        owners = {
            **given.owners,
            **{tp: None for session in given.ended for tp in world.held_by(session)},
        }
        commands = {key: None for key in world.commands if key[0] in renewed}
        delta = ev.GroupDelta(
            members=members,
            channels=given.channels,
            commands=commands,
            owners=owners,
            requests=given.requests,
            mode=given.mode,
        )
        world.take(delta)
        self._step(ev.GroupChanged(self.now_ms, given.group, delta, given.matches))

    # what follows from commands

    def _write_ends(self, write: ev.Write) -> None:
        world = self.worlds.setdefault(write.group, GroupWorld())
        if not world.possible(write.ops):
            self._step(
                ev.Written(
                    self.now_ms,
                    write.group,
                    write.token,
                    ev.Outcome.REFUSED,
                    why="something changed meanwhile",
                )
            )
            return
        sends = [op.command for op in write.ops if isinstance(op, ev.Send)]
        nodes = []
        for command in sends:
            self._suffix += 1
            nodes.append(f"{command.epoch}-{command.seq}-{self._suffix:010d}")
        world.write(write.ops, nodes)
        for command, node in zip(sends, nodes, strict=False):
            if self.learned.answers(command.member, self.now_ms):
                at_ms = self.now_ms + self.learned.ack_ms(command.member, command.option)
                self._at(at_ms, partial(self._ack, write.group, (command.member, node)))
        self._step(ev.Written(self.now_ms, write.group, write.token, ev.Outcome.OK, tuple(nodes)))

    def _ack(self, group: str, key: tuple[str, str]) -> None:
        world = self.worlds.setdefault(group, GroupWorld())
        delta = world.ack(key)
        if delta is not None:
            world.take(delta)
            self._step(ev.GroupChanged(self.now_ms, group, delta))

    def _read(self, group: str) -> None:
        self._step(
            ev.GroupChanged(self.now_ms, group, self.worlds.setdefault(group, GroupWorld()).whole())
        )

    def _ask(self, question: ev.Assign) -> None:
        same = [
            (answer, ms)
            for asked, answer, ms in self.learned.answered
            if (asked.group, asked.assignor, asked.given)
            == (question.group, question.assignor, question.given)
        ]
        if same:
            answer, ms = same[0]
            event = replace(answer, token=question.token)
        elif question.assignor in ASSIGNORS:
            assigned = ASSIGNORS[question.assignor](question.given)
            event, ms = ev.AssignorAnswered(0, question.group, question.token, assigned), 1
        else:
            self.unanswered += 1
            event, ms = ev.AssignorAnswered(0, question.group, question.token, None, NOT_ASKED), 1
        self._at(self.now_ms + ms, lambda: self._step(replace(event, now_ms=self.now_ms)))
