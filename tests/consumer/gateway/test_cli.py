"""Options of a gateway that nothing can be made of are refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.gateway.cli import gateway_options
from tests.harness.command import run
from tests.harness.zookeeper import connect, disconnect
from zkcoord.config.option_spec import Use
from zkcoord.config.sources import resolve
from zkcoord.errors import ConfigurationError
from zkcoord.stack.ports import HOST, free_port
from zkcoord.stack.servers import KafkaBroker
from zkcoord.znodes.kafka import CLUSTER_ID


def host_of(advertise: str) -> str:
    """What clients are told. Raises `ConfigurationError`."""
    flags = {"zookeeper": "z:1", "brokers": "b:1", "listen": "h:9192", "advertise": advertise}
    return gateway_options(resolve(Use.GATEWAY, flags, {})).host


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("gw1.example", "gw1.example"),
        ("GW_1", "GW_1"),
        ("7seas.example", "7seas.example"),
        ("gw1.example.", "gw1.example."),
        ("10.0.0.1", "10.0.0.1"),
        ("fe80::1", "fe80::1"),
        ("[fe80::1]", "fe80::1"),
    ],
)
def test_clients_are_told_a_host(given: str, host: str) -> None:
    assert host_of(given) == host


@pytest.mark.parametrize(
    "given",
    [
        "localhost:9392",
        "[fe80::1]:9392",
        "[gw1.example]",
        "[10.0.0.1]",
        "[fe80::1",
        "http://gw1.example",
        "gw1.example/",
        "gw1 example",
        "gw1..example",
        "-gw1.example",
        "10.0.0",
        "10.0.0.256",
        "gw1,gw2",
        "gw\u00e4",
        "0.0.0.0",
        "::",
        "a" * 64,
    ],
)
def test_what_is_no_host_is_not_told_to_clients(given: str) -> None:
    with pytest.raises(ConfigurationError, match="--advertise is .* without a port") as refused:
        host_of(given)
    assert "\n" not in str(refused.value)


def test_the_command_ends_with_2(tmp_path: Path) -> None:
    """Neither ZooKeeper nor a broker is there."""
    begin = ("gateway", "--zookeeper", "127.0.0.1:1", "--brokers", "127.0.0.1:1")
    done = run(tmp_path, *begin, "--advertise", "localhost:9392")
    assert done.returncode == 2 and "localhost:9392" in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"brokers": ","}, "no broker is named"),
        ({"brokers": " , "}, "no broker is named"),
        ({"brokers": "b:1,,b"}, "--brokers 'b' is no address"),
        ({"broker_ports": "1=9192"}, "none that is that of --listen"),
        ({"broker_ports": "1=9193,2=9193"}, "each broker and each port once"),
        ({"coordinated_groups": "a("}, r"no regular expression \('missing \): a\('\)"),
        ({"coordinated_groups": "(?!__).*"}, r"no look-ahead .* write .*\(_\?\[\^_\]\.\*\|_\)"),
        ({"offsets_in_kafka": "a("}, r"--offsets-in-kafka .* no regular expression"),
    ],
)
def test_what_cannot_be_is_refused_in_words(flags: dict[str, str], said: str) -> None:
    usual = {"zookeeper": "z:1", "brokers": "b:1", "listen": "h:9192"}
    with pytest.raises(ConfigurationError, match=said):
        gateway_options(resolve(Use.GATEWAY, {**usual, **flags}, {}))


def test_which_groups_have_their_offsets_in_kafka() -> None:
    """Those that are coordinated at all."""
    given = {"zookeeper": "z:1", "brokers": "b:1", "listen": "h:9192", "offsets_in_kafka": "a b.*"}
    options = gateway_options(resolve(Use.GATEWAY, given, {}))
    assert [options.keeps_in_kafka(group) for group in ("a", "bc", "ab")] == [True, True, False]
    given["coordinated_groups"] = "b"
    options = gateway_options(resolve(Use.GATEWAY, given, {}))
    assert [options.keeps_in_kafka(group) for group in ("a", "b", "bc")] == [False, True, False]


@pytest.mark.parametrize("option", ["coordinated_groups", "offsets_in_kafka"])
def test_the_order_of_patterns_makes_no_other_gateway(option: str) -> None:
    """Which groups are coordinated does not depend on it."""
    usual = {"zookeeper": "z:1", "brokers": "b:1", "listen": "h:9192"}
    one, same, other = (
        gateway_options(resolve(Use.GATEWAY, {**usual, option: text}, {})).shared
        for text in ("a b.*", "b.*  a b.*", "a")
    )
    assert one == same != other


@pytest.mark.kafka
def test_with_brokers_of_another_cluster_it_does_not_begin(
    kafka_broker: KafkaBroker, zk_hosts: str, tmp_path: Path
) -> None:
    """Its clients would read one cluster, and commit for the groups of another."""
    client = connect(zk_hosts)
    client.create(CLUSTER_ID, b'{"version":"1","id":"of-another"}', makepath=True)
    disconnect(client)
    told = ("--zookeeper", zk_hosts, "--brokers", kafka_broker.address)
    ended = run(tmp_path, "gateway", *told, "--listen", f"{HOST}:{free_port()}", "--no-http")
    assert ended.returncode == 1, ended
    assert f"the brokers at {kafka_broker.address} are of cluster" in ended.stderr
    assert "correct --brokers" in ended.stderr and "Traceback" not in ended.stderr
