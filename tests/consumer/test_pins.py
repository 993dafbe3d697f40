"""What the shim uses of kafka-python's private side. A release that moves any of it fails here first; and no module but two may use it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import kafka
import pytest
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import CompletedFetch, FetchResponseMetricAggregator, Fetcher
from kafka.consumer.group import KafkaConsumer
from kafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {"fetching.py", "data_path.py"}


@pytest.mark.parametrize(("owner", "name", "parameters"), [
    (Fetcher, "_create_fetch_requests", ["self"]),
    (Fetcher, "_fetchable_partitions", ["self"]),
    (Fetcher, "_handle_fetch_response", ["self", "node_id", "fetch_offsets", "send_time", "response"]),
    (Fetcher, "_handle_fetch_error", ["self", "node_id", "exception"]),
    (Fetcher, "_parse_fetched_data", ["self", "completed_fetch"]),
    (Fetcher, "_send_fetches_async", ["self"]),
    (Fetcher, "_send_list_offsets_request", ["self", "node_id", "timestamps_and_epochs"]),
    (Fetcher, "_fetch_offsets_by_times_async", ["self", "timestamps", "timeout_ms"]),
    (Fetcher, "fetched_records", ["self", "max_records", "update_offsets"]),
    (Fetcher, "send_fetches", ["self"]),
    (Fetcher, "reset_offsets_if_needed", ["self", "timeout_ms"]),
    (Fetcher, "validate_offsets_if_needed", ["self", "timeout_ms"]),
    (Fetcher, "maybe_validate_positions", ["self"]),
    (KafkaConnectionManager, "send", ["self", "request", "node_id", "request_timeout_ms"]),
    (KafkaConnectionManager, "call_soon", ["self", "coro", "args"]),
    (KafkaConnectionManager, "least_loaded_node", ["self"]),
    (KafkaConnectionManager, "bootstrap_async", ["self", "timeout_ms", "refresh"]),
    (NetworkSelector, "sleep", ["self", "delay"]),
    (ClusterMetadata, "leader_for_partition", ["self", "partition"]),
    (ClusterMetadata, "leader_epoch_for_partition", ["self", "partition"]),
    (ClusterMetadata, "broker_metadata", ["self", "broker_id"]),
    (ClusterMetadata, "update_metadata", ["self", "metadata"]),
    (ClusterMetadata, "_generate_bootstrap_brokers", ["self"]),
    (SubscriptionState, "assign_from_user", ["self", "partitions"]),
    (SubscriptionState, "fetchable_partitions", ["self"]),
    (SubscriptionState, "reset_missing_positions", ["self"]),
    (TopicPartitionState, "seek", ["self", "offset"]),
    (TopicPartitionState, "mark_pending_revocation", ["self", "val"]),
])
def test_a_method_that_is_used_or_overridden_has_its_shape(owner: type, name: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(owner, name)).parameters) == parameters


def test_values_that_are_made_here_have_their_fields() -> None:
    assert CompletedFetch._fields == ("topic_partition", "fetched_offset", "response_version", "partition_data", "metric_aggregator")
    assert list(inspect.signature(FetchResponseMetricAggregator).parameters) == ["sensors", "partitions"]


@pytest.mark.parametrize(("owner", "names"), [
    (Fetcher, ["_reset_task", "_validation_task", "_completed_fetches", "_next_partition_records", "_paused_completed_fetches", "_paused_partition_records", "_nodes_with_pending_fetch_requests", "_sensors", "_isolation_level",
               "_manager", "_net", "_subscriptions"]),
    (ClusterMetadata, ["_topics", "_coordinator_brokers", "_bootstrap_brokers"]),
    (SubscriptionState, ["_lock", "assignment"]),
    (KafkaConsumer, ["_client", "_manager", "_cluster", "_subscription", "_fetcher"]),
    (KafkaConnectionManager, ["closed", "cluster"]),
])
def test_an_attribute_that_is_used_is_set_by_its_class(owner: type, names: list[str]) -> None:
    source = inspect.getsource(owner)
    missing = [name for name in names if f"self.{name} = " not in source]
    assert not missing


def test_only_two_modules_use_the_private_side() -> None:
    private = {name for owner in (Fetcher, ClusterMetadata, SubscriptionState, KafkaConsumer, KafkaConnectionManager) for name in _own_private(owner)}
    offenders: list[str] = []
    for path in sorted((ROOT / "consumer").rglob("*.py")):
        if path.name in ALLOWED:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            mine = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if isinstance(node, ast.Attribute) and node.attr in private and not mine:
                offenders.append(f"{path.name}:{node.lineno} {node.attr}")
    assert not offenders


def _own_private(owner: type) -> set[str]:
    assigned = {node.attr for node in ast.walk(ast.parse(inspect.getsource(owner))) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"}
    return {name for name in assigned | set(vars(owner)) if name.startswith("_") and not name.startswith("__")}


def test_the_version_in_use_is_one_that_was_tried() -> None:
    assert kafka.__version__.split(".")[0] == "3"
