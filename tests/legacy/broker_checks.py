"""What is asked of brokers of any release and kind: both data paths of the consumer, Spark's decode
engines, and what the command line asks of brokers. Each check is one function of `Against`, raises
an AssertionError where something does not work, and returns a few words for a table.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition
from kazoo.exceptions import NoNodeError

from consumer.spark.plan import PlannedRange
from tests.bench.figures import Bar, Row
from tests.harness.command import Running, run
from tests.harness.kafka import create_topic, group_member, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect
from tests.kafka.groups import Taken, consumer, drain, settled, whole
from tests.spark.decode.reading import ENGINES, rows_of
from tests.spark.decode.written import COMMITTED, UNCOMMITTED, Log, Writer
from tests.spark.decode.written import settled as sorted_log
from zkcoord.admin.kafka_groups import KafkaGroups
from zkcoord.admin.offsets.log_offsets import registered_brokers
from zkcoord.cli.check import FOUND
from zkcoord.errors import ZkcoordError
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.port import GetData, Node
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.paths import Layout

ZSTD_SINCE = (2, 1)
OLD_FORMATS_UNTIL = (3, 0)
OLD_FORMATS = {"0": "0.9.0.1", "1": "0.10.2"}
"""Message format -> a release that wrote it (`message.format.version`)."""
MAGIC_AT = 16
"""Where a batch in a log says its format."""

PARTITIONS, PER_PARTITION = 4, 300
TOOL_TIMEOUT_S = 120.0
PATIENCE_S = 60.0
WORKS = Bar("min", 100, at_least=True)
FAILURE_CHARS_MAX = 400


@dataclass(frozen=True)
class Against:
    """A broker that runs: its address, the folder of its logs, and of its ZooKeeper, or of the one
    beside it, chroot included, `hosts`. `folder` is the check's own.
    """

    release: str
    address: str
    logs: Path
    hosts: str
    folder: Path

    @property
    def version(self) -> tuple[int, ...]:
        """The release as numbers."""
        return tuple(map(int, self.release.split(".")))

    @property
    def codecs(self) -> tuple[str, ...]:
        """Compression that this release takes from producers."""
        return ("none", "gzip", "snappy", "lz4", *(("zstd",) if self.version >= ZSTD_SINCE else ()))

    @contextmanager
    def coordinator(self) -> Iterator[Running]:
        """One in a process of its own, told of the broker: all of them are, whatever the kind. What
        others read of the broker is there.
        """
        options = ("--zookeeper", self.hosts, "--bootstrap-servers", self.address)
        with Running(self.folder / unique("coordinator"), *options) as process:
            with SyncClient(ZkOptions(self.hosts)) as reader:
                wait_until(
                    lambda: registered_brokers(reader, Layout.DRAFT) == (self.address,),
                    PATIENCE_S,
                    "the broker to be known",
                )
            yield process

    def knows(self, topic: str) -> None:
        """Wait until everybody is told of it who reads ZooKeeper."""
        with SyncClient(ZkOptions(self.hosts)) as reader:
            at = Layout.DRAFT.topic(topic)
            wait_until(
                lambda: isinstance(reader.see([GetData(at)])[0], Node), PATIENCE_S, "the topic"
            )

    def tool(self, *arguments: str) -> str:
        """Run a command of ours on it; what it printed. AssertionError when it failed, or wrote a
        traceback.
        """
        answer = run(self.folder, *arguments, "--zookeeper", self.hosts, timeout_s=TOOL_TIMEOUT_S)
        assert answer.returncode == 0 and "Traceback" not in answer.stderr, (
            f"zkcoord {' '.join(arguments)}: {answer.returncode}, {answer.stderr.strip()}"
            f" {answer.stdout.strip()}"
        )
        return answer.stdout

    def stored(self, group: str, topic: str) -> dict[int, int]:
        """What ZooKeeper has: partition -> next offset."""
        found = self._children(Layout.DRAFT.offset_topic(group, topic))
        return {partition: int(data) for partition, data in found.items()}

    def owners(self, group: str, topic: str) -> dict[int, str]:
        """Partition -> who owns it, as ZooKeeper has it."""
        found = self._children(Layout.DRAFT.owner_topic(group, topic))
        return {partition: data.decode() for partition, data in found.items()}

    def _children(self, path: str) -> dict[int, bytes]:
        """Of a node that goes, or whose children do, what is left."""
        client = connect(self.hosts)
        found = {}
        try:
            for name in client.get_children(path):
                with suppress(NoNodeError):
                    found[int(name)] = client.get(f"{path}/{name}")[0]
        except NoNodeError:
            pass
        finally:
            disconnect(client)
        return found

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """What Kafka has."""
        with KafkaGroups((self.address,)) as groups:
            return {
                tp.partition: offset
                for tp, offset in groups.committed([group])[group].items()
                if tp.topic == topic
            }


def consume(client: str, at: Against) -> str:
    """Two members share a topic, one leaves; every record once and in order; positions, ends and
    times are asked for; offsets are in ZooKeeper.
    """
    topic, group = create_topic(at.address, unique("shared"), PARTITIONS), unique("group")
    produce_numbered(at.address, topic, PARTITIONS, PER_PARTITION)
    taken: Taken = {}
    every = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    with at.coordinator(), consumer(at.hosts, group, topic, data_client=client) as one:
        with consumer(at.hosts, group, topic, data_client=client) as two:
            settled([one, two], topic, PARTITIONS, taken, PATIENCE_S)
            drain([one, two], taken, PARTITIONS * PER_PARTITION)
        settled([one], topic, PARTITIONS, taken, PATIENCE_S)
        produce_numbered(at.address, topic, PARTITIONS, 10, PER_PARTITION)
        drain([one], taken, PARTITIONS * (PER_PARTITION + 10))
        ends = dict.fromkeys(every, PER_PARTITION + 10)
        assert one.end_offsets(every) == ends and one.beginning_offsets(every) == dict.fromkeys(
            every, 0
        )
        assert {
            tp: found.offset
            for tp, found in one.offsets_for_times(dict.fromkeys(every, 0)).items()
            if found is not None
        } == dict.fromkeys(every, 0)
        one.seek(every[0], 5)
        again: Taken = {}
        wait_until(
            lambda: (
                drain([one], again, 1) is None
                and sum(map(len, again.values())) >= PER_PARTITION + 5
            ),
            PATIENCE_S,
            "the records after a seek",
        )
        assert again == {(topic, 0): list(range(5, PER_PARTITION + 10))}
        one.commit()
    whole(taken, PARTITIONS, PER_PARTITION + 10, topic)
    assert at.stored(group, topic) == dict.fromkeys(range(PARTITIONS), PER_PARTITION + 10)
    return f"{PARTITIONS * (PER_PARTITION + 10)} records"


def consume_all_forms(client: str, at: Against) -> str:
    """Every codec and message format that the broker stores."""
    count = 0
    for log in (*formats(at).values(), compressed(at)):
        found: list[tuple[int, bytes | None, bytes | None]] = []
        with (
            at.coordinator(),
            consumer(at.hosts, unique("group"), log.topic, data_client=client) as one,
        ):

            def enough(one: Any = one, log: Log = log, found: list[Any] = found) -> bool:
                found += [
                    (record.offset, record.key, record.value)
                    for records in one.poll(100).values()
                    for record in records
                ]
                return len(found) >= len(log.rows[UNCOMMITTED])

            wait_until(enough, PATIENCE_S, f"the records of {log.topic}")
        assert found == [
            (row["offset"], row["key"], row["value"]) for row in log.rows[UNCOMMITTED]
        ], log.topic
        count += len(found)
    return (
        f"{count} records; message formats {', '.join([*formats_of(at), '2'])};"
        f" {', '.join(at.codecs)}"
    )


def offsets_in_kafka(at: Against) -> str:
    """`offsets_storage="kafka"`: where the group stands is in Kafka alone, and another member goes
    on from there.
    """
    topic, group = create_topic(at.address, unique("kept"), 2), unique("group")
    produce_numbered(at.address, topic, 2, 50)
    taken: Taken = {}
    with at.coordinator():
        with consumer(at.hosts, group, topic, offsets_storage="kafka") as one:
            drain([one], taken, 100)
            one.commit()
        assert at.committed(group, topic) == {0: 50, 1: 50}
        produce_numbered(at.address, topic, 2, 5, 50)
        with consumer(at.hosts, group, topic, offsets_storage="kafka") as two:
            drain([two], taken, 110)
    whole(taken, 2, 55, topic)
    return ""


def decode(engine: str, at: Against) -> str:
    """All rows of each kind of log, as the producer's reports say: codecs, old message formats
    (keys and values; these have no headers, and the oldest no times), committed and aborted
    transactions.
    """
    if engine not in ENGINES:
        raise AssertionError(
            f"the engine {engine} is not there: install confluent-kafka, and a C compiler for c"
        )
    mixed, transactions = compressed(at), transactional(at)
    for log, isolation in (
        (mixed, UNCOMMITTED),
        (transactions, UNCOMMITTED),
        (transactions, COMMITTED),
    ):
        assert (
            rows_of(
                at.address,
                engine,
                [PlannedRange(log.topic, 0, 0, log.end)],
                isolation_level=isolation,
            )
            == log.rows[isolation]
        ), (log.topic, isolation)
    for log in formats(at).values():
        wanted = ("offset", "key", "value")
        whole_log, within = (
            PlannedRange(log.topic, 0, 0, log.end),
            PlannedRange(log.topic, 0, log.end // 2, log.end - 3),
        )
        assert rows_of(at.address, engine, [whole_log], wanted) == [
            {name: row[name] for name in wanted} for row in log.rows[UNCOMMITTED]
        ], log.topic
        assert [
            row["offset"] for row in rows_of(at.address, engine, [within], ("offset",))
        ] == list(range(within.start, within.end)), "a range that begins and ends within a batch"
    return (
        f"{len(mixed.rows[UNCOMMITTED])} rows, {len(transactions.rows[COMMITTED])} committed;"
        f" message formats {', '.join([*formats_of(at), '2'])}; {', '.join(at.codecs)}"
    )


def compressed(at: Against) -> Log:
    """Batches of all codecs in one log, with headers."""
    writer, log = Writer(at.address), Log(create_topic(at.address, unique("mixed"), 1), 0)
    when_ms = int(time.time() * 1000) - 3_600_000
    producers = [
        writer.producer(compression_type=codec, batch_num_messages=7) for codec in at.codecs
    ]
    for batch in range(2 * len(producers)):
        for number in range(20):
            writer.send(
                producers[batch % len(producers)],
                log,
                batch * 20 + number,
                log.rows[UNCOMMITTED].append,
                when_ms,
            )
        assert producers[batch % len(producers)].flush(PATIENCE_S) == 0
    return sorted_log(log)


def transactional(at: Against) -> Log:
    """Overlapping transactions, some aborted."""
    return Writer(at.address).transactional(create_topic(at.address, unique("transactional"), 1), 0)


def formats_of(at: Against) -> Mapping[str, str]:
    """Message formats older than today's that this release can store."""
    return OLD_FORMATS if at.version < OLD_FORMATS_UNTIL else {}


