"""What ZooKeeper holds of the groups, as far as a coordinator is told or writes: for
`zkcoord.replay.model`, once as recorded and once as the model has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from zkcoord.core import events as ev
from zkcoord.core.model import (
    Command,
    GroupMetadata,
    Malformed,
    Member,
    Mode,
    Option,
    Owner,
    Request,
    TopicPartition,
)

OWNER_VERSION_OURS = 1


@dataclass
class GroupWorld:
    """One group's nodes."""

    members: dict[str, Member | Malformed] = field(default_factory=dict)
    channels: set[str] = field(default_factory=set)
    commands: dict[tuple[str, str], Command | Malformed] = field(default_factory=dict)
    owners: dict[TopicPartition, Owner | Malformed] = field(default_factory=dict)
    requests: dict[str, Request | Malformed] = field(default_factory=dict)
    mode: dict[str, Mode | Malformed] = field(default_factory=dict)
    metadata: GroupMetadata | None = None

    def take(self, delta: ev.GroupDelta) -> None:
        """What was read."""
        if delta.full:
            for held in (
                self.members,
                self.channels,
                self.commands,
                self.owners,
                self.requests,
                self.mode,
            ):
                held.clear()
        _merge(self.members, delta.members.items())
        _merge(self.commands, delta.commands.items())
        _merge(self.owners, delta.owners.items())
        _merge(self.requests, delta.requests.items())
        for name, there in delta.channels.items():
            (self.channels.add if there else self.channels.discard)(name)
        _merge(self.mode, delta.mode.items())
        if delta.metadata is not None:
            self.metadata = delta.metadata

    def whole(self) -> ev.GroupDelta:
        """A whole read."""
        channels = dict.fromkeys(sorted(self.channels), True)
        return ev.GroupDelta(
            True,
            dict(self.members),
            channels,
            dict(self.commands),
            dict(self.owners),
            dict(self.requests),
            self.metadata,
            dict(self.mode),
        )

    def possible(self, ops: Iterable[ev.WriteOp]) -> bool:
        """Whether a multi of these succeeds: what it deletes is there, and whom it commands has a
        channel.
        """
        for op in ops:
            missing = (
                (isinstance(op, ev.Send) and op.command.member not in self.channels)
                or (isinstance(op, ev.DeleteCommand) and (op.member, op.node) not in self.commands)
                or (isinstance(op, ev.DeleteRegistration) and op.member not in self.members)
                or (isinstance(op, ev.DeleteOwner) and op.partition not in self.owners)
                or (isinstance(op, ev.DeleteRequest) and op.node not in self.requests)
                or (
                    isinstance(op, ev.DeleteChannel)
                    and (
                        op.member not in self.channels
                        or any(name == op.member for name, _ in self.commands)
                    )
                )
            )
            if missing:
                return False
        return True

    def write(self, ops: Iterable[ev.WriteOp], nodes: Iterable[str]) -> None:
        """A multi happened; `nodes` are the names of the commands created."""
        created = iter(nodes)
        for op in ops:
            if isinstance(op, ev.Send):
                self.commands[(op.command.member, next(created))] = op.command
            elif isinstance(op, ev.DeleteCommand):
                self.commands.pop((op.member, op.node), None)
            elif isinstance(op, ev.DeleteRegistration):
                self.members.pop(op.member, None)
            elif isinstance(op, ev.DeleteOwner):
                self.owners.pop(op.partition, None)
            elif isinstance(op, ev.DeleteChannel):
                self.channels.discard(op.member)
            elif isinstance(op, ev.DeleteRequest):
                self.requests.pop(op.node, None)
            elif isinstance(op, ev.PutMetadata):
                self.metadata = op.metadata

    def ack(self, key: tuple[str, str]) -> ev.GroupDelta | None:
        """A member carries out a command: what changes by that; None where the command or the
        member is gone.
        """
        command, member = self.commands.get(key), self.members.get(key[0])
        if (
            not isinstance(command, Command)
            or not isinstance(member, Member)
            or command.incarnation != member.incarnation
        ):
            return None
        owners: dict[TopicPartition, Owner | Malformed | None] = {}
        if command.option is Option.START:
            owners = {
                tp: Owner(member.session, thread, OWNER_VERSION_OURS)
                for tp, thread in command.start.items()
                if tp not in self.owners
            }
        elif command.option is Option.STOP:
            owners = dict.fromkeys(tp for tp in command.stop if tp in self.held_by(member.session))
        return ev.GroupDelta(commands={key: None}, owners=owners)

    def held_by(self, session: int) -> list[TopicPartition]:
        """The partitions whose owner nodes belong to a session."""
        return [
            tp
            for tp, owner in self.owners.items()
            if isinstance(owner, Owner) and owner.session == session
        ]


def _merge(held: dict[Any, Any], read: Iterable[tuple[Any, Any]]) -> None:
    for key, value in read:
        if value is None:
            held.pop(key, None)
        else:
            held[key] = value
