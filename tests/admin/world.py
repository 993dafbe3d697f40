"""Groups written into a real ZooKeeper by hand: what members, a coordinator and brokers would leave
there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kazoo.client import KazooClient

from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import (
    Cause,
    Command,
    GroupMetadata,
    GroupState,
    Option,
    Subscription,
    Thread,
    TopicPartition,
)
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData, LeaderData
from zkcoord.znodes.paths import Layout

NOW_MS = 1_700_000_000_000


class World:
    """A session that writes znodes. Each member has a session of its own, as members do: what it
    owns is told by that.
    """

    def __init__(self, hosts: str, layout: Layout = Layout.DRAFT) -> None:
        self.hosts = hosts
        self.layout = layout
        self.client = connect(hosts)
        self.members: dict[str, KazooClient] = {}

    def close(self) -> None:
        """End all sessions."""
        for client in (*self.members.values(), self.client):
            disconnect(client)

    def put(self, path: str, data: bytes = b"", ephemeral: bool = False) -> None:
        """Make a node, and its parents."""
        parent = path.rpartition("/")[0]
        if parent:
            self.client.ensure_path(parent)
        self.client.create(path, data, ephemeral=ephemeral)

    def topic(self, name: str, partitions: int) -> None:
        """A topic as a broker writes it."""
        self.put(
            self.layout.topic(name),
            json.dumps(
                {"version": 2, "partitions": {str(n): [0] for n in range(partitions)}}
            ).encode(),
        )

    def broker(self, number: int, host: str = "127.0.0.1", port: int = 9) -> None:
        """A live broker."""
        data = {
            "version": 5,
            "host": host,
            "port": port,
            "endpoints": [f"PLAINTEXT://{host}:{port}"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        }
        self.put(self.layout.broker(number), json.dumps(data).encode(), ephemeral=True)

    def leader(self, epoch: int = 7) -> None:
        """A coordinator that leads."""
        self.client.ensure_path(self.layout.groups_root)
        self.client.set(self.layout.epoch, codec.encode_epoch(EpochData(epoch, 1, 12_000)))
        self.put(
            self.layout.leader,
            codec.encode_leader(LeaderData("3", "coord.example", 9405, epoch, NOW_MS)),
            ephemeral=True,
        )

    def group(
        self,
        name: str,
        state: GroupState = GroupState.STABLE,
        topics: tuple[str, ...] = ("orders",),
        members: int = 0,
        failure: str = "",
    ) -> None:
        """A group's node with its metadata."""
        metadata = GroupMetadata(
            generation=31,
            state=state,
            assignor="sticky",
            topics=topics,
            members=members,
            cause=Cause("member joined", "m"),
            since_ms=NOW_MS,
            configuration={"grace_ms": 0},
            failure=failure,
        )
        self.put(self.layout.group(name), codec.encode_metadata(metadata))

    def member(
        self,
        group: str,
        name: str,
        topics: Mapping[str, int],
        client: str = "app",
        host: str = "host.example",
        instance: str | None = None,
        library: str = "",
        gateway: str = "",
    ) -> int:
        """A registration with its channel; its incarnation."""
        self.client.ensure_path(self.layout.channel(group, name))
        data = codec.encode_registration(
            Subscription(topics=topics),
            timestamp_ms=NOW_MS,
            assignors=("sticky", "range"),
            client=client,
            host=host,
            instance=instance,
            library=library,
            gateway=gateway,
            process="p",
        )
        self.client.ensure_path(self.layout.ids(group))
        self.members[name] = connect(self.hosts)
        self.members[name].create(self.layout.registration(group, name), data, ephemeral=True)
        _, stat = self.client.get(self.layout.registration(group, name))
        return int(stat.czxid)

    def owner(self, group: str, topic: str, partition: int, member: str) -> None:
        """An owner node of ours: version 1."""
        path = self.layout.owner(group, TopicPartition(topic, partition))
        self.client.ensure_path(self.layout.owner_topic(group, topic))
        self.members[member].create(path, b"", ephemeral=True)
        self.client.set(path, codec.encode_owner(Thread(member, 0)))

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """A stored offset."""
        self.put(
            self.layout.offset(group, TopicPartition(topic, partition)), codec.encode_offset(offset)
        )

    def command(
        self, group: str, member: str, incarnation: int, topic: str, partition: int
    ) -> None:
        """An outstanding start-fetcher."""
        command = Command(
            member,
            incarnation,
            Option.START,
            7,
            3,
            31,
            start={TopicPartition(topic, partition): Thread(member, 0)},
        )
        self.client.create(
            self.layout.command_prefix(group, member, 7, 3),
            codec.encode_command(command),
            sequence=True,
        )


@contextmanager
def world(hosts: str, layout: Layout = Layout.DRAFT) -> Iterator[World]:
    """A world, whose ephemeral nodes go with it."""
    made = World(hosts, layout)
    try:
        yield made
    finally:
        made.close()
