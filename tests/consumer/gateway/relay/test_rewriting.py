"""What clients are offered: no version of what is relayed that the broker has not."""

from __future__ import annotations

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from consumer.gateway.frames import (
    API_VERSIONS,
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LIST_GROUPS,
    MAX_VERSIONS,
    TXN_OFFSET_COMMIT,
    Head,
)
from consumer.gateway.relay.rewriting import CAPS, Others, Place, rewritten

CONSUMER_GROUP_HEARTBEAT = 68


class Around:
    """A gateway."""

    def __init__(self, relays_groups: bool) -> None:
        self.relays_groups = relays_groups

    def place(self) -> Place:
        """Where they are."""
        return lambda _, address: address

    def others(self) -> Others:
        """None."""
        return ()


def offered(api: int, low: int, high: int, relays_groups: bool = False) -> tuple[int, int] | None:
    """What is made of a broker's offer."""
    of = ApiVersionsResponse.ApiVersion
    response = ApiVersionsResponse(
        error_code=0, api_keys=[of(api_key=api, min_version=low, max_version=high)]
    )
    response.API_VERSION = 0
    response.with_header(correlation_id=1)
    frame = bytes(response.encode(header=True, framed=False))
    head = Head(API_VERSIONS, 0, 1, "c")
    answer = rewritten(head, frame, Around(relays_groups))
    found = ApiVersionsResponse.decode(answer[4:], version=0, header=True).api_keys
    return (found[0].min_version, found[0].max_version) if found else None


@pytest.mark.parametrize("api", [DESCRIBE_GROUPS, LIST_GROUPS, TXN_OFFSET_COMMIT, FIND_COORDINATOR])
def test_what_may_be_a_brokers_to_answer_is_offered_in_versions_that_it_has(api: int) -> None:
    ours = MAX_VERSIONS[api]
    assert offered(api, 1, ours - 1) == (1, ours - 1)
    assert offered(api, 0, ours + 1) == (0, ours)


def test_what_is_never_a_brokers_to_answer_is_offered_as_it_is_answered_here() -> None:
    assert offered(JOIN_GROUP, 2, 3) == (0, MAX_VERSIONS[JOIN_GROUP])


@pytest.mark.parametrize("api", MAX_VERSIONS)
def test_where_some_groups_are_kafkas_own_nothing_is_offered_that_their_broker_has_not(
    api: int,
) -> None:
    """Else an old broker closes the connection of each member of such a group."""
    highest = max(0, MAX_VERSIONS[api] - 1)
    assert offered(api, 0, highest, relays_groups=True) == (0, highest)


def test_what_carries_addresses_or_goes_around_the_gateway_is_not_offered() -> None:
    assert offered(FETCH, 0, 17) == (0, CAPS[FETCH])
    assert offered(FETCH, 0, 3) == (0, 3)
    assert offered(CONSUMER_GROUP_HEARTBEAT, 0, 1) is None


def test_producers_do_not_leave_to_a_version_of_produce_what_is_not_offered() -> None:
    of = ApiVersionsResponse.FinalizedFeatureKey
    levels = {"transaction.version": 2, "group.version": 1}
    response = ApiVersionsResponse(
        error_code=0,
        api_keys=[],
        supported_features=[],
        finalized_features_epoch=5,
        finalized_features=[
            of(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
        ],
        zk_migration_ready=False,
    )
    response.API_VERSION = 3
    response.with_header(correlation_id=1)
    frame = bytes(response.encode(header=True, framed=False))
    answer = rewritten(Head(API_VERSIONS, 3, 1, "c"), frame, Around(False))
    found = ApiVersionsResponse.decode(answer[4:], version=3, header=True)
    told = {one.name: one.max_version_level for one in found.finalized_features}
    assert told == {"transaction.version": 1, "group.version": 1}
