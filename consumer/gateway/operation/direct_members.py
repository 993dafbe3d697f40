"""Groups that are split: members here, and others in Kafka's own coordinator, because some client
goes to the brokers by itself. Both kinds then read all partitions, and each stores offsets where
the other does not look. Nobody else can see that: so it is looked for, at a low rate, and said.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from zkcoord.coordinator.http.server import NOT_ANSWERED
from zkcoord.errors import ZkcoordError
from zkcoord.znodes.names import printable, shown

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
GROUPS_PER_LOOK_MAX = 200
MEMBERS_SHOWN_MAX = 5
MEMBER_CHARS_MAX = 200


class DirectMembers:
    """See the module. `live_members` asks Kafka's coordinators for the live members of groups, by
    group; `groups_here` says which have members here, sorted. `split`: group -> the first of its
    members there, replaced as a whole; any thread reads it.
    """

    def __init__(
        self,
        live_members: Callable[[Sequence[str]], Mapping[str, tuple[str, ...]]],
        groups_here: Callable[[], Sequence[str]],
    ) -> None:
        self.split: Mapping[str, tuple[str, ...]] = {}
        self._live_members = live_members
        self._groups_here = groups_here
        self._last = ""

    def look(self) -> None:
        """Look at the next of the groups with members here. Blocks; one at a time. What cannot be
        found out now is as it was.
        """
        try:
            groups = self._groups_here()
        except NOT_ANSWERED:
            return  # the gateway ends
        here = frozenset(groups)
        known = {group: names for group, names in self.split.items() if group in here}
        asked = self._next(groups)
        try:
            found = self._live_members(asked) if asked else {}
        except ZkcoordError as error:
            log.info("whether groups are split is not known now: %s", error)
            found = {}
        for group, members in found.items():
            if members and group not in known:
                log.warning(
                    "group %s is split: members of it are here, and %d in Kafka's own coordinator"
                    " (%s); let all its clients go through gateways",
                    shown(group),
                    len(members),
                    ", ".join(_first(members)),
                )
            elif not members and known.pop(group, None) is not None:
                log.info("group %s is not split any more", shown(group))
            if members:
                known[group] = _first(members)
        self.split = known

    def _next(self, groups: Sequence[str]) -> Sequence[str]:
        """Those that come after the last one that was looked at, then the first ones."""
        at = bisect_right(groups, self._last)
        asked = [*groups[at:], *groups[:at]][:GROUPS_PER_LOOK_MAX]
        self._last = asked[-1] if asked else ""
        return asked


def _first(members: Sequence[str]) -> tuple[str, ...]:
    return tuple(printable(name, MEMBER_CHARS_MAX) for name in members[:MEMBERS_SHOWN_MAX])
