"""The core's own clocks of one group: when to assign, how old commands, orphans and empty channels
are.
"""

from __future__ import annotations

from zkcoord.core.events import GroupDelta
from zkcoord.core.options import CoordinatorOptions

from .view import GroupView


class Deadlines:
    """All in ms of the process's own clock; None = not running. `deadlines` are of outstanding
    commands, by member and node; `gone_since` says when a session with owner nodes was first seen
    without a registration (counted again when all is read again: while nobody was served, its lease
    may have been prolonged); `empty_channels` when an idle channel is to be deleted; `deaf` when a
    member without a channel, whom nobody can tell anything, is to be evicted. A `storm` begins with
    many assignments in a short time and lasts until nothing has changed for that long.
    """

    def __init__(self, options: CoordinatorOptions) -> None:
        self.options = options
        self.change_first_ms: int | None = None
        self.assign_at_ms: int | None = None
        self.assigned_ms: list[int] = []
        self.changed_ms = 0
        self.storm = False
        self.retry_at_ms = 0
        self.refusals = 0
        self.deadlines: dict[tuple[str, str], int] = {}
        self.gone_since: dict[int, int] = {}
        self.empty_channels: dict[str, int] = {}
        self.deaf: dict[str, int] = {}

    def next_wake_ms(self, assigning: bool, orphans: bool, others: list[int]) -> int | None:
        """When the first of them, or of `others`, ends; `assigning`: whether a new target may be
        computed when it is due; `orphans`: whether owner nodes of nobody are deleted.
        """
        times = [
            *self.deadlines.values(),
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
        only at the members that were read; `departed` are those seen to go. Returns the members
        whose command is gone.
        """
        if view.channels == view.members.keys() and not (
            view.live
            or view.orphans
            or view.legacy
            or self.deadlines
            or self.gone_since
            or self.empty_channels
            or self.deaf
        ):
            return []  # whoever is registered can be told things, and nobody waits for anything
        touched = {*delta.members, *delta.channels, *(m for m, _ in delta.commands)}
        if delta.full:
            touched.update(view.channels, self.empty_channels, self.deaf)
            self.gone_since.clear()
        done = [key for key in self.deadlines if key[1] not in view.live.get(key[0], {})]
        for key in done:
            del self.deadlines[key]
        for member in touched:
            for node in view.live.get(member, {}):
                if (member, node) not in self.deadlines:
                    wanted = view.members[member].rebalance_timeout_ms
                    self.deadlines[(member, node)] = now_ms + min(
                        wanted, self.options.rebalance_timeout_max_ms
                    )
        sessions = set(view.orphans.values())
        for session in [s for s in self.gone_since if s not in sessions]:
            del self.gone_since[session]
        for session in sessions:
            self.gone_since.setdefault(session, now_ms)
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
