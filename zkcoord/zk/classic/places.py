"""The places that a coordinator has for client-led groups. When all are taken, the group that has
had no members for longest gives its own to the next. One host has at most half of them, as gateways
say where a group's first client is: whoever makes groups without end does not keep all others out.
"""

from __future__ import annotations

GROUPS_MAX = 5_000
GROUPS_OF_HOST_MAX = GROUPS_MAX // 2


class GroupPlaces:
    """See the module. Pure. Every method takes a group's name."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}
        self._of_host: dict[str, int] = {}
        self._empty: dict[str, None] = {}  # in the order in which they became so

    def __len__(self) -> int:
        return len(self._hosts)

    def take(self, group: str, host: str) -> None:
        """A group is there, whose first client is on this host ("": nobody says)."""
        if group not in self._hosts:
            self._hosts[group] = host
            self._of_host[host] = self._of_host.get(host, 0) + 1

    def free(self, group: str) -> None:
        """It is gone."""
        host = self._hosts.pop(group, None)
        self._empty.pop(group, None)
        if host is not None:
            self._of_host[host] -= 1
            if not self._of_host[host]:
                del self._of_host[host]

    def has_members(self, group: str, has_members: bool) -> None:
        """Whether it has any, now."""
        if has_members:
            self._empty.pop(group, None)
        elif group in self._hosts:
            self._empty.setdefault(group)

    def room_for(self, host: str) -> bool:
        """Whether one more of this host may be, perhaps in another's place (`give_up`)."""
        return not self._is_full(host) or bool(self._leaves(host))

    def give_up(self, host: str) -> str:
        """Which group is to be deleted for one more of this host; "": there is room."""
        oldest = self._leaves(host) if self._is_full(host) else ""
        self._empty.pop(oldest, None)
        return oldest

    def _is_full(self, host: str) -> bool:
        return len(self) >= GROUPS_MAX or self._has_its_share(host)

    def _has_its_share(self, host: str) -> bool:
        return bool(host) and self._of_host.get(host, 0) >= GROUPS_OF_HOST_MAX

    def _leaves(self, host: str) -> str:
        """Who has had no members for longest, of a host that has its share of its own groups."""
        if not self._has_its_share(host):
            return next(iter(self._empty), "")
        return next((group for group in self._empty if self._hosts.get(group) == host), "")
