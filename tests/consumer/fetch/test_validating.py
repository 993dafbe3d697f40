"""When positions are compared with the leaders' epochs: not on every poll, and never too late."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.consumer.subscription_state import SubscriptionState
from kafka.net.compat import KafkaNetClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from consumer.fetch import fetcher as fetching
from consumer.fetch.fetcher import PartitionFetcher

TP = TopicPartition("t", 0)


@pytest.fixture
def fetcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[PartitionFetcher]:
    """A fetcher of one partition, consumed up to 5 under the leader's first epoch; nothing is
    looked at because time has passed.
    """
    monkeypatch.setattr(fetching, "VALIDATE_EVERY_S", 3_600.0)
    net = KafkaNetClient(bootstrap_servers="127.0.0.1:1", api_version=(3, 9))
    found = PartitionFetcher(net, SubscriptionState(), None)
    lead(found, 1)
    found._subscriptions.assign_from_user([TP])
    stand(found, 1)
    found.maybe_validate_positions()
    assert not awaiting(found)
    yield found
    net.close()


def lead(fetcher: PartitionFetcher, epoch: int) -> None:
    """Metadata came, with this epoch of the leader."""
    fetcher._manager.cluster._partitions = {
        "t": {0: SimpleNamespace(leader_id=0, leader_epoch=epoch)}
    }


def stand(fetcher: PartitionFetcher, epoch: int) -> None:
    """Somebody has set the position, of a record of this epoch."""
    fetcher._subscriptions.assignment[TP].seek(OffsetAndMetadata(5, "", epoch))


def awaiting(fetcher: PartitionFetcher) -> bool:
    return bool(fetcher._subscriptions.assignment[TP].awaiting_validation)


def test_another_leader_is_seen_at_once(fetcher: PartitionFetcher) -> None:
    lead(fetcher, 2)
    fetcher.maybe_validate_positions()
    assert awaiting(fetcher)


def test_a_leader_that_an_answer_names_is_seen_at_once(fetcher: PartitionFetcher) -> None:
    answer: Any = SimpleNamespace(current_leader=SimpleNamespace(leader_id=0, leader_epoch=2))
    fetcher._maybe_update_current_leader(TP, answer)
    fetcher.maybe_validate_positions()
    assert awaiting(fetcher)


@pytest.mark.parametrize("said", [False, True])
def test_a_position_that_was_set_is_looked_at_once_that_is_said(
    fetcher: PartitionFetcher, said: bool
) -> None:
    stand(fetcher, 0)
    if said:
        fetcher.validate_soon()
    fetcher.maybe_validate_positions()
    assert awaiting(fetcher) is said


def test_it_is_looked_at_from_time_to_time(fetcher: PartitionFetcher) -> None:
    stand(fetcher, 0)
    fetcher._validate_at = 0.0
    fetcher.maybe_validate_positions()
    assert awaiting(fetcher)
