"""The core's own clocks of one group, and what a group deletes when they run out: when to assign,
how old commands, orphans and empty channels are.
"""

from __future__ import annotations

from heapq import nsmallest

from zkcoord.core.events import (
    DeleteChannel,
    DeleteCommand,
    DeleteOwner,
    DeleteRegistration,
    DeleteRequest,
    GroupDelta,
    Record,
    WriteOp,
)
from zkcoord.core.model import SOMEBODY, Malformed, Request, RequestKind
from zkcoord.core.options import CoordinatorOptions

from .operator_requests import OPERATOR, REQUESTS_PER_WRITE_MAX
from .view import GroupView

LATE = "did not answer a command in time"


class Deadlines:
    """When what is due. All times are ms of the process's own clock; None = not running."""

    def __init__(self, options: CoordinatorOptions) -> None:
        self.options = options
        # The first change since the last assignment, and the last change.
        self.change_first_ms: int | None = None
        self.changed_ms = 0
        # When the first members of an empty group have waited for others.
        self.not_before_ms = 0
        # When partitions are assigned anew.
        self.assign_at_ms: int | None = None
        # When they were, within the window that tells a storm.
        self.assigned_ms: list[int] = []
        # Many assignments in a short time; lasts until nothing has changed for that long.
        self.storm = False
        # After writes that were refused, how many in a row, and when to try again.
        self.refusals = 0
        self.retry_at_ms = 0
        # When each outstanding command, by member and node, is overdue.
        self.overdue_ms: dict[tuple[str, str], int] = {}
        # When a session with owner nodes was first seen without a registration. Counted again when
        # all is read again: while nobody was served, its lease may have been prolonged.
        self.gone_since: dict[int, int] = {}
        # When an idle channel is to be deleted.
        self.empty_channels: dict[str, int] = {}
        # When a member without a channel, to whom no command can be sent, is to be evicted.
        self.deaf: dict[str, int] = {}

    def changed(self, now_ms: int) -> bool:
        """Something calls for a new target: note when, and whether there is a storm of changes.
        Returns whether nothing had changed for as long as a storm lasts.
        """
        storm_ms = self.options.storm_window_ms
        calm = now_ms - self.changed_ms >= storm_ms
        self.assigned_ms = [at for at in self.assigned_ms if now_ms - at < storm_ms]
        self.storm = len(self.assigned_ms) >= self.options.assignments_per_storm_window or (
            self.storm and not calm
        )
        self.changed_ms = now_ms
        return calm

    def assigned(self, now_ms: int, anybody: bool) -> None:
        """Partitions were assigned: to `anybody`, or there was nobody. Quiet windows are for those
        who would be moved again, so who comes next waits for nothing that was before.
        """
        self.assigned_ms = [*self.assigned_ms, now_ms] if anybody else []
        self.storm = self.storm and anybody

    def window_ms(self) -> int:
        """The quiet window after a change, before partitions are assigned anew."""
        if self.storm:
            return self.options.debounce_storm_ms
        if self.assigned_ms:
            return max(self.options.debounce_ms, self.options.debounce_again_ms)
        return self.options.debounce_ms

    def next_wake_ms(self, assigning: bool, orphans: bool, others: list[int]) -> int | None:
        """When the first of them, or of `others`, ends; `assigning`: whether a new target may be
        computed when it is due; `orphans`: whether owner nodes of nobody are deleted.
        """
        times = [
            *self.overdue_ms.values(),
            *self.empty_channels.values(),
            *self.deaf.values(),
            *others,
        ]
        if orphans:
            times += [since + self.options.orphan_wait_ms for since in self.gone_since.values()]
        if assigning and self.assign_at_ms is not None:
            times.append(self.assign_at_ms)
        if not times:
            return self.retry_at_ms or None
        return max(min(times), self.retry_at_ms)

    def watch(
        self, now_ms: int, delta: GroupDelta, view: GroupView, departed: set[str]
    ) -> list[str]:
        """Start the clocks of what is seen for the first time, stop those of what is gone. Looks
        only at the members that were read; `departed` are those seen to go, as long as there are
        channels of theirs. Returns the members whose command is gone.
        """
        if view.channels == view.members.keys() and not (
            view.live
            or view.orphans
            or self.overdue_ms
            or self.gone_since
            or self.empty_channels
            or self.deaf
            or departed
        ):
            return []  # whoever is registered can be told things, and nobody waits for anything
        touched = {*delta.members, *delta.channels, *(m for m, _ in delta.commands)}
        if delta.full:
            touched.update(self.empty_channels, self.deaf)
            self.gone_since.clear()
        done = [key for key in self.overdue_ms if key[1] not in view.live.get(key[0], {})]
        for key in done:
            del self.overdue_ms[key]
        for member in touched:
            for node in view.live.get(member, {}):
                if (member, node) not in self.overdue_ms:
                    wanted = view.members[member].rebalance_timeout_ms
                    self.overdue_ms[(member, node)] = now_ms + min(
                        wanted, self.options.rebalance_timeout_max_ms
                    )
        sessions = set(view.orphans.values())
        for session in [s for s in self.gone_since if s not in sessions]:
            del self.gone_since[session]
        for session in sessions:
            self.gone_since.setdefault(session, now_ms)
        departed &= view.channels
        for member in touched:
            registered = view.members.get(member)
            if registered is not None and not registered.legacy and member not in view.channels:
                self.deaf.setdefault(
                    member,
                    now_ms
                    + min(registered.rebalance_timeout_ms, self.options.rebalance_timeout_max_ms),
                )
            else:
                self.deaf.pop(member, None)
            idle = (
                member in view.channels
                and member not in view.members
                and ("registration", member) not in view.malformed
                and not view.commands.get(member)
            )
            if idle:
                wait = (
                    self.options.channel_departed_ms
                    if member in departed
                    else self.options.channel_orphan_ms
                )
                self.empty_channels.setdefault(member, now_ms + wait)
            else:
                self.empty_channels.pop(member, None)
        return [member for member, _ in done]


