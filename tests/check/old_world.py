"""Groups of old consumers, written into a real ZooKeeper byte for byte as they would."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kazoo.client import KazooClient

from tests.harness.zookeeper import connect, disconnect


class OldWorld:
    """A session that arranges, and one for each member: an ephemeral node tells by its session
    whose it is.
    """

    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self.client = connect(hosts)
        self.sessions: dict[str, KazooClient] = {}

    def close(self) -> None:
        """End all sessions."""
        for session in (*self.sessions.values(), self.client):
            disconnect(session)

    def session(self, name: str) -> KazooClient:
        """The session of this name."""
        if name not in self.sessions:
            self.sessions[name] = connect(self.hosts)
        return self.sessions[name]

    def put(self, path: str, data: bytes = b"") -> None:
        """A persistent node."""
        self.client.ensure_path(path.rpartition("/")[0] or "/")
        self.client.create(path, data)

    def topic(self, name: str, partitions: int, leader: int = 1) -> None:
        """A topic with its leaders, as a controller of 1.1 writes them."""
        self.put(
            f"/brokers/topics/{name}",
            json.dumps(
                {"version": 1, "partitions": {str(n): [1] for n in range(partitions)}}
            ).encode(),
        )
        for n in range(partitions):
            self.put(
                f"/brokers/topics/{name}/partitions/{n}/state",
                json.dumps(
                    {
                        "controller_epoch": 1,
                        "leader": leader,
                        "version": 1,
                        "leader_epoch": 0,
                        "isr": [1],
                    }
                ).encode(),
            )

    def broker(self, number: int = 1, version: int = 4) -> None:
        """A live broker."""
        self.client.ensure_path("/brokers/ids")
        data = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": ["PLAINTEXT://127.0.0.1:9"],
            "jmx_port": -1,
            "host": "127.0.0.1",
            "timestamp": "1795227722665",
            "port": 9,
            "version": version,
        }
        self.client.create(f"/brokers/ids/{number}", json.dumps(data).encode(), ephemeral=True)

    def registration(self, group: str, name: str, data: bytes) -> None:
        """A member with this data, whatever it is."""
        self.client.ensure_path(f"/consumers/{group}/ids")
        self.session(name).create(f"/consumers/{group}/ids/{name}", data, ephemeral=True)

    def member(
        self, group: str, name: str, topics: Mapping[str, int], pattern: str = "static"
    ) -> None:
        """A member that registers properly."""
        self.registration(
            group,
            name,
            json.dumps(
                {
                    "version": 1,
                    "subscription": dict(topics),
                    "pattern": pattern,
                    "timestamp": "1795227768363",
                }
            ).encode(),
        )

    def owner(
        self, group: str, topic: str, partition: int | str, session: str, data: str | None = None
    ) -> None:
        """An owner node, held by the session of this name."""
        self.client.ensure_path(f"/consumers/{group}/owners/{topic}")
        self.session(session).create(
            f"/consumers/{group}/owners/{topic}/{partition}",
            (f"{session}-0" if data is None else data).encode(),
            ephemeral=True,
        )

    def offset(self, group: str, topic: str, partition: int | str, data: str) -> None:
        """A stored offset."""
        self.put(f"/consumers/{group}/offsets/{topic}/{partition}", data.encode())

    def healthy(self, group: str, topic: str, partitions: int) -> None:
        """One member that owns all, with offsets."""
        self.member(group, f"{group}_a", {topic: 1})
        for n in range(partitions):
            self.owner(group, topic, n, f"{group}_a")
            self.offset(group, topic, n, str(10 * n))


@contextmanager
def old_world(hosts: str) -> Iterator[OldWorld]:
    """A world, whose ephemeral nodes go with it."""
    made = OldWorld(hosts)
    try:
        yield made
    finally:
        made.close()
