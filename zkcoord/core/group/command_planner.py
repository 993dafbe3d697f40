"""The next commands of a group: at most one outstanding per member, stop before start; what a
member is to be told waits until it has nothing to do.

The cooperative form stops only what moves. The eager form (the draft's): once anything must be
stopped, everything of everybody is (`GroupView.recall`), and nothing is started while a stop is
outstanding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from zkcoord.core.error_codes import NONE, REBALANCE_FAILED
from zkcoord.core.events import Send
from zkcoord.core.model import Command, Member, Option, TopicPartition
from zkcoord.core.options import CoordinatorOptions
from zkcoord.core.sizes import json_bytes
from zkcoord.core.target import EAGER, TargetAssignment, TargetInput

from .view import GroupView

COMMAND_FIXED_BYTES = 800
PARTITION_FIXED_BYTES = 32


class CommandPlanner:
    """Builds the commands of one group in one term. `world` says what members subscribe; `next_seq`
    numbers commands; `told` and `told_data` remember what members were told last; `seen` stands for
    the registrations in a shared group.
    """

    def __init__(
        self,
        view: GroupView,
        world: TargetInput,
        options: CoordinatorOptions,
        next_seq: Callable[[], int],
    ) -> None:
        self.view = view
        self.world = world
        self.options = options
        self.next_seq = next_seq
        self.gathering: dict[str, int] = {}
        self.told: dict[str, str] = {}
        self.told_data: dict[str, str] = {}
        self.seen = ""

    def commands(
        self, now_ms: int, result: TargetAssignment, generation: int, settled: bool
    ) -> tuple[Send, ...]:
        """One command for each member that needs one and has none outstanding. `settled`: the
        target is not about to change, so it may be told.
        """
        stopping = self._recall(result)
        wanted = sorted({*self.view.to_revoke, *self._gathered(now_ms, stopping), *result.rejected})
        sends = (
            self._within_limits(
                self._command_for(m, result, generation) for m in self._free(wanted)
            )
            if wanted
            else ()
        )
        if sends or not settled:
            return sends
        return self._within_limits(
            self._news(m, result, generation, NONE, "")
            for m in self._free(sorted({*self.told, *result.user_data}))
        )

    def next_wake_ms(self) -> int | None:
        """When a start is due that waits for more of the same."""
        return min(self.gathering.values(), default=None)

    def pause(self) -> None:
        """Nothing is commanded for now, so nothing waits."""
        self.gathering.clear()

    def _gathered(self, now_ms: int, stopping: bool) -> list[str]:
        """Who is to be started: at once, or, while others are giving up more for it, a little
        later: one start of all costs less than one after the other.
        """
        view = self.view
        if stopping:
            self.pause()
            return []
        self.gathering = {
            m: self.gathering.get(m, now_ms + self.options.start_gather_ms)
            for m in view.assignable
            if m in view.coming and m not in view.live and not view.members[m].legacy
        }
        due = [m for m in view.assignable if self.gathering.get(m, now_ms) <= now_ms]
        for member in due:
            self.gathering.pop(member, None)
        return due

    def quarantined(
        self, result: TargetAssignment, generation: int, reason: str
    ) -> tuple[Send, ...]:
        """Tell every member of a quarantined group, once."""
        untold = [
            name for name in sorted(self.view.members) if self.told.get(name) != REBALANCE_FAILED
        ]
        return self._within_limits(
            self._news(m, result, generation, REBALANCE_FAILED, reason) for m in self._free(untold)
        )

    def wrote(self, command: Command) -> None:
        """A command exists: remember what it tells."""
        if command.option is Option.NOTIFY and command.code != NONE:
            self.told[command.member] = command.code
        else:
            self.told.pop(command.member, None)
        if command.user_data is not None:
            self.told_data[command.member] = command.user_data

    def forget(self, member: str) -> None:
        """A member is gone."""
        self.told.pop(member, None)
        self.told_data.pop(member, None)

    def _recall(self, result: TargetAssignment) -> bool:
        """In the eager form, whether stops come first; begins and ends the recall of everybody."""
        if result.protocol != EAGER:
            self.view.recall(False)
            return False
        stops = any(
            c.option is Option.STOP for nodes in self.view.live.values() for c in nodes.values()
        )
        self.view.recall(bool(self.view.to_revoke) or (stops and self.view.recalled))
        return bool(self.view.to_revoke) or stops

    def _free(self, names: list[str]) -> list[Member]:
        """Members that can be sent a command."""
        view = self.view
        return [
            view.members[n]
            for n in names
            if n in view.members
            and n not in view.live
            and n in view.channels
            and not view.members[n].legacy
        ]

    def _within_limits(self, found: Iterable[Command | None]) -> tuple[Send, ...]:
        sends: list[Send] = []
        size = 0
        for command in found:
            if command is None:
                continue
            size += self.options.acl_bytes + command_bytes(command)
            if sends and (
                size > self.options.commands_bytes_per_write_max
                or len(sends) >= self.options.ops_per_write_max
            ):
                break
            sends.append(Send(command))
        return tuple(sends)

    def _command_for(
        self, member: Member, result: TargetAssignment, generation: int
    ) -> Command | None:
        rejected = result.rejected.get(member.name)
        wrong = self.view.to_revoke.get(member.name)
        data = self._data(member, result)
        if wrong:
            return replace(
                self._bare(member, Option.STOP, generation),
                stop=self._cap(member, sorted(wrong), data),
                more=member.name in self.view.coming or member.name in self.view.assignable,
                user_data=data,
            )
        if rejected is not None:
            return replace(
                self._bare(member, Option.REJECT, generation),
                code=rejected.code,
                fatal=rejected.fatal,
                message=rejected.message,
            )
        assignable = self.view.assignable.get(member.name, ())
        may_start = (tp for tp in sorted(assignable) if self._may_start(member, tp))
        ready = list(islice(may_start, self.options.partitions_per_command_max))
        if not ready:
            return None
        start = {tp: self.view.target[tp] for tp in self._cap(member, ready, data)}
        incarnations = {
            t: self.view.topics[t].incarnation for t in sorted({tp.topic for tp in start})
        }
        return replace(
            self._bare(member, Option.START, generation),
            start=start,
            incarnations=incarnations,
            more=member.name in self.view.coming or len(start) < len(assignable),
            user_data=data,
        )

    def _may_start(self, member: Member, tp: TopicPartition) -> bool:
        """Whether the target still holds for it: the topic exists (of one that is gone nobody could
        say which it was), and the registration covers the stream, which a later one may not.
        """
        return self.view.exists(tp) and self.view.target[tp].number < self.world.streams(
            member, tp.topic
        )

    def _news(
        self, member: Member, result: TargetAssignment, generation: int, code: str, message: str
    ) -> Command | None:
        """A notification, if there is anything to tell."""
        data = self._data(member, result)
        if code == self.told.get(member.name, NONE) and data is None:
            return None
        return replace(
            self._bare(member, Option.NOTIFY, generation),
            code=code,
            message=message,
            user_data=data,
        )

    def _bare(self, member: Member, option: Option, generation: int) -> Command:
        return Command(
            member.name,
            member.incarnation,
            option,
            self.view.epoch,
            self.next_seq(),
            generation,
            seen=self.seen,
        )

    def _data(self, member: Member, result: TargetAssignment) -> str | None:
        """What a custom assignor has for a member and it does not know yet."""
        data = result.user_data.get(member.name)
        return data if self.told_data.get(member.name) != data else None

    def _cap(
        self, member: Member, partitions: list[TopicPartition], data: str | None
    ) -> tuple[TopicPartition, ...]:
        """As many partitions as one command, and its ack, may carry."""
        taken: list[TopicPartition] = []
        size, name = json_bytes(data or ""), json_bytes(member.name)
        for tp in partitions[: self.options.partitions_per_command_max]:
            size += len(tp.topic) + name + PARTITION_FIXED_BYTES
            if taken and size > self.options.command_bytes_max:
                break
            taken.append(tp)
        return tuple(taken)


def command_bytes(command: Command) -> int:
    """Upper bound of what a command takes in a write: its path with a group's longest name, and its
    document; its ACL is beside that.
    """
    name = json_bytes(command.member)
    extra = (
        json_bytes(command.user_data or "")
        + json_bytes(command.message)
        + sum(len(t) + len(i) for t, i in command.incarnations.items())
    )
    return (
        COMMAND_FIXED_BYTES
        + len(command.member)
        + extra
        + sum(len(tp.topic) + name + PARTITION_FIXED_BYTES for tp in command.partitions)
    )
