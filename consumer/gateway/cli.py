"""`zkcoord gateway`: options, then `consumer.gateway.service`."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import sys
from dataclasses import replace
from typing import Any

from consumer.gateway.address import Address, is_host, is_ip
from consumer.gateway.operation.open_files import connections_for
from consumer.gateway.options import GatewayOptions
from consumer.gateway.relay.tls_options import check_names, demands_login, gateway_tls, notes
from consumer.gateway.wire.actions import GroupLimits, WireTimes
from zkcoord.config.kafka_security import security_options
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import (
    ClusterOptions,
    http_options,
    log_options,
    open_notes,
    zk_options,
)
from zkcoord.config.sources import Settings, add_flags, resolve
from zkcoord.errors import ConfigurationError
from zkcoord.zk.loop import take_short_turns
from zkcoord.znodes.names import PORT_MAX, is_broker, is_port, shown
from zkcoord.znodes.paths import layout_named
from zkcoord.znodes.patterns import LOOK_AROUND, NO_LOOK_AROUND

log = logging.getLogger(__name__)

RESTORE_SLACK_MS = 9_000
EPILOG = """\
examples:
  zkcoord gateway --zookeeper zk1:2181,zk2:2181/kafka --brokers kafka1:9092 \\
      --listen 0.0.0.0:9192 --advertise gw1.example
  zkcoord gateway --zookeeper zk1:2181 --brokers kafka1:9092 --coordinated-groups 'orders-.* audit'

Clients set bootstrap.servers to the address of --listen, and nothing else. Broker n is reached at
that port + 1 + n (--broker-ports says otherwise for some), whatever other brokers come and go. A
coordinator must run (zkcoord coordinator). SIGTERM ends a gateway cleanly, SIGHUP has it read the
files of TLS again.
"""


def add_parser(subparsers: Any) -> None:
    """Add `gateway`."""
    parser = subparsers.add_parser(
        "gateway",
        help="let unmodified Kafka clients be members of coordinated groups",
        description="Relay between Kafka clients and brokers, and answer for coordinated groups.",
        epilog=EPILOG,
    )
    add_flags(parser, Use.GATEWAY)


def run(args: argparse.Namespace) -> int:
    """0 after a signal, 1 after a failure. Raises `ConfigurationError`, `UnavailableError`,
    `RefusedError` where brokers are of another cluster.
    """
    from consumer.gateway.relay.door import report_names
    from consumer.gateway.service import Gateway
    from zkcoord.coordinator.cluster_check import look_at_cluster
    from zkcoord.coordinator.logging import Logs

    settings = resolve(Use.GATEWAY, vars(args), os.environ)
    options, zk = gateway_options(settings), zk_options(settings)
    security = security_options(settings.text("kafka_config"))
    fits, too_few = connections_for(options.connections_max)
    options = replace(options, demands_login=demands_login(security), connections_max=fits)
    tls = gateway_tls(settings, security)
    logs = Logs(log_options(settings))
    take_short_turns()
    sys.unraisablehook = report_names
    for note in (*notes(security), *open_notes(settings, zk), *filter(None, (too_few,))):
        log.warning("%s", note)
    try:
        named = ClusterOptions(servers=tuple(map(str, options.brokers)), security=security)
        look_at_cluster(zk, named, "--brokers")
        gateway = Gateway(options, zk, security, tls)
        status = gateway.run()
    finally:
        logs.stop()
    if not gateway.ending.complete:
        os._exit(status)  # threads that still wait for a broker would hold the process up
    return status


def gateway_options(settings: Settings) -> GatewayOptions:
    """What a gateway is. Raises `ConfigurationError`."""
    named = settings.where("brokers")
    brokers = [part for part in settings.text("brokers").split(",") if part.strip()]
    if not brokers:
        raise ConfigurationError(
            "no broker is named: write --brokers HOST:PORT[,HOST:PORT...], or set ZKCOORD_BROKERS"
        )
    low, high = (settings.number(f"group_{end}_session_timeout_ms") for end in ("min", "max"))
    if low > high:
        raise ConfigurationError(
            f"{settings.where('group_min_session_timeout_ms')} ({low}) is more than"
            f" {settings.where('group_max_session_timeout_ms')} ({high}): write the shorter one"
            " first"
        )
    listen = address(settings.text("listen"), settings.where("listen"))
    advertise = _advertised(settings)
    if not advertise and _is_any(listen.host):
        raise ConfigurationError(
            f"{settings.where('listen')} {listen} is no address that clients can be told: name one"
            " with --advertise"
        )
    check_names(settings, advertise or listen.host)
    return GatewayOptions(
        listen,
        tuple(address(part, named) for part in brokers),
        advertise,
        _ports(settings, listen.port),
        _patterns(settings, "coordinated_groups"),
        layout_named(settings.text("layout")),
        GroupLimits(low, high),
        WireTimes(
            disconnect_grace_ms=settings.number("disconnect_grace_ms"),
            member_grace_ms=settings.number("member_grace_ms"),
            # until then the sessions of a gateway that is lost are over
            restore_ms=settings.number("session_timeout_ms") + RESTORE_SLACK_MS,
        ),
        guardian=settings.switch("guardian"),
        names_gateways=settings.switch("gateways_in_metadata"),
        broker_hosts=settings.text("broker_hosts"),
        speaks_tls=settings.switch("listen_tls"),
        http=http_options(settings),
        in_kafka=_patterns(settings, "offsets_in_kafka"),
    )


def address(text: str, option: str) -> Address:
    """HOST:PORT, or [IPv6]:PORT. Raises `ConfigurationError`."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not is_port(port):
        raise ConfigurationError(
            f"{option} {shown(text)} is no address: write HOST:PORT, with a port of 1 to {PORT_MAX}"
        )
    return Address(host, int(port))


def _advertised(settings: Settings) -> str:
    """The host that clients are told, without brackets; empty: it is not given."""
    text = settings.text("advertise").strip()
    inside = text.removeprefix("[").removesuffix("]")
    host = inside if text == f"[{inside}]" and ":" in inside else text
    if host and (not is_host(host) or _is_any(host)):
        raise ConfigurationError(
            f"{settings.where('advertise')} is {shown(text)}, which is no host name and no address"
            " that clients can be told: write one alone, without a port (clients are told that of"
            " --listen)"
        )
    return host


def _is_any(host: str) -> bool:
    return is_ip(host) and ipaddress.ip_address(host).is_unspecified


def _ports(settings: Settings, begin: int) -> dict[int, int]:
    """By broker; none is that of `--listen`."""
    text, found = settings.text("broker_ports"), dict[int, int]()
    for part in text.split(",") if text else ():
        broker, equals, port = part.strip().partition("=")
        fits = equals and is_broker(broker) and is_port(port)
        if not fits or int(broker) in found or int(port) in {begin, *found.values()}:
            raise ConfigurationError(
                f"{settings.where('broker_ports')} {shown(part)} cannot be: write ID=PORT,ID=PORT,"
                " each broker and each port once, and none that is that of --listen"
            )
        found[int(broker)] = int(port)
    return found


def _patterns(settings: Settings, option: str) -> tuple[Any, ...]:
    import re2

    text = settings.text(option)
    quiet = re2.Options()
    quiet.log_errors = False
    try:
        return tuple(re2.compile(part, quiet) for part in text.split())
    except re2.error as error:
        why = error.args[0] if error.args else b""
        why = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise ConfigurationError(
            f"{settings.where(option)} {shown(text)} has a part that is no regular"
            f" expression ({NO_LOOK_AROUND if LOOK_AROUND.search(text) else shown(why)})"
        ) from error
