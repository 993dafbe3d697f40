"""The fast engine: the extension over the librdkafka that confluent-kafka brings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from consumer.errors import ConsumerOptionError
from consumer.spark.decode.arrays import KIND, ROWS_MAX, TIMESTAMP, Chunk, binary, fixed, headers
from consumer.spark.decode.errors import TROUBLE, EngineUnavailableError, ReadError, read_error
from consumer.spark.decode.settings import librdkafka_settings
from consumer.spark.plan import PlannedRange
from consumer.spark.schema import HEADERS

BATCH_BYTES = 8 * 1024 * 1024


def load() -> tuple[Any, str]:
    """The extension, ready, and librdkafka's version. Raises `EngineUnavailableError`."""
    try:
        cimpl = importlib.import_module("confluent_kafka.cimpl")
    except ImportError:
        raise EngineUnavailableError(
            "the engine c needs confluent-kafka: pip install 'zkcoord[spark]'"
        ) from None
    try:
        extension = importlib.import_module("._rdk", __package__)
        return extension, extension.load(cimpl.__file__)
    except ImportError as e:
        raise EngineUnavailableError(
            f"the engine c is not built for this Python ({e}): install zkcoord's wheel for this"
            " platform, or its source where there is a C compiler and Python's headers"
        ) from None


class CHandle:
    """One librdkafka handle. Not for two threads at a time."""

    ahead = 1

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._extension, _ = load()
        told = librdkafka_settings(settings)
        self.brokers = told.get("bootstrap.servers") or told["metadata.broker.list"]
        try:
            self._client = self._extension.Client(told)
        except ValueError as e:
            raise ConsumerOptionError(f"librdkafka refuses a kafka. option: {e}") from None

    def open(self, wanted: PlannedRange, start: int, columns: Sequence[str]) -> CChannel:
        """Fetch from `start` on."""
        try:
            return CChannel(
                self._extension,
                self._client.open(wanted.topic, wanted.partition, start, wanted.end),
                wanted,
                start,
                columns,
            )
        except self._extension.KafkaError as e:
            raise read_error(e.args[0], e.args[2], f"{wanted.topic}-{wanted.partition}") from None

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """The first offset that is there and the one after the last that can be read."""
        try:
            found: tuple[int, int] = self._client.bounds(topic, partition, int(timeout_s * 1000))
        except self._extension.KafkaError as e:
            raise read_error(e.args[0], e.args[2], f"{topic}-{partition}") from None
        return found

    def trouble(self) -> ReadError | None:
        """What happened to the handle since the last call, where no waiting cures it."""
        found = [
            read_error(code, text, self.brokers)
            for code, _, text in self._client.errors()
            if code in TROUBLE
        ]
        return found[0] if found else None

    def close(self) -> None:
        """RuntimeError while channels are open."""
        self._client.close()


class CChannel:
    """One partition that is being fetched."""

    def __init__(
        self, extension: Any, part: Any, wanted: PlannedRange, start: int, columns: Sequence[str]
    ) -> None:
        self._extension = extension
        self._part = part
        self._wanted = wanted
        self._columns = columns
        self._want = sum(
            flag
            for name, flag in (
                ("key", extension.WANT_KEY),
                ("value", extension.WANT_VALUE),
                (HEADERS, extension.WANT_HEADERS),
            )
            if name in columns
        )
        self.position = start

    def take(self, timeout_s: float) -> Chunk | None:
        """What is there, or comes within the time; None when nothing did."""
        try:
            found = self._part.read(ROWS_MAX, BATCH_BYTES, int(timeout_s * 1000), self._want)
        except self._extension.KafkaError as e:
            raise read_error(
                e.args[0], e.args[2], f"{self._wanted.topic}-{self._wanted.partition}"
            ) from None
        if found is None:
            return None
        rows, self.position, ended, key, value, offset, time, kind, of_headers = found
        columns: dict[str, pa.Array] = {
            "offset": fixed(pa.int64(), rows, offset),
            "timestamp": fixed(TIMESTAMP, rows, time),
            "timestampType": fixed(KIND, rows, kind),
        }
        if key is not None:
            columns["key"] = binary(pa.binary(), rows, key)
        if value is not None:
            columns["value"] = binary(pa.binary(), rows, value)
        if of_headers is not None:
            columns[HEADERS] = headers(rows, *of_headers)
        return Chunk(rows, columns, self.position, ended)

    def close(self) -> None:
        """Stop fetching."""
        self._part.close()
