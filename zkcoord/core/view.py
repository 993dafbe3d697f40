"""What is known of one group, filed so that the next step can be found without looking at everything.

The truth is what ZooKeeper holds: registrations, channels, commands, owner nodes. The view keeps it as read and files each partition in exactly one place:

* settled   owned by the thread that the target names;
* wrong     owned by a live member that shall not (or another thread of it shall): to be stopped;
* ready     free, wanted by a live member, and in nobody's outstanding start: to be started;
* starting  free, and in somebody's outstanding start command;
* orphan    its owner node belongs to a session that has no registration: left alone for a lease;
* blocked   its owner node is not ours to judge (unreadable, or a legacy member's);
* unwanted  free, and nobody shall have it.

A change of one owner or one command refiles only the partitions it names, so an ack costs what it changed, not the size of the group.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from .events import GroupDelta
from .model import Command, Malformed, Member, Option, Owner, Thread, TopicPartition


class Place(enum.Enum):
    """Where a partition is filed."""

    SETTLED = "settled"
    WRONG = "wrong"
    READY = "ready"
    STARTING = "starting"
    ORPHAN = "orphan"
    BLOCKED = "blocked"
    UNWANTED = "unwanted"


OWNER_VERSION_OURS = 1  # the start ack creates an owner node and sets its data; a legacy member's node stays at 0


class GroupView:
    """The filed state of one group. Changed only by `apply`, `retarget` and the local effects of our own writes."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.members: dict[str, Member] = {}
        self.malformed: dict[tuple[str, str], Malformed] = {}
        self.channels: set[str] = set()
        self.commands: dict[str, dict[str, Command | Malformed]] = {}
        self.live: dict[str, dict[str, Command]] = {}
        self.stale: set[tuple[str, str]] = set()
        self.owners: dict[TopicPartition, Owner | Malformed] = {}
        self.by_session: dict[int, str] = {}
        self.target: dict[TopicPartition, Thread] = {}
        self.place: dict[TopicPartition, tuple[Place, str]] = {}
        self.wrong: dict[str, set[TopicPartition]] = {}
        self.ready: dict[str, set[TopicPartition]] = {}
        self.starting: dict[TopicPartition, str] = {}
        self.orphans: dict[TopicPartition, int] = {}
        self.blocked: set[TopicPartition] = set()
        self.legacy = 0

    def apply(self, delta: GroupDelta) -> tuple[str, ...]:
        """Take what was read. Returns the names of the members whose arrival, departure or change calls for a new target, sorted."""
        members = dict(delta.members)
        owners = dict(delta.owners)
        commands = dict(delta.commands)
        channels = dict(delta.channels)
        if delta.full:
            known = set(self.members) | {name for what, name in self.malformed if what == "registration"}
            members.update({n: None for n in known if n not in delta.members})
            owners.update({tp: None for tp in self.owners if tp not in delta.owners})
            gone = {(m, n): None for m, nodes in self.commands.items() for n in nodes if (m, n) not in delta.commands}
            commands.update(gone)
            channels.update({m: False for m in self.channels if m not in delta.channels})
        for name, there in channels.items():
            (self.channels.add if there else self.channels.discard)(name)
        changed = tuple(sorted(name for name, m in members.items() if self._take_member(name, m)))
        touched: set[TopicPartition] = set()
        for (member, node), command in commands.items():
            touched.update(self._take_command(member, node, command))
        for tp, owner in owners.items():
            self._take_owner(tp, owner)
            touched.add(tp)
        for name in changed:
            touched.update(self._refile_commands(name))
        if changed:
            touched.update(self.owners, self.target)
        self.refile(touched)
        return changed

    def _take_member(self, name: str, member: Member | Malformed | None) -> bool:
        """Store one registration; True when the target may have to change."""
        before = self.members.get(name)
        self.malformed.pop(("registration", name), None)
        if isinstance(member, Malformed):
            self.malformed[("registration", name)] = member
        if isinstance(member, Member):
            if before == member:
                return False
            if before is not None and self.by_session.get(before.session) == name:
                del self.by_session[before.session]
            self.legacy += member.legacy - (before is not None and before.legacy)
            self.members[name] = member
            self.by_session[member.session] = name
            return True
        if before is None:
            return False
        self.legacy -= before.legacy
        del self.members[name]
        if self.by_session.get(before.session) == name:
            del self.by_session[before.session]
        return True

    def _take_command(self, member: str, node: str, command: Command | Malformed | None) -> Iterable[TopicPartition]:
        """Store one command; returns the partitions to refile."""
        nodes = self.commands.setdefault(member, {})
        before = nodes.pop(node, None)
        touched: list[TopicPartition] = list(before.partitions) if isinstance(before, Command) else []
        self._unfile_command(member, node, before)
        if command is None:
            if not nodes:
                del self.commands[member]
            return touched
        nodes[node] = command
        self._file_command(member, node, command)
        if isinstance(command, Command):
            touched.extend(command.partitions)
        return touched

    def _unfile_command(self, member: str, node: str, command: Command | Malformed | None) -> None:
        self.stale.discard((member, node))
        self.malformed.pop(("command", f"{member}/{node}"), None)
        live = self.live.get(member)
        if live is not None and live.pop(node, None) is not None:
            if isinstance(command, Command) and command.option is Option.START:
                for tp in command.start:
                    if self.starting.get(tp) == member:
                        del self.starting[tp]
            if not live:
                del self.live[member]

    def _file_command(self, member: str, node: str, command: Command | Malformed) -> None:
        if isinstance(command, Malformed):
            self.malformed[("command", f"{member}/{node}")] = command
            return
        registered = self.members.get(member)
        if command.epoch < self.epoch or registered is None or registered.incarnation != command.incarnation:
            self.stale.add((member, node))
            return
        self.live.setdefault(member, {})[node] = command
        for tp in command.start:
            self.starting[tp] = member

    def _refile_commands(self, member: str) -> set[TopicPartition]:
        """A member came, went or changed: judge its commands anew."""
        touched: set[TopicPartition] = set()
        for node, command in list(self.commands.get(member, {}).items()):
            self._unfile_command(member, node, command)
            self._file_command(member, node, command)
            if isinstance(command, Command):
                touched.update(command.partitions)
        return touched

    def _take_owner(self, tp: TopicPartition, owner: Owner | Malformed | None) -> None:
        self.malformed.pop(("owner", str(tp)), None)
        if owner is None:
            self.owners.pop(tp, None)
            return
        self.owners[tp] = owner
        if isinstance(owner, Malformed):
            self.malformed[("owner", str(tp))] = owner

    def retarget(self, target: Mapping[TopicPartition, Thread]) -> None:
        """Take a new target."""
        touched = set(self.target) | set(target) | set(self.owners)
        self.target = dict(target)
        self.refile(touched)

    def refile(self, partitions: Iterable[TopicPartition]) -> None:
        """Put each partition where it belongs now."""
        for tp in partitions:
            self._unfile(tp)
            place, member = self._judge(tp)
            if place is Place.UNWANTED:
                continue
            self.place[tp] = (place, member)
            if place is Place.WRONG:
                self.wrong.setdefault(member, set()).add(tp)
            elif place is Place.READY:
                self.ready.setdefault(member, set()).add(tp)
            elif place is Place.ORPHAN:
                owner = self.owners[tp]
                assert isinstance(owner, Owner)
                self.orphans[tp] = owner.session
            elif place is Place.BLOCKED:
                self.blocked.add(tp)

    def _unfile(self, tp: TopicPartition) -> None:
        place, member = self.place.pop(tp, (Place.UNWANTED, ""))
        sets = {Place.WRONG: self.wrong, Place.READY: self.ready}.get(place)
        if sets is not None:
            sets[member].discard(tp)
            if not sets[member]:
                del sets[member]
        self.orphans.pop(tp, None)
        self.blocked.discard(tp)

    def _judge(self, tp: TopicPartition) -> tuple[Place, str]:
        owner = self.owners.get(tp)
        want = self.target.get(tp)
        if isinstance(owner, Malformed):
            return Place.BLOCKED, ""
        if owner is not None:
            holder = self.by_session.get(owner.session)
            if holder is None:
                return (Place.ORPHAN if owner.version == OWNER_VERSION_OURS else Place.BLOCKED), ""
            if want is not None and want.member == holder and want.number == owner.thread.number:
                return Place.SETTLED, holder
            return Place.WRONG, holder
        if want is None or want.member not in self.members:
            return Place.UNWANTED, ""
        if tp in self.starting:
            return Place.STARTING, self.starting[tp]
        return Place.READY, want.member

    def held_by(self, member: str) -> tuple[TopicPartition, ...]:
        """The partitions whose owner nodes belong to a member's session."""
        registered = self.members.get(member)
        if registered is None:
            return ()
        return tuple(tp for tp, o in self.owners.items() if isinstance(o, Owner) and o.session == registered.session)

    def current_owners(self) -> dict[TopicPartition, Thread]:
        """Who holds what among the live members, as threads."""
        held: dict[TopicPartition, Thread] = {}
        for tp, owner in self.owners.items():
            if isinstance(owner, Owner):
                holder = self.by_session.get(owner.session)
                if holder is not None:
                    held[tp] = Thread(holder, owner.thread.number)
        return held