def formats(at: Against) -> Mapping[str, Log]:
    """One log of each of these; batches with and without compression, which is nested in these
    formats.
    """
    found = {}
    for name, release in formats_of(at).items():
        log = Log(
            create_topic(
                at.address, unique(f"format-{name}"), 1, {"message.format.version": release}
            ),
            0,
        )
        for codec in ("none", "gzip", "none", "snappy"):
            producer = KafkaProducer(
                bootstrap_servers=at.address,
                acks="all",
                enable_idempotence=False,
                linger_ms=20,
                compression_type=None if codec == "none" else codec,
            )
            try:
                sent = [
                    (n, producer.send(log.topic, key=b"%d" % n, value=b"%d" % n * 40, partition=0))
                    for n in range(25)
                ]
                producer.flush(timeout=PATIENCE_S)
                log.rows[UNCOMMITTED] += [
                    {
                        "offset": future.get(timeout=PATIENCE_S).offset,
                        "key": b"%d" % n,
                        "value": b"%d" % n * 40,
                    }
                    for n, future in sent
                ]
            finally:
                producer.close(timeout=PATIENCE_S)
        found[name] = sorted_log(log)
        with (at.logs / f"{log.topic}-0" / f"{0:020}.log").open("rb") as segment:
            assert segment.read(MAGIC_AT + 1)[MAGIC_AT] == int(name), (
                f"the broker did not store {log.topic} in the format {name}"
            )
    return found


