"""What Spark gives back (plans, offsets, options), what its tasks read, and a sink's manifests."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from consumer.errors import ConsumerError, ConsumerOptionError
from consumer.spark import option_values
from consumer.spark.audit.facts import PARSERS, parsing
from consumer.spark.audit.rows import report_of, report_text
from consumer.spark.plan import Plan, PlanError, PlannedRange, parse_plan, plan_of
from consumer.spark.sink import manifest
from consumer.spark.sink.running_batch import _is_plan
from tests.fuzz.harness import Harness, decoding, equal, holds, sayable, text_of
from tests.fuzz.parsers.files import CONSUMED, RECORD, TELLING
from tests.fuzz.parsers.nodes import MANY, STRANGE
from zkcoord.core.model import Malformed
from zkcoord.verdict.facts import Partition
from zkcoord.verdict.rules import PartitionReport
from zkcoord.znodes import codec

PLAN = Plan(3, "g", "z", "draft", "m", 5, 1, 1, (PlannedRange("t", 0, 1, 2, 3, 4),))
MANIFEST = manifest.Manifest(
    "7-1",
    (("t", 0, 1, 5),),
    (("_zkcoord/g/staging/7/1-0a/part-0", "7-1-part-0"),),
)


def plan(data: bytes) -> None:
    """A plan that is written as it was, as a text and as Spark's own parser has it; it is one for
    a sink exactly where it is one.
    """
    text = text_of(data)
    try:
        found = parse_plan(text)
    except PlanError as error:
        holds(bool(str(error)), error)
        return
    equal(parse_plan(found.to_json()), found)
    equal(parse_plan(found.to_dict()), found)
    holds(all(0 <= r.start <= r.end for r in found.ranges), found)
    if found != Plan():
        holds(_is_plan(text), text)
    node = codec.decode_replayed_plan("n", codec.encode_replayed_plan(found.to_replayed()))
    if isinstance(node, Malformed):
        sayable(node)
    else:
        equal(sorted(plan_of(node).ranges), sorted(found.ranges))


OPTIONS = ("startingOffsets", "minPartitions", "failOnDataLoss", "engine", "maxDelay", "commitMs")


def options(data: bytes) -> None:
    """Each reader of a value takes it, or says one sentence."""
    text = text_of(data)
    given = dict.fromkeys(OPTIONS, text)
    for read in (
        lambda: option_values.assigned(text),
        lambda: option_values.offsets(given, "startingOffsets", -1),
        lambda: option_values.count(given, "minPartitions"),
        lambda: option_values.flag(given, "failOnDataLoss", True),
        lambda: option_values.one_of(given, "engine", ("auto", "c")),
        lambda: option_values.duration(given, "maxDelay", 5),
        lambda: option_values.milliseconds(given, "commitMs", 1),
        lambda: option_values.pair(given, "engine"),
    ):
        try:
            read()
        except (ConsumerOptionError, ConsumerError) as error:
            holds(bool(str(error)), error)
    holds(all(name.strip() == name and name for name in option_values.names(text)), text)


def manifests(data: bytes) -> None:
    """What is read says only what a writer of its batch says, or why it does not."""
    decoding(lambda given: manifest.decode_manifest("m", given), manifest.encode_manifest)(data)
    found = manifest.decode_manifest("m", data)
    why = manifest.why_unfit(found, "g", "7-1", "_zkcoord/g/staging/7/1-0a")
    holds(why is None or isinstance(why, str), why)
    if why is None:
        assert isinstance(found, manifest.Manifest)
        for source, target in found.files:
            holds(source.startswith("_zkcoord/g/staging/7/1-0a/"), source)
            holds(".." not in target.split("/") and not target.startswith("/"), target)
    path = text_of(data)
    attempt = manifest.attempt_of("g", "7-1", path)
    holds(attempt is None or path == f"{attempt}/{manifest.MANIFEST}", path)


def audited(data: bytes) -> None:
    """A line is rows that Spark takes, or counted."""
    roles = sorted(PARSERS)
    role = roles[data[0] % len(roles)] if data else roles[0]
    text = data[1:].decode("utf-8", "replace")
    given = pa.RecordBatch.from_arrays(
        [pa.array([text]), pa.array(["file:///a/m.jsonl"]), pa.array([7])],
        names=["value", "file", "line"],
    )
    for batch in parsing(role, 0)(iter([given])):
        holds(batch.num_rows <= 2 + text.count("-"), batch)


def report(data: bytes) -> None:
    """What tasks of the audit tell each other: nobody else writes it, so only what is whole is
    looked at.
    """
    try:
        number = int.from_bytes(data[:4], "big")
        topic = data[4:].decode("utf-8")
        topic.encode("utf-8")
    except UnicodeDecodeError:
        return
    made = PartitionReport(Partition(topic, number))
    equal(report_of(report_text(made)).partition, made.partition)


def plans() -> Iterable[bytes]:
    yield PLAN.to_json().encode()
    yield b"{}"
    yield json.dumps({**PLAN.to_dict(), "ranges": {"a-b-3": [0, 5, -1, -1]}}).encode()
    yield from STRANGE


NAMED = (b'"v":1', b'"n":', b'"ranges":{', b'"t-0":[1,2,3,4]', b'"zookeeper":"z"', b"1e999", b"-1")
VALUES = (b'{"t":[0,1]}', b'{"t":{"0":-2}}', b"earliest", b"latest", b"true", b"30s", b"u:p", b"7")
HARNESSES = (
    Harness(
        "spark-plan",
        ("consumer.spark.plan:parse_plan", "consumer.spark.sink.running_batch:_is_plan"),
        plan,
        plans,
        (*NAMED, *MANY),
    ),
    Harness(
        "spark-options",
        ("consumer.spark.option_values:offsets", "consumer.spark.option_values:assigned"),
        options,
        lambda: VALUES,
        VALUES,
    ),
    Harness(
        "sink-manifest",
        (
            "consumer.spark.sink.manifest:decode_manifest",
            "consumer.spark.sink.manifest:attempt_of",
        ),
        manifests,
        lambda: [
            manifest.encode_manifest(MANIFEST),
            b"_zkcoord/g/staging/7/1-0a/_manifest.json",
            *STRANGE,
        ],
        (*MANY, b'"batch":', b'"ranges":', b'"files":', b"..", b"_zkcoord/g/staging/7/1-0a/"),
    ),
    Harness(
        "audit-lines",
        ("consumer.spark.audit.facts:parsing",),
        audited,
        lambda: [
            *(bytes([n]) + json.dumps(one).encode() for n in range(4) for one in CONSUMED),
            *(bytes([n]) + json.dumps(RECORD).encode() for n in range(4)),
            *(bytes([n]) + b'{"t":1,"kind":"lost","records":5}' for n in range(4)),
        ],
        (*TELLING, b"99999999999999999999", b"t-99999999999", b"}"),
    ),
    Harness(
        "audit-report",
        ("consumer.spark.audit.rows:report_of",),
        report,
        lambda: [b"\0\0\0\5t"],
        bytes_max=300,
    ),
)
