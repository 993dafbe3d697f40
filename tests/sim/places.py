"""Where things are in ZooKeeper, as the simulator's own code sees it: written from
docs/protocol.md, apart from the product's paths, so that a mistake there is not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zkcoord.core.model import TopicPartition

Key = tuple[str, TopicPartition]  # group, partition


@dataclass(slots=True)
class Place:
    """What a path is: kind is leader, root, group, ids, channel, command, owner, mode, request,
    offset, offsets (of a topic), beside (an offset) or other.
    """

    kind: str
    group: str = ""
    member: str = ""
    node: str = ""
    partition: TopicPartition = TopicPartition("", -1)


@dataclass(frozen=True)
class Places:
    """The paths of one layout."""

    leader: str
    root: str
    home: str

    DRAFT: ClassVar[Places]
    ISOLATED: ClassVar[Places]

    @property
    def other_leader(self) -> str:
        """Where a coordinator with the other layout would lead."""
        return (Places.ISOLATED if self == Places.DRAFT else Places.DRAFT).leader

    @property
    def above_asks(self) -> str:
        """What members ask the coordinator for is below it."""
        return f"{self.root}/coordinator"

    def group(self, group: str) -> str:
        """A group's node."""
        return f"{self.root}/{group}"

    def ids(self, group: str) -> str:
        """The parent of a group's registrations."""
        return f"{self.home}/{group}/ids"

    def owners(self, group: str) -> str:
        """The parent of a group's owner nodes."""
        return f"{self.home}/{group}/owners"

    def channels(self, group: str) -> str:
        """The parent of a group's channels."""
        return f"{self.root}/{group}/channel"

    def requests(self, group: str) -> str:
        """The parent of operators' requests."""
        return f"{self.root}/{group}/requests"

    def mode(self, group: str) -> str:
        """Where an operator says whose a group is, and whether it is paused."""
        return f"{self.root}/{group}/mode"

    def owner(self, key: Key) -> str:
        """Where the owner of a partition is written."""
        return f"{self.home}/{key[0]}/owners/{key[1].topic}/{key[1].partition}"

    def offset(self, key: Key) -> str:
        """Where the offset of a partition is written."""
        return f"/consumers/{key[0]}/offsets/{key[1].topic}/{key[1].partition}"

    def beside(self, key: Key) -> str:
        """Where what was committed beside the offset of a partition is written."""
        return f"/consumers/{key[0]}/commit-metadata/{key[1].topic}/{key[1].partition}"

    def place_of(self, path: str) -> Place:
        """What a path is."""
        if path == self.leader:
            return Place("leader")
        if path == self.root:
            return Place("root")
        if path == self.above_asks or path.startswith(f"{self.above_asks}/"):
            return Place("other")
        parts = path.split("/")[1:]
        if (
            parts[0] == "consumers"
            and len(parts) >= 4
            and parts[1] != "groups"
            and parts[2] == "offsets"
        ):
            if len(parts) == 4:
                return Place("offsets", parts[1], partition=TopicPartition(parts[3], -1))
            if len(parts) == 5 and parts[4].isdigit():
                return Place("offset", parts[1], partition=TopicPartition(parts[3], int(parts[4])))
            return Place("other")
        if len(parts) == 5 and parts[2] == "commit-metadata" and parts[4].isdigit():
            return Place("beside", parts[1], partition=TopicPartition(parts[3], int(parts[4])))
        for above in dict.fromkeys((self.root, self.home)):
            if path.startswith(above + "/"):
                found = self._in_group(above, path[len(above) + 1 :].split("/"))
                if found is not None:
                    return found
        return Place("other")

    def _in_group(self, above: str, parts: list[str]) -> Place | None:
        group, rest = parts[0], parts[1:]
        if above == self.root:
            if not rest:
                return Place("group", group)
            if rest == ["mode"]:
                return Place("mode", group)
            if rest[0] == "requests" and len(rest) == 2:
                return Place("request", group, node=rest[1])
            if rest[0] == "channel" and len(rest) == 2:
                return Place("channel", group, rest[1])
            if rest[0] == "channel" and len(rest) == 3:
                return Place("command", group, rest[1], rest[2])
        if above == self.home and rest:
            if rest[0] == "ids" and len(rest) == 2:
                return Place("ids", group, rest[1])
            if rest[0] == "owners" and len(rest) == 3 and rest[2].isdigit():
                return Place("owner", group, partition=TopicPartition(rest[1], int(rest[2])))
        return None


Places.DRAFT = Places("/consumers/coordinator", "/consumers/groups", "/consumers/groups")
Places.ISOLATED = Places("/zkcoord/coordinator", "/zkcoord/groups", "/consumers")