def reset(at: Against) -> str:
    """`zkcoord offsets reset`: to the first record, to a time, to the end; `offsets show` has ends
    and lags.
    """
    topic, group = create_topic(at.address, unique("times"), 1), unique("group")
    base_ms = (int(time.time()) - 7_200) * 1000
    producer = KafkaProducer(bootstrap_servers=at.address, acks="all")
    try:
        for number in range(20):
            producer.send(
                topic,
                value=b"%d" % number,
                partition=0,
                timestamp_ms=base_ms + (3_600_000 if number >= 12 else 0) + number,
            ).get(timeout=PATIENCE_S)
    finally:
        producer.close(timeout=PATIENCE_S)
    between = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((base_ms + 1_800_000) / 1000))
    for how, expected in (
        (("--to-latest",), 20),
        (("--to-earliest",), 0),
        (("--to-datetime", between), 12),
    ):
        at.tool("offsets", "reset", group, "--topic", topic, *how, "--new-group", "--execute")
        assert at.stored(group, topic) == {0: expected}, (how, at.stored(group, topic))
    shown = at.tool("offsets", "show", group).splitlines()[1].split()
    assert shown[1:7] == [topic, "0", "12", "0", "20", "8"], shown
    return ""


def migrate(at: Against) -> str:
    """`zkcoord migrate`: ZooKeeper's offsets into Kafka, where a plain consumer goes on, and what
    it stored back.
    """
    topic, group = create_topic(at.address, unique("moved"), 2), unique("group")
    produce_numbered(at.address, topic, 2, 50)
    at.knows(topic)
    client = connect(at.hosts)
    try:
        for number, offset in enumerate((10, 20)):
            client.create(
                f"/consumers/{group}/offsets/{topic}/{number}", str(offset).encode(), makepath=True
            )
    finally:
        disconnect(client)
    at.tool("migrate", "apply", "1", "--only", group)
    at.tool("migrate", "apply", "2", "--only", group)
    at.tool("migrate", "verify", "2", "--only", group)
    assert at.committed(group, topic) == {0: 10, 1: 20}
    plain = group_member(
        at.address, topic, group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    try:
        found: set[tuple[int, int]] = set()
        wait_until(
            lambda: (
                found.update(
                    (r.partition, r.offset) for records in plain.poll(200).values() for r in records
                )
                or len(found) == 70
            ),
            PATIENCE_S,
            "the records from there on",
        )
        assert found == {(0, n) for n in range(10, 50)} | {(1, n) for n in range(20, 50)}
        plain.commit(
            {
                TopicPartition(topic, 0): OffsetAndMetadata(33, "", -1),
                TopicPartition(topic, 1): OffsetAndMetadata(44, "", -1),
            }
        )
        with KafkaGroups((at.address,)) as groups:
            assert groups.live_members([group])[group], "a live member is seen"
    finally:
        plain.close()
    at.tool("migrate", "rollback", "2", "--only", group)
    assert at.stored(group, topic) == {0: 33, 1: 44}
    return ""


def look(at: Against) -> str:
    """`zkcoord check --kafka` and `zkcoord groups describe` ask brokers, too."""
    topic, group = create_topic(at.address, unique("looked"), 1), unique("group")
    produce_numbered(at.address, topic, 1, 10)
    with at.coordinator(), consumer(at.hosts, group, topic) as one:
        drain([one], {}, 10)
        one.commit()
        described = at.tool("groups", "describe", group)
    assert [line.split()[1:6] for line in described.splitlines()[1:] if topic in line] == [
        [topic, "0", "10", "10", "0"]
    ], described
    answer = run(at.folder, "check", "--zookeeper", at.hosts, "--kafka", timeout_s=TOOL_TIMEOUT_S)
    assert answer.returncode in (0, FOUND) and not answer.stderr, answer
    return ""


Check = Callable[[Against], str]


def outcome(what: str, check: Callable[[], str]) -> Row:
    """One line: works or not, and why."""
    began, note, works = time.monotonic(), "", True
    try:
        note = check()
    except (
        AssertionError,
        ZkcoordError,
        KafkaError,
        KafkaException,
        OSError,
        subprocess.SubprocessError,
    ) as error:
        works, note = False, why(error)
    return verdict(what, works, time.monotonic() - began, note)


def why(error: BaseException) -> str:
    """What went wrong, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:FAILURE_CHARS_MAX]


def verdict(what: str, works: bool, seconds: float, note: str) -> Row:
    """A line of a table."""
    return Row(what, f"{seconds:.0f} s", [100.0 * works], (WORKS,), unit="% works", note=note)
