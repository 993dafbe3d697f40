"""Which client fetches: kafka-python's, or librdkafka's where `data_client` asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consumer.fetch.client import KAFKA_PYTHON, FetchClient
from consumer.fetch.fetcher import FirstFetch


def choose_client(
    client: str, configs: Mapping[str, Any], on_first_fetch: FirstFetch | None = None
) -> FetchClient:
    """The data path over this client: "kafka-python" or "librdkafka". Raises
    `BrokersUnreachableError`, `ConsumerOptionError`.
    """
    if client == KAFKA_PYTHON:
        return FetchClient(configs, on_first_fetch)
    from consumer.fetch.librdkafka.client_path import LibrdkafkaFetchClient

    return LibrdkafkaFetchClient(configs, on_first_fetch)
