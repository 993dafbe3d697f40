"""Members and a sink's directory for tests without Spark: rows are text files. Members are sessions
that write what the protocol says; what of them writes through the sink is what ships.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from consumer.spark.plan import PlannedRange
from consumer.spark.sink import manifest as docs
from consumer.spark.sink import publication
from consumer.spark.sink.effects import Keeper, carry_out, perform
from consumer.spark.sink.fence import Batch
from consumer.spark.sink.files import LocalFiles
from tests.harness.zookeeper import connect, disconnect
from zkcoord.core.model import TopicPartition
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

GROUP = "billing"
LAYOUT = Layout.DRAFT
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
EACH = 5
SESSION_MS = 30_000


class Member:
    """A registered member of a group, by hand: it claims what is free, and plans."""

    def __init__(self, hosts: str, name: str) -> None:
        self.client: KazooClient = connect(hosts, timeout_s=SESSION_MS / 1000)
        self.name = name
        path = LAYOUT.registration(GROUP, name)
        self.client.create(path, b"{}", ephemeral=True, makepath=True)
        self.incarnation: int = self.client.exists(path).czxid
        self.batches = 0

    def claim(self) -> Member:
        """Every free partition: owner node, and the offset re-written with its own value at the
        version read.
        """
        for tp in PARTITIONS:
            offset, owner = LAYOUT.offset(GROUP, tp), LAYOUT.owner(GROUP, tp)
            self.client.ensure_path(offset.rpartition("/")[0])
            self.client.ensure_path(owner.rpartition("/")[0])
            if self.client.exists(offset) is None:
                self.client.create(offset, b"0")
            value, stat = self.client.get(offset)
            transaction = self.client.transaction()
            transaction.create(owner, b"", ephemeral=True)
            transaction.set_data(offset, value, stat.version)
            assert not any(isinstance(result, Exception) for result in transaction.commit())
        return self

    def plan(self) -> Batch:
        """The next `EACH` offsets of each partition."""
        ranges = []
        for tp in PARTITIONS:
            value, stat = self.client.get(LAYOUT.offset(GROUP, tp))
            ranges.append(
                PlannedRange(
                    *tp,
                    int(value),
                    int(value) + EACH,
                    stat.version,
                    self.client.exists(LAYOUT.owner(GROUP, tp)).czxid,
                )
            )
        self.batches += 1
        return Batch(
            LAYOUT, GROUP, self.name, self.incarnation, self.batches, tuple(ranges), "query"
        )

    def leave(self) -> None:
        """The session ends: registration and owner nodes go."""
        disconnect(self.client)


class Bench:
    """A directory, a keeper, members."""

    def __init__(self, hosts: str, folder: Path) -> None:
        self.hosts = hosts
        self.folder = folder
        self.files = LocalFiles(folder)
        self.keeper = Keeper(ZkOptions(hosts, session_timeout_ms=SESSION_MS))
        self.place = publication.SinkPlace(LAYOUT, GROUP, self.files.uri)
        self.members: list[Member] = []

    def member(self) -> Member:
        found = Member(self.hosts, f"m{len(self.members)}")
        self.members.append(found)
        return found.claim()

    def stage(self, batch: Batch) -> Callable[[str], Sequence[str]]:
        """Its records, one file per partition, in folders as partitionBy makes them."""

        def write(folder: str) -> Sequence[str]:
            for r in batch.ranges:
                path = self.folder / folder / f"day={r.partition}" / f"part-{r.partition}.parquet"
                path.parent.mkdir(parents=True)
                path.write_text("\n".join(f"{r.tp}:{offset}" for offset in range(r.start, r.end)))
                path.with_name(f".{path.name}.crc").write_text("hidden")
            (self.folder / folder / "_SUCCESS").write_text("")
            return self.files.written(folder)

        return write

    def publish(self, batch: Batch, keeper: Keeper | None = None) -> None:
        perform(
            publication.publish(self.place, batch, "0a"),
            keeper or self.keeper,
            self.files,
            self.stage(batch),
        )

    def recover(self, member: Member) -> None:
        perform(publication.recover(self.place, member.incarnation), self.keeper, self.files)

    def part(self, work: Generator[publication.Effect, Any, Any], batch: Batch, count: int) -> bool:
        """The first `count` effects, and then the end of the process; False: there are no more than
        that.
        """
        answer: Any = None
        for _ in range(count):
            try:
                effect = work.send(answer)
            except StopIteration:
                return False
            answer = carry_out(effect, self.keeper, self.files, self.stage(batch))
        return True

    def visible(self) -> Counter[str]:
        """Records as a reader that leaves out hidden names finds them."""
        return Counter(
            line
            for path in self.files.written("")
            for line in (self.folder / path).read_text().split("\n")
        )

    def expected(self, end: int) -> Counter[str]:
        return Counter(f"{tp}:{offset}" for tp in PARTITIONS for offset in range(end))

    def left(self) -> tuple[list[str], tuple[str, ...]]:
        """Intents and staging folders."""
        client = self.members[-1].client
        parent = LAYOUT.publications(GROUP)
        return (client.get_children(parent) if client.exists(parent) else []), self.files.folders(
            docs.staging(GROUP)
        )

    def close(self) -> None:
        """End all sessions."""
        self.keeper.close()
        for member in self.members:
            disconnect(member.client)
