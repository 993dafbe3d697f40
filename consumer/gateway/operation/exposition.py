"""A gateway's figures for Prometheus: names zkcoord_gateway_*, no label that a stranger could make
up. What is counted is in `figures.py` and `members_seen.py`; here it only gets names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from consumer.gateway.operation.figures import API_NAMES, BUCKETS_S, OTHER, RelayFigures
from consumer.gateway.operation.led.seen import LedServed
from consumer.gateway.operation.members_seen import MembersSeen
from zkcoord import __version__
from zkcoord.core.error_codes import WireCode

PREFIX = "zkcoord_gateway_"


@dataclass(frozen=True, slots=True)
class GatewaySeen:
    """The rest, at one moment. `neighbours`: other gateways that clients are told of; `split`:
    groups with members here and in Kafka's own coordinator; `leads`: whether a coordinator does;
    `differing`: other gateways with other options.
    """

    ready: bool
    connected: bool
    connections: int
    brokers: int
    neighbours: int
    events_queued: int
    split: int = 0
    leads: bool = False
    differing: int = 0


class _Fixed:
    """Families that are known already, as a collector."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        yield from self._families


def metrics_text(
    figures: RelayFigures,
    members: MembersSeen,
    seen: GatewaySeen,
    led: LedServed | None = None,
) -> bytes:
    """Prometheus' text format."""
    registry = CollectorRegistry()
    of_led = _led(led if led is not None else LedServed())
    families = (*_gauges(figures, members, seen), *_counters(figures, members), *of_led)
    registry.register(_Fixed(families))
    return generate_latest(registry)


def _gauges(figures: RelayFigures, members: MembersSeen, seen: GatewaySeen) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        PREFIX + "info", "The version that runs; always 1.", labels=["version"]
    )
    info.add_metric([__version__], 1)
    yield info
    for name, text, value in (
        ("ready", "1 while clients are served; /ready says why not.", seen.ready),
        ("connected", "1 while the gateway's own ZooKeeper session is.", seen.connected),
        ("coordinator_leads", "1 while a coordinator leads, as seen last.", seen.leads),
        ("connections", "Connections of clients.", seen.connections),
        ("held_bytes", "Of requests and answers kept for clients.", figures.held_bytes),
        ("brokers", "Brokers known.", seen.brokers),
        ("neighbours", "Other gateways known.", seen.neighbours),
        ("neighbours_differing", "Those of them with other options.", seen.differing),
        ("groups", "Groups with members here.", members.groups),
        ("members", "Members here, each a client.", members.members),
        ("groups_split", "Groups with members in Kafka's own coordinator, too.", seen.split),
        ("members_leaving", "Members whose client is gone, not their session.", members.leaving),
        (
            "clients_remembered",
            "Clients whose place is written down for other gateways.",
            members.remembered,
        ),
        ("events_queued", "Events that wait for the members' loop.", seen.events_queued),
    ):
        yield GaugeMetricFamily(PREFIX + name, text, value=value)
    yield _labelled(
        GaugeMetricFamily(
            PREFIX + "parked", "Requests that wait for their answer, by what for.", labels=["kind"]
        ),
        members.parked,
    )


def _led(led: LedServed) -> Iterator[Metric]:
    prefix = PREFIX + "client_led_"
    yield GaugeMetricFamily(prefix + "members", "Members of client-led groups.", value=led.members)
    for name, text, label, values in (
        ("groups", "Client-led groups with members here, by state.", "state", led.states),
        ("waiting", "Requests about them without an answer, by kind.", "kind", led.waits),
    ):
        yield _labelled(GaugeMetricFamily(prefix + name, text, labels=[label]), values)
    text = "Partitions committed that another member of a client-led group has."
    yield CounterMetricFamily(prefix + "commits_of_others", text, value=led.of_others)


def _counters(figures: RelayFigures, members: MembersSeen) -> Iterator[Metric]:
    for name, text, value in (
        ("connections_accepted", "Connections of clients that came.", figures.accepted),
        ("connections_turned_away", "Those of them above a limit.", figures.turned_away),
        ("clients_taken_over", "Clients that came from other gateways.", members.taken_over),
        ("broker_connections", "Connections made to brokers.", figures.broker_connections),
        (
            "broker_connection_failures",
            "Clients whose broker could not be reached.",
            figures.broker_failures,
        ),
        ("tls_failures", "Clients with whom TLS could not be begun.", figures.tls_failures),
    ):
        yield CounterMetricFamily(PREFIX + name, text, value=value)
    for name, text, label, values in (
        ("bytes", "Bytes relayed or answered.", "way", _ways(figures)),
        ("requests", "Requests answered here, by API.", "api", _apis(figures)),
        (
            "answers",
            "Answers given here, by each of Kafka's errors in them; NONE: without any.",
            "code",
            _codes(figures),
        ),
        ("permission_questions", "Asked of brokers for clients.", "right", figures.questions),
    ):
        yield _labelled(CounterMetricFamily(PREFIX + name, text, labels=[label]), values)
    took = HistogramMetricFamily(
        PREFIX + "answer_seconds",
        "From a request to its answer, whatever it waited for.",
        labels=["api"],
    )
    for key, durations in figures.took.items():
        bounds = [*map(str, BUCKETS_S), "+Inf"]
        counts = accumulate(tuple(durations.counts))
        took.add_metric([API_NAMES[key]], list(zip(bounds, counts, strict=True)), durations.sum_s)
    yield took


def _labelled(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, int]) -> Metric:
    for label, value in values.items():
        family.add_metric([label], value)
    return family


def _ways(figures: RelayFigures) -> dict[str, int]:
    return {
        "from_clients": figures.from_clients,
        "to_clients": figures.to_clients,
        "from_brokers": figures.from_brokers,
        "to_brokers": figures.to_brokers,
    }


def _apis(figures: RelayFigures) -> dict[str, int]:
    return {API_NAMES[key]: count for key, count in figures.requests.items()}


def _codes(figures: RelayFigures) -> dict[str, int]:
    return {
        "OTHER" if code == OTHER else WireCode(code).name: count
        for code, count in figures.codes.items()
    }
