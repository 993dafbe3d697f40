"""Answers of brokers that name addresses or offer APIs, as clients are to read them.

Every place that names a broker's address: Metadata, DescribeCluster, FindCoordinator. Versions that
carry addresses elsewhere are not offered (Produce from 10, Fetch from 16 name new leaders), nor is
what would go around the gateway: the group protocol of KIP-848, share and streams groups, and the
telemetry of KIP-714, which some clients send to whoever offers it. Where the key or a version is
not listed here it goes through as the broker offers it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)

from consumer.gateway.address import Address
from consumer.gateway.frames import (
    API_VERSIONS,
    BAD,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    LIST_GROUPS,
    MAX_VERSIONS,
    METADATA,
    PRODUCE,
    SASL_HANDSHAKE,
    TRANSACTIONS,
    Head,
)

HIDDEN = frozenset({68, 69, 71, 72, 76, 77, 78, 79, 88, 89})
"""ConsumerGroupHeartbeat and -Describe, telemetry, share groups, streams groups."""
CAPS = {
    PRODUCE: 9,
    FETCH: 15,
    METADATA: 13,
    DESCRIBE_CLUSTER: 2,
    SASL_HANDSHAKE: 1,
    API_VERSIONS: 4,
}
FEATURE_CAPS = {"transaction.version": 1}
"""From 2 on a producer leaves it to Produce 12 to add partitions to its transaction."""
RELAYED_TOO = frozenset({*TRANSACTIONS, FIND_COORDINATOR, DESCRIBE_GROUPS, LIST_GROUPS})
"""What is answered here, and goes on to the broker as well: for groups that are Kafka's own, which
there may be from before, and for transactions.
"""
REWRITTEN = (METADATA, FIND_COORDINATOR, API_VERSIONS, DESCRIBE_CLUSTER)

Place = Callable[[int, Address], Address]
"""A broker's id and its own address -> where clients find it."""


Others = Sequence[tuple[int, Address]]
"""Ids and addresses."""


class BadAnswerError(ValueError):
    """A broker's answer that cannot be read: its client must not see it."""


class Surroundings(Protocol):
    """What answers are written for. `relays_groups`: members of some groups are the brokers' to
    serve.
    """

    relays_groups: bool

    def place(self) -> Place:
        """Where clients find brokers."""

    def others(self) -> Others:
        """Brokers to be named beside the real ones."""


def rewritten(head: Head, frame: bytes, around: Surroundings) -> bytes:
    """The answer to a request of `REWRITTEN` (without its length), framed anew. Raises
    `BadAnswerError`.
    """
    try:
        if head.key == API_VERSIONS:
            return _api_versions(head, frame, around.relays_groups)
        return _REWRITERS[head.key](head, frame, around.place(), around.others())
    except BAD as error:
        raise BadAnswerError(f"answer of API {head.key} version {head.version}: {error}") from error


def _decoded(of: Any, head: Head, frame: bytes) -> Any:
    response = of.decode(frame, version=head.version, header=True)
    response._header = None  # kafka-python keeps the decoded one, which cannot be written
    response.API_VERSION = head.version
    return response


def _framed(head: Head, response: Any) -> bytes:
    response.with_header(correlation_id=head.correlation_id)
    return bytes(response.encode(header=True, framed=True))


def _metadata(head: Head, frame: bytes, place: Place, others: Others) -> bytes:
    response = _decoded(MetadataResponse, head, frame)
    for broker in response.brokers:
        found = place(broker.node_id, Address(broker.host, broker.port))
        broker.host, broker.port = found.host, found.port
    for node_id, where in others:
        response.brokers.append(
            MetadataResponse.MetadataResponseBroker(
                node_id=node_id, host=where.host, port=where.port, rack=None
            )
        )
    return _framed(head, response)


def _cluster(head: Head, frame: bytes, place: Place, others: Others) -> bytes:
    response = _decoded(DescribeClusterResponse, head, frame)
    for broker in response.brokers:
        found = place(broker.broker_id, Address(broker.host, broker.port))
        broker.host, broker.port = found.host, found.port
    for node_id, where in others:
        response.brokers.append(
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node_id, host=where.host, port=where.port, rack=None, is_fenced=False
            )
        )
    return _framed(head, response)


def _coordinator(head: Head, frame: bytes, place: Place, others: Others) -> bytes:
    response = _decoded(FindCoordinatorResponse, head, frame)
    for one in response.coordinators if head.version >= 4 else (response,):
        if one.error_code == 0:
            found = place(one.node_id, Address(one.host, one.port))
            one.host, one.port = found.host, found.port
    return _framed(head, response)


def _api_versions(head: Head, frame: bytes, relays_groups: bool) -> bytes:
    # an answer to a version that the broker does not know is of version 0 (error 35)
    (code,) = struct.unpack_from(">h", frame, 4)
    version = 0 if code == 35 else head.version
    response = ApiVersionsResponse.decode(frame, version=version, header=True)
    response._header = None
    response.API_VERSION = version
    kept = []
    for api in response.api_keys:
        if api.api_key in HIDDEN:
            continue
        if api.api_key in (MAX_VERSIONS if relays_groups else RELAYED_TOO):
            api.max_version = min(api.max_version, MAX_VERSIONS[api.api_key])
        elif api.api_key in MAX_VERSIONS:
            api.min_version, api.max_version = 0, MAX_VERSIONS[api.api_key]
        elif api.api_key in CAPS:
            api.max_version = min(api.max_version, CAPS[api.api_key])
            if api.api_key == SASL_HANDSHAKE:
                api.min_version = min(1, api.max_version)
        if api.min_version <= api.max_version:
            kept.append(api)
    response.api_keys = kept
    for feature in response.finalized_features or ():
        most = FEATURE_CAPS.get(feature.name, feature.max_version_level)
        feature.max_version_level = min(most, feature.max_version_level)
        feature.min_version_level = min(most, feature.min_version_level)
    return _framed(head, response)


_REWRITERS: dict[int, Callable[[Head, bytes, Place, Others], bytes]] = {
    METADATA: _metadata,
    FIND_COORDINATOR: _coordinator,
    DESCRIBE_CLUSTER: _cluster,
}