class Removals:
    """What a group deletes: members that do not answer, commands and owner nodes of nobody,
    channels of the departed. Each method gives the operations of one write, or nothing.
    """

    def __init__(self, view: GroupView, timers: Deadlines, options: CoordinatorOptions) -> None:
        self.view = view
        self.timers = timers
        self.options = options
        # The member whose eviction is under way, and the one whose eviction has an unknown outcome;
        # "" = none.
        self.evicting = self.perhaps_evicted = ""
        # Who asked for that eviction; "" = nobody, the member is overdue.
        self.asked_by = ""
        # Members seen to go whose channel is still there.
        self.departed: set[str] = set()

    def evict(self, now_ms: int) -> tuple[WriteOp, ...]:
        """A member with a command older than its deadline, or without a channel for as long; or one
        that an operator wants out.
        """
        self.asked_by = ""
        overdue = min(
            [key for key, at_ms in self.timers.overdue_ms.items() if at_ms <= now_ms], default=None
        )
        if overdue is not None:
            member, node = overdue
            self.evicting = member
            others = sorted(n for n in self.view.commands.get(member, {}) if n != node)[
                : self.options.ops_per_write_max - 2
            ]
            return (
                DeleteCommand(member, node),
                DeleteRegistration(member),
                *(DeleteCommand(member, n) for n in others),
            )
        deaf = min([m for m, at_ms in self.timers.deaf.items() if at_ms <= now_ms], default=None)
        if deaf is not None:
            self.evicting = deaf
            return (DeleteRegistration(deaf),)
        return self._asked_for() if self.view.requests else ()

    def _asked_for(self) -> tuple[WriteOp, ...]:
        """The eviction that an operator asks for, with its requests. What the member was told is
        cleaned away later: it may answer meanwhile, which must not save it.
        """
        asked = {
            node: request
            for node, request in sorted(self.view.requests.items())
            if isinstance(request, Request)
            and request.kind is RequestKind.EVICT
            and (member := self.view.members.get(request.member)) is not None
            and member.session == request.session
            and not member.legacy
        }
        if not asked:
            return ()
        first = next(iter(asked.values()))
        self.evicting, self.asked_by = first.member, first.by or SOMEBODY
        nodes = [node for node, request in asked.items() if request.member == first.member]
        return (
            DeleteRegistration(first.member),
            *(DeleteRequest(node) for node in nodes[:REQUESTS_PER_WRITE_MAX]),
        )

    def evicted(self, names: tuple[str, ...], written: bool, full: bool) -> dict[str, str]:
        """Those of `names`, who came, went or changed, that are evicted: by a write that happened
        (`written`), or by one with an unknown outcome, as all is read again (`full`). With who
        asked for it ("": nobody).
        """
        found = {
            name: self.asked_by
            for name in names
            if name not in self.view.members and (written or name == self.perhaps_evicted)
        }
        if full:
            self.perhaps_evicted = ""
        return found

    def eviction_ended(self, unknown: bool) -> None:
        """The write of an eviction was refused, or whether it happened is `unknown`."""
        self.perhaps_evicted, self.evicting = self.evicting if unknown else "", ""

    def clean(self) -> tuple[WriteOp, ...]:
        """Commands of members that are gone, of other incarnations or older epochs."""
        stale = nsmallest(self.options.ops_per_write_max, self.view.stale)
        return tuple([DeleteCommand(member, node) for member, node in stale])

    def free_orphans(self, now_ms: int) -> tuple[WriteOp, ...]:
        """Owner nodes whose registration is gone for longer than any lease. Not in a group shared
        with old consumers: between reading and deleting, the node may be an old consumer's.
        """
        due = {
            session
            for session, since in self.timers.gone_since.items()
            if since + self.options.orphan_wait_ms <= now_ms
        }
        if not due:
            return ()
        orphans = (tp for tp, session in self.view.orphans.items() if session in due)
        tps = nsmallest(self.options.ops_per_write_max, orphans)
        ops = []
        for tp in tps:
            owner = self.view.owners[tp]
            assert not isinstance(owner, Malformed)
            ops.append(DeleteOwner(tp, owner.version))
        return tuple(ops)

    def drop_channel(self, now_ms: int) -> tuple[WriteOp, ...]:
        """The empty channel of a member that is gone, alone."""
        for member, at_ms in sorted(self.timers.empty_channels.items()):
            if at_ms <= now_ms:
                self.timers.empty_channels[member] = now_ms + self.options.channel_orphan_ms
                return (DeleteChannel(member),)
        return ()


def evicted_record(group: str, member: str, asked_by: str) -> Record:
    """A member was put out, for the journal."""
    asked = {"reason": f"{OPERATOR}: {asked_by}", "by": asked_by}
    why = asked if asked_by else {"reason": LATE}
    return Record("evicted", group, {"member": member, **why})
