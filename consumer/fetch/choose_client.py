"""Which client fetches: kafka-python's, or librdkafka's where `data_client` asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from consumer.fetch.client import KAFKA_PYTHON, FetchClient
from consumer.fetch.fetcher import FirstFetch
from consumer.librdkafka_settings import librdkafka_settings
from consumer.options import MAX_BUFFERED_BYTES


def choose_client(
    client: str,
    configs: Mapping[str, Any],
    on_first_fetch: FirstFetch | None = None,
    max_buffered_bytes: int = MAX_BUFFERED_BYTES,
) -> FetchClient:
    """The data path over this client: "kafka-python" or "librdkafka". Raises
    `BrokersUnreachableError`, `ConsumerOptionError`.
    """
    if client == KAFKA_PYTHON:
        return FetchClient(configs, on_first_fetch, max_buffered_bytes)
    settings = librdkafka_settings(configs)
    from consumer.fetch.librdkafka.fetcher import LibrdkafkaFetcher

    return FetchClient(
        configs,
        on_first_fetch,
        max_buffered_bytes,
        partial(LibrdkafkaFetcher, settings=settings),
    )
