"""Groups, records and pages without servers: what the console's tests show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from zkcoord.console.checking import Checked
from zkcoord.console.ensemble import ServerSeen
from zkcoord.console.happenings import Happenings
from zkcoord.console.pages import Pages
from zkcoord.console.picture import GroupLine, Picture, lines_of
from zkcoord.core.model import (
    GroupMetadata,
    GroupState,
    Member,
    Owner,
    Subscription,
    Thread,
    Topic,
    TopicPartition,
)
from zkcoord.errors import UnknownGroupError, ZkcoordError
from zkcoord.health.rules import HealthVerdict, PartitionHealth, of_group
from zkcoord.health.seconds import LagSeconds
from zkcoord.zk.clock import wall_ms
from zkcoord.zk.sync.group_snapshot import CoordinatorSeen, GroupListed, GroupSnapshot
from zkcoord.znodes.codec import LeaderData
from zkcoord.znodes.paths import Layout

SEEN = CoordinatorSeen(LeaderData("3", "coord.example", 9405, 7, 1_700_000_000_000), 7)
LONGEST = "ü" * 124
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a b  c",
    "50%25 & #more?x=1",
    "{{ 7 * 7 }}",
    "'; drop",
    LONGEST,
    "x" * 249,
)
"""Names that groups can have, but for those with a slash."""


def health_of(
    name: str, verdict: HealthVerdict = HealthVerdict.OK, topic: str = "orders", lag: int = 0
) -> PartitionHealth:
    """A partition's."""
    return PartitionHealth(
        TopicPartition(topic, 0), verdict, f"why {name}", 100 - lag, 100, LagSeconds(float(lag))
    )


def line(
    name: str,
    verdict: HealthVerdict = HealthVerdict.OK,
    state: GroupState = GroupState.STABLE,
    members: int = 1,
    lag: int = 0,
    topics: tuple[str, ...] = ("orders",),
) -> GroupLine:
    """A group of the list."""
    listed = GroupListed(name, state, members, 3, topics)
    part = health_of(name, verdict, topics[0] if topics else "orders", lag)
    return GroupLine(listed, of_group(name, state.value, "zookeeper", [part]))


def picture(lines: Iterable[GroupLine] = (), **more: Any) -> Picture:
    """Of now."""
    found = list(lines)
    healths = [one.health for one in found if one.health is not None]
    at_ms = more.pop("at_ms", wall_ms())
    return Picture(
        1, at_ms, lines_of([one.listed for one in found], healths), **{"coordinator": SEEN, **more}
    )


def snapshot(
    name: str,
    owns: Mapping[str, Mapping[str, Sequence[int]]],
    host: str = "host.example",
    metadata: GroupMetadata | None = None,
    free: Iterable[TopicPartition] = (),
) -> GroupSnapshot:
    """A group, by what each member owns."""
    sessions = {member: number for number, member in enumerate(owns, 1)}
    numbers: dict[str, set[int]] = {}
    for topics in owns.values():
        for topic, found in topics.items():
            numbers.setdefault(topic, set()).update(found)
    for tp in free:
        numbers.setdefault(tp.topic, set()).add(tp.partition)
    return GroupSnapshot(
        name,
        Layout.DRAFT,
        SEEN,
        metadata or GroupMetadata(3, GroupState.STABLE, "sticky"),
        {
            member: Member(
                member, n, n, Subscription(dict.fromkeys(numbers, 1)), host=host, client="app"
            )
            for member, n in sessions.items()
        },
        {},
        {
            TopicPartition(topic, number): Owner(sessions[member], Thread(member, 0), 1)
            for member, topics in owns.items()
            for topic, found in topics.items()
            for number in found
        },
        {},
        {topic: Topic(topic, "1", tuple(sorted(found))) for topic, found in numbers.items()},
        {member: dict.fromkeys(numbers, 1) for member in owns},
    )


def rebalance(at_ms: int, owned: object = None, **more: Any) -> dict[str, Any]:
    """A journal's record; `owned` None: of a release that did not say."""
    record = {
        "t": at_ms,
        "kind": "rebalance",
        "group": "billing",
        "generation": 3,
        "cause": "member joined",
        "trigger": "m1",
        "duration_ms": 100,
        "moved": 2,
        "members": 2,
        "assignor": "sticky",
        "unassigned": 0,
        "waited_for": [{"member": "m1", "ms": 90}],
    }
    return {**record, **({} if owned is None else {"owned": owned}), **more}


class FakeAsker:
    """Knows these groups; `error` is raised instead where there is one."""

    def __init__(self, groups: Iterable[GroupSnapshot] = ()) -> None:
        self.groups = {group.group: group for group in groups}
        self.error: ZkcoordError | None = None
        self.asked = 0

    def group(self, name: str) -> GroupSnapshot:
        self.asked += 1
        if self.error is not None:
            raise self.error
        if name not in self.groups:
            raise UnknownGroupError(f"there is no group {name}")
        return self.groups[name]


class ToldPages:
    """Pages of what a test says there is."""

    def __init__(
        self,
        lines: Iterable[GroupLine] = (),
        groups: Iterable[GroupSnapshot] = (),
        records: Iterable[dict[str, Any]] = (),
        folder: Path | None = None,
        may_act: bool = False,
        replayer: Any = None,
    ) -> None:
        self.picture = picture(lines)
        self.asker = FakeAsker(groups)
        self.happenings = Happenings([folder] if folder else [], lambda _: None)
        self.happenings.take(records)
        asker: Any = self.asker
        self.checked = Checked()
        checker: Any = SimpleNamespace(newest=lambda: self.checked)
        self.servers: list[ServerSeen] = []
        ensemble: Any = SimpleNamespace(newest=lambda: self.servers)
        self.pages = Pages(
            lambda: self.picture,
            self.happenings,
            asker,
            checker,
            "zk1:2181/kafka",
            may_act,
            replayer,
            ensemble,
        )


def journal_file(folder: Path) -> Path:
    """An empty journal."""
    folder.mkdir(exist_ok=True)
    path = folder / "1700000000000-1.000001.jsonl"
    path.touch()
    return path
