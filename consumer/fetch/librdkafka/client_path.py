"""The data path with librdkafka underneath: everything but the fetching is kafka-python's, and the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.structs import TopicPartition

from consumer.fetch.client import FetchClient
from consumer.fetch.fetcher import FirstFetch
from consumer.fetch.librdkafka.fetcher import LibrdkafkaFetcher
from consumer.librdkafka_settings import librdkafka_settings


class LibrdkafkaFetchClient(FetchClient):
    """`fetcher` brings records by way of librdkafka. Raises `ConsumerOptionError` for what it
    cannot be told.
    """

    fetcher: LibrdkafkaFetcher

    def __init__(
        self, configs: Mapping[str, Any], on_first_fetch: FirstFetch | None = None
    ) -> None:
        self._settings = librdkafka_settings(configs)
        super().__init__(configs, on_first_fetch)

    def _new_fetcher(
        self,
        client: Any,
        subscriptions: Any,
        on_first_fetch: FirstFetch | None,
        configs: Mapping[str, Any],
    ) -> LibrdkafkaFetcher:
        return LibrdkafkaFetcher(client, subscriptions, on_first_fetch, self._settings, **configs)

    def highwater(self, tp: TopicPartition) -> int | None:
        """Offset of the next record that will be written, as of the last fetch. Raises
        `IllegalStateError` for a partition that is not assigned.
        """
        with self.lock:
            if tp in self.subscription.assignment:
                self.fetcher.highwater(tp)
        return super().highwater(tp)

    def rebootstrap(self, servers: list[str]) -> bool:
        """As kafka-python's side, and librdkafka with it."""
        others = super().rebootstrap(servers)
        if others:
            self.fetcher.replace(servers)
        return others

    def close(self) -> None:
        """Close connections and threads."""
        self.fetcher.shut()
        super().close()
