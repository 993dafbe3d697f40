"""What the shim uses of kafka-python's private side. A release that moves any of it fails here
first; and no module but six may use it.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import kafka
import pytest
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import (
    CompletedFetch,
    Fetcher,
    FetchManagerMetrics,
    FetchMetadata,
    FetchRequestData,
    FetchResponseMetricAggregator,
    FetchSessionHandler,
)
from kafka.consumer.group import KafkaConsumer
from kafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.record import util
from kafka.record.memory_records import MemoryRecords

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    "fetcher.py",
    "client.py",
    "decoder.py",
    "metadata.py",
    "quiet.py",
    "requests.py",
    "engine_kafka_python.py",
}


@pytest.mark.parametrize(
    ("owner", "name", "parameters"),
    [
        (Fetcher, "_create_fetch_requests", ["self"]),
        (Fetcher, "_select_read_replica", ["self", "tp"]),
        (
            Fetcher,
            "_handle_fetch_response",
            ["self", "node_id", "fetch_offsets", "send_time", "response"],
        ),
        (Fetcher, "_handle_fetch_error", ["self", "node_id", "exception"]),
        (Fetcher, "_parse_fetched_data", ["self", "completed_fetch"]),
        (Fetcher, "_send_fetches_async", ["self"]),
        (Fetcher, "_send_list_offsets_request", ["self", "node_id", "timestamps_and_epochs"]),
        (Fetcher, "_fetch_offsets_by_times_async", ["self", "timestamps", "timeout_ms"]),
        (
            Fetcher.PartitionRecords,
            "_deserialize",
            ["self", "deserializer", "topic", "headers", "data"],
        ),
        (Fetcher.PartitionRecords, "take", ["self", "n"]),
        (
            Fetcher.PartitionRecords,
            "_unpack_records",
            ["self", "tp", "records", "key_deserializer", "value_deserializer"],
        ),
        (Fetcher.PartitionRecords, "take", ["self", "n"]),
        (Fetcher.PartitionRecords, "drain", ["self"]),
        (FetchSessionHandler, "build_next", ["self", "next_partitions"]),
        (FetchRequestData, "__init__", ["self", "to_send", "to_forget", "metadata"]),
        (
            FetchResponseMetricAggregator,
            "record",
            ["self", "partition", "num_bytes", "num_records"],
        ),
        (KafkaNetClient, "throttle_delay", ["self", "node_id"]),
        (KafkaConnectionManager, "connection_delay", ["self", "node_id"]),
        (MemoryRecords, "next_batch", ["self", "_min_slice", "_magic_offset"]),
        (Fetcher, "send_fetches", ["self"]),
        (Fetcher, "reset_offsets_if_needed", ["self", "timeout_ms"]),
        (Fetcher, "validate_offsets_if_needed", ["self", "timeout_ms"]),
        (Fetcher, "maybe_validate_positions", ["self"]),
        (Fetcher, "_maybe_update_current_leader", ["self", "tp", "partition_data"]),
        (KafkaConnectionManager, "send", ["self", "request", "node_id", "request_timeout_ms"]),
        (KafkaConnectionManager, "run", ["self", "coro", "args"]),
        (KafkaConnectionManager, "wait_for", ["self", "future", "timeout_ms"]),
        (ClusterMetadata, "request_update", ["self"]),
        (ClusterMetadata, "refresh_metadata", ["self", "node_id"]),
        (ClusterMetadata, "_refresh_loop", ["self"]),
        (ClusterMetadata, "add_listener", ["self", "listener"]),
        (KafkaConnectionManager, "call_soon", ["self", "coro", "args"]),
        (KafkaConnectionManager, "least_loaded_node", ["self"]),
        (KafkaConnectionManager, "bootstrap_async", ["self", "timeout_ms", "refresh"]),
        (NetworkSelector, "sleep", ["self", "delay"]),
        (ClusterMetadata, "leader_for_partition", ["self", "partition"]),
        (ClusterMetadata, "leader_epoch_for_partition", ["self", "partition"]),
        (ClusterMetadata, "partitions_for_topic", ["self", "topic"]),
        (ClusterMetadata, "broker_metadata", ["self", "broker_id"]),
        (ClusterMetadata, "update_metadata", ["self", "metadata"]),
        (ClusterMetadata, "_generate_bootstrap_brokers", ["self"]),
        (SubscriptionState, "assign_from_user", ["self", "partitions"]),
        (SubscriptionState, "fetchable_partitions", ["self"]),
        (SubscriptionState, "reset_missing_positions", ["self"]),
        (TopicPartitionState, "seek", ["self", "offset"]),
        (ConsumerCoordinator, "ensure_coordinator_ready_async", ["self", "timeout_ms"]),
        (
            ConsumerCoordinator,
            "fetch_committed_offsets_async",
            ["self", "partitions", "timeout_ms"],
        ),
        (ConsumerCoordinator, "commit_offsets_async", ["self", "offsets", "callback"]),
        (ConsumerCoordinator, "coordinator_dead", ["self", "error"]),
        (TopicPartitionState, "is_fetchable", ["self"]),
        (TopicPartitionState, "mark_pending_revocation", ["self", "val"]),
    ],
)
def test_a_method_that_is_used_or_overridden_has_its_shape(
    owner: type, name: str, parameters: list[str]
) -> None:
    assert list(inspect.signature(getattr(owner, name)).parameters) == parameters


def test_values_that_are_made_here_have_their_fields() -> None:
    assert CompletedFetch._fields == (
        "topic_partition",
        "fetched_offset",
        "response_version",
        "partition_data",
        "metric_aggregator",
    )
    assert list(inspect.signature(FetchResponseMetricAggregator).parameters) == [
        "sensors",
        "partitions",
    ]
    assert list(inspect.signature(FetchSessionHandler).parameters) == ["node_id"]
    assert (
        FetchMetadata.LEGACY.epoch == FetchMetadata.FINAL_EPOCH
        and FetchMetadata.LEGACY.session_id == 0
    )


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (
            Fetcher,
            [
                "_reset_task",
                "_validation_task",
                "_completed_fetches",
                "_session_handlers",
                "_client",
                "_nodes_with_pending_fetch_requests",
                "_sensors",
                "_isolation_level",
                "_manager",
                "_net",
                "_subscriptions",
            ],
        ),
        (
            ClusterMetadata,
            [
                "_topics",
                "_coordinator_brokers",
                "_bootstrap_brokers",
                "_refresh_loop_future",
                "_partitions",
                "closed",
            ],
        ),
        (
            Fetcher.PartitionRecords,
            ["next_fetch_offset", "records_read", "leader_epoch", "fetch_offset"],
        ),
        (FetchManagerMetrics, ["records_fetch_lag"]),
        (SubscriptionState, ["_lock", "assignment"]),
        (TopicPartitionState, ["highwater", "_awaiting_validation"]),
        (
            KafkaConsumer,
            ["_client", "_manager", "_cluster", "_subscription", "_fetcher", "_coordinator"],
        ),
        (ConsumerCoordinator, ["_metadata_snapshot"]),
        (KafkaConnectionManager, ["closed", "cluster"]),
    ],
)
def test_an_attribute_that_is_used_is_set_by_its_class(owner: type, names: list[str]) -> None:
    source = inspect.getsource(owner)
    missing = [name for name in names if f"self.{name} = " not in source]
    assert not missing


def test_few_modules_use_the_private_side() -> None:
    private = {
        name
        for owner in (
            Fetcher,
            ClusterMetadata,
            SubscriptionState,
            KafkaConsumer,
            KafkaConnectionManager,
        )
        for name in _own_private(owner)
    }
    offenders: list[str] = []
    for path in sorted((ROOT / "consumer").rglob("*.py")):
        if path.name in ALLOWED:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            mine = (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("self", "cls")
            )
            if isinstance(node, ast.Attribute) and node.attr in private and not mine:
                offenders.append(f"{path.name}:{node.lineno} {node.attr}")
    assert not offenders


def _own_private(owner: type) -> set[str]:
    assigned = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(owner)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return {
        name
        for name in assigned | set(vars(owner))
        if name.startswith("_") and not name.startswith("__")
    }


def test_what_a_decoder_is_made_of_can_be_ours() -> None:
    assert "self.PartitionRecords(" in inspect.getsource(
        Fetcher._parse_fetched_data
    ) and isinstance(Fetcher._enable_incremental_fetch_sessions, property)


def test_a_position_can_be_read_without_asking() -> None:
    assert isinstance(TopicPartitionState.position, property)


def test_the_version_in_use_is_one_that_was_tried() -> None:
    assert kafka.__version__.split(".")[0] == "3"


def test_checksums_are_computed_natively() -> None:
    """A dependency of ours, not of kafka-python's: without it each record's checksum is computed in
    Python.
    """
    assert util.crc32c_c is not None
