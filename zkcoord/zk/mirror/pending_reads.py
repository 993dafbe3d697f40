"""What is marked to be read, fairly between groups, and how large each group is.

`PendingReads` serves the groups in turn: a group that changes all the time delays the others by one
request at most. `Sizes` counts the nodes of each group by their events, so that one that grows
beyond what is read of a group is noticed without listing it; the count is a hint like every event:
a whole read, which asks ZooKeeper, decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.zk.port import GetChildren, GetData, Read
from zkcoord.znodes.paths import Layout

PASSED_OVER_MAX = 20
REGISTRATIONS_OF_A_GROUP_MAX = 25
"""In one request: each may be as long as a document may be."""


class Want(NamedTuple):
    """Something to read: `kind` is registration, channel, command, owner, request, mode, topic,
    topics or groups.
    """

    kind: str
    group: str = ""
    member: str = ""
    node: str = ""
    tp: TopicPartition = TopicPartition("", 0)


class PendingReads:
    """Marked reads, each once, in the order of their marking within a group."""

    def __init__(self) -> None:
        self._of: dict[str, dict[Want, None]] = {}
        self._passed_over = 0

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, want: Want) -> None:
        """Mark it."""
        self._of.setdefault(want.group, {})[want] = None

    @property
    def groups(self) -> Iterable[str]:
        """Of which something is marked."""
        return self._of

    def drop(self, group: str) -> None:
        """Forget what is marked of a group."""
        self._of.pop(group, None)

    def ready(self, held: Callable[[str], bool]) -> bool:
        """Whether something is marked of a group that is not held back."""
        return any(not held(group) for group in self._of)

    def take(
        self,
        count: int,
        held: Callable[[str], bool] = lambda group: False,
        alone: Callable[[str], bool] = lambda group: False,
    ) -> list[Want]:
        """At most `count` of them: what the group gives whose turn it is, then other groups as far
        as they fit as a whole (what one ack changes is marked together and is read together).
        Groups that are `held` back are passed over. One that is to be `alone` is taken by itself,
        when there is no other, or when it was passed over `PASSED_OVER_MAX` times.
        """
        taken: list[Want] = []
        served: list[str] = []
        for group, wants in self._of.items():
            if held(group) or alone(group):
                continue
            if taken and len(taken) + len(wants) > count:
                break
            taken.extend(wants)
            served.append(group)
        last = next((g for g in self._of if not held(g) and alone(g)), None)
        self._passed_over = 0 if last is None else self._passed_over + 1
        if last is not None and (not taken or self._passed_over > PASSED_OVER_MAX):
            taken, served, self._passed_over = list(self._of[last]), [last], 0
        taken, late = _few_registrations(taken)
        late += taken[count:]
        for group in served:
            del self._of[group]
        for want in late:
            self.add(want)
        return taken[:count]


def _few_registrations(taken: list[Want]) -> tuple[list[Want], list[Want]]:
    """What may be asked for in one request, and registrations that are left for the next."""
    counts: Counter[str] = Counter()
    now: list[Want] = []
    later: list[Want] = []
    for want in taken:
        counts[want.group] += want.kind == "registration"
        few = want.kind != "registration" or counts[want.group] <= REGISTRATIONS_OF_A_GROUP_MAX
        (now if few else later).append(want)
    return now, later


def read_of(layout: Layout, want: Want) -> Read:
    """What to ask for."""
    if want.kind == "registration":
        return GetData(layout.registration(want.group, want.member))
    if want.kind == "channel":
        return GetChildren(layout.channel(want.group, want.member))
    if want.kind == "command":
        return GetData(layout.command(want.group, want.member, want.node))
    if want.kind == "owner":
        return GetData(layout.owner(want.group, want.tp))
    if want.kind == "request":
        return GetData(layout.request(want.group, want.node))
    if want.kind == "mode":
        return GetData(layout.mode(want.group))
    if want.kind == "topic":
        return GetData(layout.topic(want.node))
    return GetChildren(layout.topics_root if want.kind == "topics" else layout.groups_root)


@value
class SizeLimits:
    """How much of one group is read: its registrations, and all its nodes together. A larger group
    is left alone.
    """

    registrations_max: int = 20_000
    nodes_max: int = 200_000

    def exceeded(self, registrations: int, nodes: int) -> str:
        """What is wrong with a group of this size, as a sentence; empty where nothing is."""
        if registrations > self.registrations_max:
            return (
                f"it has {registrations} registrations, more than the {self.registrations_max} that"
                " are read (registrations_per_group_max): it is left alone and its members keep"
                " what they own until the others are removed"
            )
        if nodes > self.nodes_max:
            return (
                f"it has {nodes} nodes or more, more than the {self.nodes_max} that are read"
                " (nodes_per_group_max): it is left alone and its members keep what they own until"
                " the others are removed"
            )
        return ""


class Sizes:
    """Registrations and nodes of each group, as last read and counted since."""

    def __init__(self, limits: SizeLimits) -> None:
        self.limits = limits
        self._of: dict[str, list[int]] = {}

    def read(self, group: str, registrations: int, nodes: int) -> bool:
        """Its size as it was just read, and what was made meanwhile (in the answer or not: rather
        read once more than follow one that is too large); whether that is larger than what is read
        of one.
        """
        grown = self._of.get(group, [0, 0])
        self._of[group] = [registrations + max(grown[0], 0), nodes + max(grown[1], 0)]
        return self._exceeds(group)

    def grew(self, group: str, by: int, registration: bool) -> bool:
        """A node was made (1) or deleted (-1); whether the group is now larger than what is read of
        one.
        """
        size = self._of.setdefault(group, [0, 0])
        size[0] += by * registration
        size[1] += by
        return by > 0 and self._exceeds(group)

    def _exceeds(self, group: str) -> bool:
        registrations, nodes = self._of[group]
        return registrations > self.limits.registrations_max or nodes > self.limits.nodes_max

    def drop(self, group: str) -> None:
        """The group is gone."""
        self._of.pop(group, None)
