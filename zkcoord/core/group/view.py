"""What is known of one group, filed so that the next step can be found without looking at
everything.

The truth is what ZooKeeper holds: registrations, channels, commands, owner nodes. The view keeps it
as read and files each partition in exactly one place (`PartitionPlace`). A change of one owner or
one command refiles only the partitions it names, so an ack costs what it changed, not the size of
the group. Of more than `at_once` partitions it is noted that they are to be filed (`unfiled`), and
that is done in portions (`file`); until then nothing may be decided from where partitions are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import islice

from zkcoord.core.events import GroupDelta
from zkcoord.core.filing.filed import Filed, PartitionPlace
from zkcoord.core.model import (
    Command,
    Malformed,
    Member,
    Owner,
    Request,
    Thread,
    Topic,
    TopicPartition,
    same_incarnation,
)
from zkcoord.core.shared import KEEPS_OUT

# the start ack creates an owner node and sets its data; a legacy member's node stays at 0
OWNER_VERSION_OURS = 1


class GroupView:
    """The filed state of one group. Changed only by `apply`, `retarget`, `rename`, `recall`,
    `refile_topics` and the local effects of our own writes.
    """

    def __init__(self, epoch: int, topics: Mapping[str, Topic], at_once: int) -> None:
        self.epoch = epoch
        self.at_once = at_once
        # The topics that exist, by name; shared with the coordinator, which changes it.
        self.topics = topics

        # As read from ZooKeeper.
        self.members: dict[str, Member] = {}
        self.channels: set[str] = set()
        self.commands: dict[str, dict[str, Command | Malformed]] = {}
        self.owners: dict[TopicPartition, Owner | Malformed] = {}
        # Session -> what it owns.
        self.owned_by: dict[int, dict[TopicPartition, None]] = {}
        self.requests: dict[str, Request | Malformed] = {}
        self.malformed: dict[tuple[str, str], Malformed] = {}
        # Malformed nodes that have not been reported yet.
        self.malformed_since: list[Malformed] = []

        # What follows from it.
        # Commands of this epoch for members that are there, by member and node.
        self.live: dict[str, dict[str, Command]] = {}
        # Commands to be deleted: of the gone, of other incarnations, of older epochs.
        self.stale: set[tuple[str, str]] = set()
        # Session -> the member that registered with it.
        self.by_session: dict[int, str] = {}
        # How many members are old consumers.
        self.legacy = 0
        # By topic, what is owned or being started of the topic before it was made again.
        self.outdated: dict[str, set[TopicPartition]] = {}
        # What is owned by a start that was written before the topic was made again.
        self.misled: set[TopicPartition] = set()

        # The target, and whether there is one.
        self.target: dict[TopicPartition, Thread] = {}
        self.aimed = False
        # Whether everybody gives up everything first (the eager form).
        self.recalled = False

        # Partitions by place: these are `filed`'s, changed there.
        self.filed = Filed()
        self.place = self.filed.place
        self.to_revoke, self.assignable = self.filed.to_revoke, self.filed.assignable
        self.orphans, self.not_ours = self.filed.orphans, self.filed.not_ours
        self.coming = self.filed.coming
        self.start_pending: dict[TopicPartition, str] = {}
        # What is still to be filed (anew), in this order.
        self.unfiled: dict[TopicPartition, None] = {}
        # Topics of which everything is.
        self.unfiled_topics: set[str] = set()

    def apply(self, delta: GroupDelta) -> tuple[str, ...]:
        """Take what was read. Returns the names of the members whose arrival, departure or change
        calls for a new target, sorted.
        """
        members, owners, commands, channels = (
            delta.members,
            delta.owners,
            delta.commands,
            delta.channels,
        )
        if delta.full and (
            self.members
            or self.owners
            or self.commands
            or self.channels
            or self.requests
            or self.malformed
        ):
            known = {
                *self.members,
                *(name for what, name in self.malformed if what == "registration"),
            }
            members = {**members, **{n: None for n in known if n not in members}}
            owners = {**owners, **{tp: None for tp in self.owners if tp not in owners}}
            commands = {
                **commands,
                **{
                    (m, n): None
                    for m, nodes in self.commands.items()
                    for n in nodes
                    if (m, n) not in commands
                },
            }
            channels = {**channels, **{m: False for m in self.channels if m not in channels}}
            for node in [n for n in self.requests if n not in delta.requests]:
                self._take_request(node, None)
        for node, request in delta.requests.items():
            self._take_request(node, request)
        for name, there in channels.items():
            (self.channels.add if there else self.channels.discard)(name)
        unreadable = Malformed in map(type, members.values()) or (
            bool(self.malformed)
            and any(("registration", name) in self.malformed for name in members)
        )
        sessions = {self.members[name].session for name in members if name in self.members}
        changed = tuple(sorted([name for name, m in members.items() if self._take_member(name, m)]))
        touched: set[TopicPartition] = set(self.owners) if unreadable else set()
        for (member, node), command in commands.items():
            touched.update(self._take_command(member, node, command))
        touched.update(owners)
        self._take_owners(owners)
        for name in changed if self.commands else ():
            touched.update(self._refile_commands(name))
        if changed:
            touched.update(self._of_members(changed, sessions))
        self.refile(touched if self.aimed else self._unsettled(touched))
        return changed

    def _of_members(self, names: Iterable[str], sessions: Set[int]) -> Iterable[TopicPartition]:
        """What members have or are to have that came, went or changed; `sessions` are those that
        they had before.
        """
        concerned = set(names)
        now = {self.members[name].session for name in concerned if name in self.members}
        for session in now | sessions:
            yield from self.owned_by.get(session, ())
        yield from [tp for tp, thread in self.target.items() if thread.member in concerned]

    def _unsettled(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Before a target exists what a live member owns is settled: all of it is filed when there
        is one.
        """
        owners, by_session, place = self.owners, self.by_session, self.place
        return [
            tp
            for tp in partitions
            if not isinstance(owner := owners.get(tp), Owner)
            or owner.session not in by_session
            or (place and tp in place)
        ]

    def _judge_form(self, what: str, name: str, value: object) -> None:
        """Note a node that is not what it should be, and forget the note of one that is again."""
        before = self.malformed.pop((what, name), None)
        if isinstance(value, Malformed):
            self.malformed[(what, name)] = value
            if before is None:
                self.malformed_since.append(value)

    def take_malformed(self) -> list[Malformed]:
        """What became malformed since the last call, sorted."""
        found, self.malformed_since = self.malformed_since, []
        return sorted(set(found) - {KEEPS_OUT}, key=lambda bad: (bad.what, bad.name))

    def _take_member(self, name: str, member: Member | Malformed | None) -> bool:
        """Store one registration; True when the target may have to change."""
        before = self.members.get(name)
        if self.malformed or not isinstance(member, Member):
            self._judge_form("registration", name, member)
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

    def _take_request(self, node: str, request: Request | Malformed | None) -> None:
        self._judge_form("request", node, request)
        if request is None:
            self.requests.pop(node, None)
        else:
            self.requests[node] = request

    def _take_command(
        self, member: str, node: str, command: Command | Malformed | None
    ) -> Iterable[TopicPartition]:
        """Store one command; returns the partitions to refile."""
        nodes = self.commands.setdefault(member, {})
        before = nodes.pop(node, None)
        self._judge_form("command", f"{member}/{node}", command)
        touched: list[TopicPartition] = (
            list(before.partitions) if isinstance(before, Command) else []
        )
        if command is None and isinstance(before, Command):
            self.misled.update(
                tp
                for tp in before.start
                if not self._is_now(tp.topic, before.incarnations.get(tp.topic))
            )
        self._unfile_command(member, node)
        if command is None:
            if not nodes:
                del self.commands[member]
            return touched
        nodes[node] = command
        self._file_command(member, node, command)
        if isinstance(command, Command):
            touched.extend(command.partitions)
            self.misled.difference_update(command.start)
        return touched

    def _unfile_command(self, member: str, node: str) -> None:
        self.stale.discard((member, node))
        live = self.live.get(member)
        command = live.pop(node, None) if live is not None else None
        if command is None:
            return
        for tp in command.start:
            if self.start_pending.get(tp) == member:
                del self.start_pending[tp]
        if not live:
            del self.live[member]

    def _file_command(self, member: str, node: str, command: Command | Malformed) -> None:
        if isinstance(command, Malformed):
            return
        registered = self.members.get(member)
        if (
            command.epoch < self.epoch
            or registered is None
            or registered.incarnation != command.incarnation
        ):
            self.stale.add((member, node))
            return
        self.live.setdefault(member, {})[node] = command
        for tp in command.start:
            self.start_pending[tp] = member

    def _refile_commands(self, member: str) -> set[TopicPartition]:
        """A member came, went or changed: judge its commands anew."""
        touched: set[TopicPartition] = set()
        for node, command in list(self.commands.get(member, {}).items()):
            self._unfile_command(member, node)
            self._file_command(member, node, command)
            if isinstance(command, Command):
                touched.update(command.partitions)
        return touched

    def _take_owners(self, owners: Mapping[TopicPartition, Owner | Malformed | None]) -> None:
        if self.malformed or Malformed in map(type, owners.values()):
            for tp, owner in owners.items():
                self._judge_form("owner", str(tp), owner)
        for tp, owner in owners.items():
            before = self.owners.get(tp)
            if isinstance(before, Owner):
                having = self.owned_by[before.session]
                del having[tp]
                if not having:
                    del self.owned_by[before.session]
            if owner is None:
                self.owners.pop(tp, None)
                self.misled.discard(tp)
                continue
            self.owners[tp] = owner
            if isinstance(owner, Owner):
                self.owned_by.setdefault(owner.session, {})[tp] = None

    def retarget(self, target: Mapping[TopicPartition, Thread]) -> None:
        """Take a new target."""
        touched = {*self.target, *target, *self.owners}
        self.target = dict(target)
        self.aimed = True
        self.refile(touched)

    def _not_plainly_settled(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Without those of which there is nothing to file: the usual case, found out with less than
        the general one takes (a new coordinator asks for every partition that there is).
        """
        owners, target, topics, by_session, place, misled = (
            self.owners,
            self.target,
            self.topics,
            self.by_session,
            self.place,
            self.misled,
        )
        return [
            tp
            for tp in partitions
            if not isinstance(owner := owners.get(tp), Owner)
            or owner.thread != target.get(tp)
            or by_session.get(owner.session) != owner.thread.member
            or (topic := topics.get(tp.topic)) is None
            or owner.created < topic.created
            or (misled and tp in misled)
            or (place and tp in place)
        ]

    def rename(self, before: str, after: str) -> None:
        """A member is back under another name: what the target had for it is its."""
        moved = [tp for tp, thread in self.target.items() if thread.member == before]
        for tp in moved:
            self.target[tp] = self.target[tp]._replace(member=after)
        self.refile(moved)

    def recall(self, everybody: bool) -> None:
        """Begin or end to want all of every member stopped."""
        if self.recalled is not everybody:
            self.recalled = everybody
            self.refile({*self.owners, *self.target})

    def refile_topics(self, topics: Set[str]) -> None:
        """Topics were made, made again or deleted."""
        if len(self.owners) + len(self.target) > self.at_once:
            self.unfiled_topics |= topics
        else:
            self._file(self._of_topics(topics))

    def _of_topics(self, topics: Set[str]) -> list[TopicPartition]:
        return [
            tp for tp in {*self.owners, *self.target, *self.start_pending} if tp.topic in topics
        ]

    def exists(self, tp: TopicPartition) -> bool:
        """Whether its topic exists, and has it now (a topic made again may have fewer partitions
        than the target knows).
        """
        topic = self.topics.get(tp.topic)
        numbers = topic.partitions if topic is not None else ()
        return (
            numbers[tp.partition : tp.partition + 1] == (tp.partition,) or tp.partition in numbers
        )

    def _is_now(self, topic: str, incarnation: str | None) -> bool:
        """Whether that is the topic that exists (nothing said against it: it is)."""
        known = self.topics.get(topic)
        return (
            incarnation is None or known is None or same_incarnation(incarnation, known.incarnation)
        )

    def _outdated(self, tp: TopicPartition) -> bool:
        """Whether it is owned, or being started, as a partition of a topic before this one."""
        owner, topic = self.owners.get(tp), self.topics.get(tp.topic)
        if isinstance(owner, Owner):
            return (topic is not None and 0 < owner.created < topic.created) or tp in self.misled
        starts = (
            c for c in self.live.get(self.start_pending.get(tp, ""), {}).values() if tp in c.start
        )
        return any(not self._is_now(tp.topic, c.incarnations.get(tp.topic)) for c in starts)

    def refile(self, partitions: Iterable[TopicPartition]) -> None:
        """Put each partition where it belongs now, or, if they are very many, note them."""
        todo = list(partitions)
        if len(todo) > self.at_once:
            self._note(todo)
        else:
            self._file(todo)

    def _note(self, partitions: list[TopicPartition]) -> None:
        """That they are to be filed: sorted, since which portion comes first is seen outside."""
        self.unfiled.update(dict.fromkeys(sorted(partitions)))

    @property
    def unfinished(self) -> bool:
        """Whether something is still to be filed."""
        return bool(self.unfiled or self.unfiled_topics)

    def file(self) -> None:
        """File a portion of those that are noted."""
        if self.unfiled_topics:
            self._note(self._of_topics(self.unfiled_topics))
            self.unfiled_topics = set()
        todo = list(islice(self.unfiled, self.at_once))
        for tp in todo:
            del self.unfiled[tp]
        self._file(todo)

    def _file(self, todo: list[TopicPartition]) -> None:
        """Put each where it belongs now. That a topic is still owned as the one before counts for
        all its partitions, those too that were filed in an earlier portion.
        """
        if not (self.recalled or self.outdated):
            todo = self._not_plainly_settled(todo)
        before = {tp.topic: tp.topic in self.outdated for tp in todo}
        for tp in todo:
            if self._outdated(tp):
                self.outdated.setdefault(tp.topic, set()).add(tp)
            elif tp in self.outdated.get(tp.topic, ()):
                self.outdated[tp.topic].discard(tp)
                if not self.outdated[tp.topic]:
                    del self.outdated[tp.topic]
        # as it was and as it is: not what was so in between, which depends on the order
        turned = {topic for topic, was in before.items() if was is not (topic in self.outdated)}
        if turned:
            more = [tp for tp in self.target if tp.topic in turned]
            if len(more) > self.at_once:
                self._note(more)
            else:
                todo = list({*todo, *more})
        for tp in todo:
            place, member = self._judge(tp)
            want = self.target.get(tp)
            owner = self.owners.get(tp)
            self.filed.put(
                tp,
                place,
                member,
                want.member if want is not None else "",
                owner.session if isinstance(owner, Owner) else 0,
            )

    def _judge(self, tp: TopicPartition) -> tuple[PartitionPlace, str]:
        owner = self.owners.get(tp)
        want = self.target.get(tp)
        if isinstance(owner, Malformed):
            return PartitionPlace.NOT_OURS, ""
        if owner is not None:
            holder = self.by_session.get(owner.session)
            if holder is None:
                # it is there: its member may hold a lease
                unreadable = ("registration", owner.thread.member) in self.malformed
                return (
                    PartitionPlace.ORPHAN
                    if owner.version == OWNER_VERSION_OURS and not unreadable
                    else PartitionPlace.NOT_OURS
                ), ""
            stays = (
                want is not None
                and want.member == holder
                and want.number == owner.thread.number
                and not self.recalled
            )
            if stays and tp not in self.outdated.get(tp.topic, ()):
                return PartitionPlace.SETTLED, holder
            return (PartitionPlace.TO_REVOKE if self.aimed else PartitionPlace.SETTLED), holder
        if want is None or want.member not in self.members:
            return PartitionPlace.UNWANTED, ""
        if tp in self.start_pending:
            return PartitionPlace.START_PENDING, self.start_pending[tp]
        if tp.topic in self.outdated:
            return PartitionPlace.NOT_OURS, ""
        return PartitionPlace.ASSIGNABLE, want.member

    def coordinated_members(self) -> dict[str, Member]:
        """The members that can be assigned to."""
        return {n: m for n, m in self.members.items() if not m.legacy and n in self.channels}

    def held_by(self, member: str) -> tuple[TopicPartition, ...]:
        """The partitions whose owner nodes belong to a member's session."""
        registered = self.members.get(member)
        if registered is None:
            return ()
        return tuple(self.owned_by.get(registered.session, ()))

    def current_owners(self) -> dict[TopicPartition, Thread]:
        """Who holds what among the live members, as threads."""
        holder_of = self.by_session.get
        return {
            tp: (
                owner.thread
                if owner.thread.member == holder
                else Thread(holder, owner.thread.number)
            )
            for tp, owner in self.owners.items()
            if isinstance(owner, Owner) and (holder := holder_of(owner.session)) is not None
        }
