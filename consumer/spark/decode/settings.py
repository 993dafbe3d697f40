"""The settings of a reader: librdkafka's names, with the values that make ranges fast, and the same
for kafka-python where it has them.

What a user gives wins, but for what the reading itself depends on (`FIXED`). Checksums are verified
and transactions are not looked at unless asked, as Spark's own Kafka source does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from consumer.errors import ConsumerOptionError
from consumer.option_types import read_option

DEFAULTS: Mapping[str, str] = {
    "client.id": "zkcoord-spark",
    "isolation.level": "read_uncommitted",
    "check.crcs": "true",
    # A range is open only while it is read: a fetch that waits for more than there is would only
    # delay the next range, and a second's rest of a full queue (the default) the same one.
    "fetch.wait.max.ms": "5",
    "fetch.queue.backoff.ms": "2",
    "fetch.error.backoff.ms": "50",
    "fetch.message.max.bytes": "1048576",
    "fetch.max.bytes": "52428800",
    # One limit on what is queued: bytes, and two partitions at most are open at a time. What is
    # fetched beyond the end of a range is thrown away, and is no more than this and one fetch;
    # smaller fetches would be too many for large records.
    "queued.min.messages": "10000000",
    "queued.max.messages.kbytes": "2048",
    "topic.metadata.refresh.interval.ms": "60000",
    "reconnect.backoff.max.ms": "1000",
}
FIXED: Mapping[str, str] = {
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
}
GROUP = "zkcoord-spark"
BOOTSTRAP_MS = 10_000


def librdkafka_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Everything that librdkafka is told. Raises `ConsumerOptionError` where no broker is named."""
    merged = {**DEFAULTS, **{name: str(value) for name, value in given.items()}, **FIXED}
    if not (merged.get("bootstrap.servers") or merged.get("metadata.broker.list")):
        raise ConsumerOptionError("no broker is named: set kafka.bootstrap.servers")
    merged.pop("group.id", None)
    return merged


def _same(value: str) -> str:
    return value


# librdkafka's name -> (kafka-python's, what its text is there: read by `consumer.option_types`)
KAFKA_PYTHON: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "bootstrap.servers": ("bootstrap_servers", lambda value: value.split(",")),
    "metadata.broker.list": ("bootstrap_servers", lambda value: value.split(",")),
    "client.id": ("client_id", _same),
    "client.rack": ("client_rack", _same),
    "isolation.level": ("isolation_level", _same),
    "check.crcs": ("check_crcs", _same),
    "fetch.min.bytes": ("fetch_min_bytes", _same),
    "fetch.wait.max.ms": ("fetch_max_wait_ms", _same),
    "fetch.max.bytes": ("fetch_max_bytes", _same),
    "fetch.message.max.bytes": ("max_partition_fetch_bytes", _same),
    "max.partition.fetch.bytes": ("max_partition_fetch_bytes", _same),
    "receive.message.max.bytes": ("receive_message_max_bytes", _same),
    "socket.receive.buffer.bytes": ("receive_buffer_bytes", _same),
    "socket.send.buffer.bytes": ("send_buffer_bytes", _same),
    "socket.timeout.ms": ("request_timeout_ms", _same),
    "fetch.error.backoff.ms": ("retry_backoff_ms", _same),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", _same),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", _same),
    "connections.max.idle.ms": ("connections_max_idle_ms", _same),
    "topic.metadata.refresh.interval.ms": ("metadata_max_age_ms", _same),
    "security.protocol": ("security_protocol", str.upper),
    "ssl.ca.location": ("ssl_cafile", _same),
    "ssl.certificate.location": ("ssl_certfile", _same),
    "ssl.key.location": ("ssl_keyfile", _same),
    "ssl.key.password": ("ssl_password", _same),
    "ssl.crl.location": ("ssl_crlfile", _same),
    "ssl.cipher.suites": ("ssl_ciphers", _same),
    "ssl.endpoint.identification.algorithm": (
        "ssl_check_hostname",
        lambda value: value.lower() == "https",
    ),
    "sasl.mechanism": ("sasl_mechanism", _same),
    "sasl.mechanisms": ("sasl_mechanism", _same),
    "sasl.username": ("sasl_plain_username", _same),
    "sasl.password": ("sasl_plain_password", _same),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", _same),
}
LIBRDKAFKA_ALONE = frozenset(
    {
        "fetch.queue.backoff.ms",
        "queued.min.messages",
        "queued.max.messages.kbytes",
        "group.id",
        *FIXED,
    }
)


def kafka_python_settings(given: Mapping[str, str]) -> dict[str, Any]:
    """The same for kafka-python's consumer. Raises `ConsumerOptionError` for what it cannot be
    told.
    """
    found: dict[str, Any] = {}
    for name, value in librdkafka_settings(given).items():
        if name in LIBRDKAFKA_ALONE:
            continue
        if name not in KAFKA_PYTHON:
            raise ConsumerOptionError(
                f"kafka.{name} cannot be used with the engine kafka-python: leave it out, or pip"
                " install confluent-kafka"
            )
        theirs, said = KAFKA_PYTHON[name]
        found[theirs] = read_option(theirs, said(value), f"kafka.{name}")
    return {
        **found,
        "group_id": None,
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
        "bootstrap_timeout_ms": BOOTSTRAP_MS,
    }
