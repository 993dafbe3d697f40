"""The options of kafka-python as librdkafka's configuration.

Every option of kafka-python is in exactly one of the tables below (a test walks them). What cannot
be said to librdkafka is refused by name where it differs from the default: an option that is
silently ignored is worse than none.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

import kafka

from consumer.errors import ConsumerOptionError
from zkcoord.words import is_text

INSTALL = "pip install 'zkcoord[librdkafka]'"
NO_GROUP = "zkcoord"
QUEUE_BYTES = 16 * 1024 * 1024
FETCH_MAX_BYTES_MAX = 2_147_483_135
MESSAGE_BYTES = (1_000, 1_000_000)
QUEUE_BACKOFF_MS = 10
SOCKET_TIMEOUT_MS_MAX = 300_000

MAPPED: dict[str, str] = {
    "client_id": "client.id",
    "client_rack": "client.rack",
    "client_dns_lookup": "client.dns.lookup",
    "check_crcs": "check.crcs",
    "isolation_level": "isolation.level",
    "allow_auto_create_topics": "allow.auto.create.topics",
    "fetch_min_bytes": "fetch.min.bytes",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "fetch_max_bytes": "fetch.max.bytes",
    "max_partition_fetch_bytes": "fetch.message.max.bytes",
    "receive_message_max_bytes": "receive.message.max.bytes",
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "request_timeout_ms": "socket.timeout.ms",
    "retry_backoff_ms": "fetch.error.backoff.ms",
    "reconnect_backoff_ms": "reconnect.backoff.ms",
    "reconnect_backoff_max_ms": "reconnect.backoff.max.ms",
    "connections_max_idle_ms": "connections.max.idle.ms",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_ciphers": "ssl.cipher.suites",
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "sasl_kerberos_service_name": "sasl.kerberos.service.name",
}

# Option -> why it is refused where it is given.
REFUSED: dict[str, str] = {
    "ssl_context": (
        "librdkafka has TLS of its own, which takes ssl_cafile, ssl_certfile and ssl_keyfile"
    ),
    "socket_options": "librdkafka sets its sockets itself",
    "selector": "librdkafka waits for its sockets itself",
    "kafka_client": "librdkafka makes its connections itself",
    "proxy_url": "librdkafka knows no proxies",
    "socks5_proxy": "librdkafka knows no proxies",
    "sasl_kerberos_name": "librdkafka takes names for Kerberos from the ticket cache",
    "sasl_kerberos_domain_name": "librdkafka takes names for Kerberos from the brokers' addresses",
    "sasl_oauth_token_provider": "its tokens cannot be handed to librdkafka",
}

# Taken elsewhere: by the membership, by what turns messages into records, or by kafka-python, which
# goes on doing all that is not fetching.
ELSEWHERE = frozenset(
    {
        "api_version",
        "auto_commit_interval_ms",
        "auto_offset_reset",
        "bootstrap_servers",
        "bootstrap_timeout_ms",
        "consumer_timeout_ms",
        "default_offset_commit_callback",
        "enable_auto_commit",
        "exclude_internal_topics",
        "group_id",
        "group_instance_id",
        "heartbeat_interval_ms",
        "key_deserializer",
        "max_poll_interval_ms",
        "max_poll_records",
        "metric_group_prefix",
        "metric_reporters",
        "metrics_enabled",
        "metrics_num_samples",
        "metrics_sample_window_ms",
        "partition_assignment_strategy",
        "session_timeout_ms",
        "value_deserializer",
    }
)

# How librdkafka talks to brokers is its own affair here: these change no behaviour.
WITHOUT_EFFECT = frozenset(
    {"enable_incremental_fetch_sessions", "max_in_flight_requests_per_connection"}
)

ISOLATION = {0: "read_uncommitted", 1: "read_committed"}

_VALUES: dict[str, Callable[[Any], Any]] = {
    "fetch_max_bytes": lambda v: min(max(v, MESSAGE_BYTES[0]), FETCH_MAX_BYTES_MAX),
    "receive_message_max_bytes": lambda v: min(v, 2**31 - 1),
    "request_timeout_ms": lambda v: min(v, SOCKET_TIMEOUT_MS_MAX),
    "fetch_min_bytes": lambda v: max(v, 1),
    "ssl_check_hostname": lambda v: "https" if v else "none",
    "isolation_level": lambda v: ISOLATION.get(v, v),
}


def available() -> bool:
    """Is confluent-kafka installed?"""
    return importlib.util.find_spec("confluent_kafka") is not None


def patched_threads() -> str:
    """What has replaced threads by its own of this process, which only change where they wait in
    Python; "" for nothing.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        return "gevent"
    patcher = sys.modules.get("eventlet.patcher")
    return "eventlet" if patcher is not None and patcher.is_monkey_patched("thread") else ""


def check_mappable(config: Mapping[str, Any]) -> None:
    """Raises `ConsumerOptionError` that names an option which cannot be passed on, or the command
    that installs confluent-kafka where it is missing.
    """
    if not available():
        raise ConsumerOptionError(f"data_client='librdkafka' needs confluent-kafka: {INSTALL}")
    patched = patched_threads()
    if patched:
        raise ConsumerOptionError(
            f"data_client='librdkafka' cannot be used where {patched} has replaced threads by its"
            f" own: librdkafka waits in C, where {patched} cannot go on with others. Leave"
            " data_client out"
        )
    for name in (*MAPPED, "bootstrap_servers"):
        text = str(config[name])
        if not is_text(text):
            raise ConsumerOptionError(
                f"{name} is {text!r}, which librdkafka cannot read: write it in UTF-8"
            )
    defaults = kafka.KafkaConsumer.DEFAULT_CONFIG
    for name, why in REFUSED.items():
        if config[name] != defaults[name]:
            raise ConsumerOptionError(
                f"{name} cannot be used with data_client='librdkafka': {why}. Leave one of the"
                " two out"
            )


def librdkafka_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """librdkafka's configuration for a consumer with these options of kafka-python."""
    settings = {
        theirs: _VALUES.get(ours, _same)(config[ours])
        for ours, theirs in MAPPED.items()
        if config[ours] is not None
    }
    if config["ssl_certfile"] is not None and config["ssl_keyfile"] is None:
        # one file with both, as Python's ssl takes it
        settings["ssl.key.location"] = config["ssl_certfile"]
    fetch_bytes = settings["fetch.max.bytes"]
    return {
        **settings,
        "bootstrap.servers": _listed(config["bootstrap_servers"]),
        "group.id": config["group_id"] or NO_GROUP,
        "message.max.bytes": min(MESSAGE_BYTES[1], fetch_bytes),
        "receive.message.max.bytes": max(
            settings["receive.message.max.bytes"], min(fetch_bytes + 512, 2**31 - 1)
        ),
        "retry.backoff.ms": settings["fetch.error.backoff.ms"],
        "retry.backoff.max.ms": max(1_000, settings["fetch.error.backoff.ms"]),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        # one limit on what is queued, in bytes; once there is room again, it is fetched at once and
        # not after librdkafka's second
        "queued.min.messages": 10_000_000,
        "queued.max.messages.kbytes": max(1, min(fetch_bytes, QUEUE_BYTES) // 1024),
        "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
    }


def _same(value: Any) -> Any:
    return value


def _listed(servers: Any) -> str:
    return servers if isinstance(servers, str) else ",".join(map(str, servers))
