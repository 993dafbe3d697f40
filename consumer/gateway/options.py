"""Choices of one gateway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from consumer.gateway.address import Address
from consumer.gateway.wire.actions import GroupLimits, WireTimes
from zkcoord.config.settings import HttpOptions
from zkcoord.znodes.gateway_nodes import digest_of_option
from zkcoord.znodes.paths import Layout

BROKER_PORTS_APART = 1
"""Broker n has the port `port + 1 + n`, whatever other brokers there are."""
GATEWAY_IDS = 1_000_000_000
"""Gateway n is the broker of this number and n to clients: no real one has such an id."""

BROKER_MARK = "{broker}"
ID_DIGITS_MAX = 10
BEGIN = -1
"""Instead of a broker's id: where clients begin."""


@dataclass(frozen=True)
class GatewayOptions:
    """Where it listens, what it relays to, and which groups it coordinates. `port_of`: ports of
    brokers that are not to have the usual one; `groups`: compiled by google-re2, since names of
    groups come from strangers (empty: all); `in_kafka`: of these those whose offsets Kafka keeps
    (empty: none). `names_gateways`: clients learn of other gateways.
    `broker_hosts`: the host name of each broker, with
    `BROKER_MARK` for its id, where the names of TLS handshakes say which broker is meant instead of
    ports; then `host` is the name of where clients begin. `demands_login`: the brokers' listener is
    one of SASL. `speaks_tls`: clients come by TLS.
    """

    listen: Address
    brokers: tuple[Address, ...]
    advertise: str = ""
    port_of: Mapping[int, int] = field(default_factory=dict)
    groups: tuple[Any, ...] = ()
    layout: Layout = Layout.DRAFT
    limits: GroupLimits = field(default_factory=GroupLimits)
    times: WireTimes = field(default_factory=WireTimes)
    guardian: bool = True
    names_gateways: bool = True
    frame_bytes_max: int = 100 * 1024 * 1024
    connections_max: int = 10_000
    connections_per_address_max: int = 5_000
    broker_hosts: str = ""
    demands_login: bool = False
    speaks_tls: bool = False
    http: HttpOptions | None = None
    in_kafka: tuple[Any, ...] = ()

    @property
    def host(self) -> str:
        """The host that clients are told."""
        return self.advertise or self.listen.host

    @property
    def shared(self) -> dict[str, str]:
        """Digests of what all gateways before one ZooKeeper must have in common."""
        limits, times = self.limits, self.times
        texts = {
            "coordinated_groups": " ".join(sorted({one.pattern for one in self.groups})),
            "offsets_in_kafka": self.in_kafka_text,
            "group_min_session_timeout_ms": str(limits.min_session_timeout_ms),
            "group_max_session_timeout_ms": str(limits.max_session_timeout_ms),
            "disconnect_grace_ms": str(times.disconnect_grace_ms),
            "member_grace_ms": str(times.member_grace_ms),
            "gateways_in_metadata": str(self.names_gateways),
            "listen_tls": str(self.speaks_tls),
        }
        return {name: digest_of_option(text) for name, text in texts.items()}

    @property
    def in_kafka_text(self) -> str:
        """The expressions of groups whose offsets Kafka keeps, as all gateways write them."""
        return " ".join(sorted({one.pattern for one in self.in_kafka}))

    def broker_port(self, broker_id: int) -> int:
        """Where clients of this gateway find a broker."""
        usual = self.listen.port + BROKER_PORTS_APART + broker_id
        return self.port_of.get(broker_id, usual)

    def broker_address(self, broker_id: int) -> Address:
        """What clients of this gateway are told of a broker."""
        if self.broker_hosts:
            return Address(self.broker_hosts.replace(BROKER_MARK, str(broker_id)), self.listen.port)
        return Address(self.host, self.broker_port(broker_id))

    def broker_named(self, name: str) -> int | None:
        """The broker that has a host name by `broker_hosts`; `BEGIN`: where clients begin."""
        name = name.lower().removesuffix(".")
        return BEGIN if name == self.host.lower() else id_in(name, self.broker_hosts.lower())

    def is_coordinated(self, group: str) -> bool:
        """Whether a group is served here, and not by Kafka's own coordinator."""
        return not self.groups or any(pattern.fullmatch(group) for pattern in self.groups)

    def keeps_in_kafka(self, group: str) -> bool:
        """Whether a group that is served here has its offsets in Kafka."""
        matches = any(pattern.fullmatch(group) for pattern in self.in_kafka)
        return matches and self.is_coordinated(group)


def id_in(name: str, hosts: str) -> int | None:
    """The broker's id in a host name that `hosts` (the option `broker_hosts`) describes, written as
    Python writes it; None in others. Both in small letters.
    """
    before, _, after = hosts.partition(BROKER_MARK)
    digits = name.removeprefix(before).removesuffix(after)
    is_id = digits.isascii() and digits.isdigit() and len(digits) <= ID_DIGITS_MAX
    return int(digits) if is_id and name == f"{before}{int(digits)}{after}" else None
