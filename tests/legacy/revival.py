"""Old consumers that gave up, or lost an owner node without knowing: how soon that is reported, and
how soon all is owned again once nothing stands in their way. A part of `make legacy-mixed`.

A real old consumer and two of ours share a group, everything at its defaults; the owner node of a
partition that the old one is about to get is replaced by a foreign one, and one of ours leaves.
Four attempts later the old one owns nothing and tries no more; then the foreign node goes. When all
is owned again, one of its nodes is deleted, as another old consumer deletes it that moves at the
same time: by name.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from kazoo.client import KazooClient

from tests.bench.figures import Bar, Row, Section
from tests.harness.kafka import create_topic, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import coordinator
from tests.kafka.test_processes import process
from tests.legacy.consumers import LegacyConsumer, LegacyProcess
from tests.legacy.jars import V1_1
from tests.legacy.looking import owners, registered
from tests.sim.legacy import range_owners
from zkcoord.core.model import GroupMetadata, GroupMode, Mode, TopicPartition
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.codec import decode_metadata, encode_mode
from zkcoord.znodes.paths import Layout

ROUNDS, PARTITIONS = 5, 12
WAIT_S = 180.0
REPORTED_MS, OWNED_MS, ROBBED_MS = 10_000, 3_000, 20_000


def share(client: KazooClient, group: str) -> None:
    """An operator says that the group is shared."""
    client.create(
        Layout.ISOLATED.mode(group),
        encode_mode(Mode(GroupMode.MIXED, by="the test")),
        makepath=True,
    )


class Group:
    """A group of one topic, as seen in ZooKeeper."""

    def __init__(self, client: KazooClient, broker: KafkaBroker) -> None:
        self.client = client
        self.name = unique("revival")
        self.topic = create_topic(broker.address, unique("shared"), PARTITIONS)
        share(client, self.name)

    def computed(self, names: Collection[str]) -> dict[TopicPartition, str]:
        """The owners by the old maths."""
        return range_owners(
            {name: {self.topic: 1} for name in names}, {self.topic: range(PARTITIONS)}
        )

    def owned_by(self, members: int) -> float:
        """Wait until so many members own everything as computed; seconds of the monotonic clock."""

        def as_computed() -> bool:
            names = registered(self.client, self.name)
            return len(names) == members and owners(self.client, self.name) == self.computed(names)

        wait_until(
            as_computed,
            WAIT_S,
            f"the owners that the maths says for {members} members of {self.name}",
        )
        return time.monotonic()

    def reported(self, member: str) -> bool:
        """Whether the group's report says that this member has given up."""
        found = decode_metadata(self.name, self.client.get(Layout.ISOLATED.group(self.name))[0])
        return isinstance(found, GroupMetadata) and any(
            problem.startswith(f"{member} owns nothing") for problem in found.problems
        )

    def obstruct(self, old: LegacyConsumer, leaving: str) -> str:
        """Replace the owner node of a partition that the old consumer gets when `leaving` has left;
        its path. An old consumer may rebalance once more after all was owned: only where nothing is
        under way.
        """

        def replaced() -> str:
            now, names = owners(self.client, self.name), registered(self.client, self.name)
            if now != self.computed(names):
                return ""
            after = self.computed(names.keys() - {leaving})
            wanted = min(
                partition
                for partition, thread in after.items()
                if thread.startswith(f"{old.id}-") and not now[partition].startswith(f"{old.id}-")
            )
            path = f"/consumers/{self.name}/owners/{self.topic}/{wanted.partition}"
            replacing = self.client.transaction()
            replacing.delete(path)
            replacing.create(path, b"somebody-0")
            return (
                path
                if not [result for result in replacing.commit() if isinstance(result, Exception)]
                else ""
            )

        return wait_until(replaced, WAIT_S, f"an owner node of {self.name} to replace")

    def rob(self, old: LegacyConsumer) -> None:
        """Delete one of its owner nodes, by name."""
        mine = min(
            partition
            for partition, thread in owners(self.client, self.name).items()
            if thread.startswith(f"{old.id}-")
        )
        self.client.delete(f"/consumers/{self.name}/owners/{self.topic}/{mine.partition}")


def play(
    broker: KafkaBroker, client: KazooClient, legacy: LegacyProcess
) -> tuple[float, float, float, float]:
    """One round, in ms: from the old consumer's last owner node and from its giving up to the
    report, from the obstacle's end to everything owned, and from the loss of an owner node to
    everything owned.
    """
    group = Group(client, broker)
    arguments = (
        "--zookeeper",
        broker.zookeeper,
        "--group",
        group.name,
        "--topic",
        group.topic,
        "--layout",
        "isolated",
    )
    old = legacy.consumer(group.name, {group.topic: 1}, name="A")
    with process(*arguments), process(*arguments) as leaves:
        group.owned_by(3)
        path = group.obstruct(old, leaves.of("registered")[0]["name"])
        leaves.child.terminate()
        wait_until(
            lambda: (
                not any(
                    thread.startswith(f"{old.id}-")
                    for thread in owners(client, group.name).values()
                )
            ),
            WAIT_S,
            "the old consumer to let go",
        )
        nothing = time.time()
        wait_until(lambda: group.reported(old.id), WAIT_S, "the report")
        reported = time.time()
        gave_up, *_ = wait_until(old.gave_up, WAIT_S, "the old consumer to give up")
        client.delete(path)
        began = time.monotonic()
        owned = group.owned_by(2) - began
        began = time.monotonic()
        group.rob(old)
        robbed = group.owned_by(2) - began
        assert len(old.gave_up()) == 1, f"{old.id} gave up again"
    old.close()
    return 1000 * (reported - nothing), 1000 * (reported - gave_up), 1000 * owned, 1000 * robbed


def revive(
    folder: Path, broker: KafkaBroker, client: KazooClient, rounds: int, into: list[Section]
) -> None:
    """The section of the report."""
    section = Section(
        "revival",
        f"Old consumers 1.1.1 that gave up, beside two of ours, {PARTITIONS} partitions, {rounds}"
        " rounds; all options at their defaults",
    )
    into.append(section)
    found: list[tuple[float, float, float, float]] = []
    with (
        coordinator(broker.zookeeper, layout=Layout.ISOLATED),
        LegacyProcess(folder / "revival", V1_1, broker.zookeeper, broker.program.java) as legacy,
    ):
        for number in range(rounds):
            section.attempt(
                f"round {number + 1}", lambda: found.append(play(broker, client, legacy))
            )
    nothing, gave_up, owned, robbed = (
        (list(values) for values in zip(*found)) if found else ([], [], [], [])
    )
    section.rows += [
        Row("reported in the group's node", "since it owns nothing", nothing),
        Row(
            "reported in the group's node",
            "since it gave up, by its log",
            gave_up,
            (Bar("max", REPORTED_MS),),
        ),
        Row(
            "revived: everything owned",
            "since nothing stands in its way",
            owned,
            (Bar("max", OWNED_MS),),
        ),
        Row(
            "robbed of an owner node: everything owned",
            "since it was deleted by name",
            robbed,
            (Bar("max", ROBBED_MS),),
        ),
    ]
