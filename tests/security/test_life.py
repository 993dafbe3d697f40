"""The rights are enough: a coordinator and members, each with its own credentials, live through
everything that they do, and what they leave behind is as the table says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer.core import messages as msg
from tests.harness.zookeeper import fresh_chroot, start_server
from tests.protocol.rig import GROUP, Rig, rigged
from tests.security.principals import PASSWORDS, ROLES, digest, hashed
from zkcoord.errors import UnavailableError
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import ZooKeeperOptions, ZooKeeperServer
from zkcoord.zk.acl.audit import audit
from zkcoord.zk.acl.client import AclClient
from zkcoord.zk.acl.table import Principal, Roles
from zkcoord.zk.options import Sasl, Tls, ZkOptions
from zkcoord.znodes.paths import Layout

PEM = Path(__file__).parents[1] / "zk" / "pem"
NODES_MIN = 15
GRACE_MS = 1_000  # what it owns goes to others after this, and the test waits for that


def live(rig: Rig, roles: Roles, coordinator: dict[str, Any], member: dict[str, Any]) -> None:
    """Join, move, commit, an operator's reset and request, a topic more, an eviction, a takeover, a
    leave. Then nothing stands beside the table, and nothing was refused.
    """
    rig.credentials = {
        "Coordinator": {**coordinator, "roles": roles},
        "Member": {**member, "roles": roles},
    }
    orders, more = rig.topic("orders", 2), rig.topic("more", 1)
    first = rig.coordinator("c1")
    a = rig.member("a", "orders").fetches(*orders)
    a.positions[orders[0]] = 7
    assert a.commit({orders[0]: 7}).outcome is msg.CommitOutcome.OK
    b = rig.member("b", "orders", instance="i", grace_ms=GRACE_MS).joined()
    a.wait(lambda: len(a.fetching()) == len(b.fetching()) == 1, "one partition each")
    a.subscribe("orders", "more").wait(lambda: more[0] in a.fetching(), "the other topic")
    rig.zk.set(rig.layout.offset(GROUP, more[0]), b"5")
    rig.zk.set(rig.layout.channel(GROUP, a.member), b"look")
    a.wait(lambda: a.positions.get(more[0]) == 5, "the operator's reset")
    second = rig.coordinator("c2", lead=False)
    first.stop()
    second.wait(lambda: second.leads, "the lead")
    old = b.member
    rig.zk.delete(rig.layout.registration(GROUP, old))
    b.wait(
        lambda: (
            b.member != old
            and len(b.notices(msg.NoticeKind.REGISTERED)) == 2
            and len(b.fetching()) == 1
        ),
        "its return",
    )
    b.leave()
    a.fetches(*orders, *more)
    with AclClient(ZkOptions(rig.hosts, digest=digest("coord"))) as client:
        found = audit(client, roles, 10_000)
    assert found.findings == () and found.looked_at >= NODES_MIN and not found.left_off
    refused = [
        sent for proc in rig.procs for sent in proc.spy.sent if "NO_AUTH" in repr(sent.result)
    ]
    assert refused == []


def opened(rig: Rig) -> Rig:
    """The rig's own client becomes an operator."""
    rig.zk.add_auth("digest", f"coord:{PASSWORDS['coord']}")
    return rig


@pytest.mark.parametrize(
    "layout",
    [Layout.DRAFT, pytest.param(Layout.ISOLATED, marks=pytest.mark.nightly)],
    ids=lambda layout: layout.name,
)
def test_with_users_and_passwords(zk_hosts: str, layout: Layout) -> None:
    with rigged(zk_hosts, layout) as rig:
        live(opened(rig), ROLES, {"digest": digest("coord")}, {"digest": digest("app")})


@pytest.fixture(scope="module")
def guarded(
    java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ZooKeeperServer, str]]:
    """A server that knows the SASL users app and coord, and whose TLS port (at the address returned
    with it) wants a certificate, which makes its owner a principal.
    """
    home = tmp_path_factory.mktemp("guarded")
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    (home / "jaas.conf").write_text(
        f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required {users}; }};\n",
        encoding="utf-8",
    )
    port = free_port()
    config = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(PEM / "server.pem"),
        "ssl.trustStore.location": str(PEM / "ca.pem"),
        "ssl.clientAuth": "need",
    }
    properties = {
        "java.security.auth.login.config": str(home / "jaas.conf"),
        "zookeeper.authProvider.sasl": (
            "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        ),
    }
    server = start_server(
        home / "server",
        java,
        ZooKeeperOptions(force_sync=False, config=config, properties=properties),
    )
    yield server, f"localhost:{port}"
    server.kill()


def test_with_sasl(guarded: tuple[ZooKeeperServer, str]) -> None:
    """The operator is a digest user beside the SASL user, as after a move from one to the other."""
    roles = Roles(
        (Principal("sasl", "coord"), Principal("digest", hashed("coord"))),
        (Principal("sasl", "app"),),
        (Principal("sasl", "viewer"),),
    )
    with rigged(fresh_chroot(guarded[0].address)) as rig:
        live(
            opened(rig),
            roles,
            {"sasl": Sasl("DIGEST-MD5", "coord", PASSWORDS["coord"])},
            {"sasl": Sasl("DIGEST-MD5", "app", PASSWORDS["app"])},
        )


@pytest.mark.nightly
def test_with_certificates_beside_sasl(guarded: tuple[ZooKeeperServer, str]) -> None:
    """The certificate's subject is the coordinator's name; members come by SASL on the other
    port.
    """
    roles = Roles(
        (Principal("x509", "CN=client"), Principal("digest", hashed("coord"))),
        (Principal("sasl", "app"),),
        (),
    )
    plain = fresh_chroot(guarded[0].address)
    by_tls = guarded[1] + plain[len(guarded[0].address) :]
    with rigged(plain) as rig:
        live(
            opened(rig),
            roles,
            {"tls": Tls(str(PEM / "ca.pem"), str(PEM / "client.pem")), "hosts": by_tls},
            {"sasl": Sasl("DIGEST-MD5", "app", PASSWORDS["app"])},
        )


def test_a_wrong_sasl_password_is_one_sentence(guarded: tuple[ZooKeeperServer, str]) -> None:
    with (
        pytest.raises(UnavailableError, match="credentials|SASL") as caught,
        AclClient(ZkOptions(guarded[0].address, sasl=Sasl("DIGEST-MD5", "coord", "wr0ng"))),
    ):
        pass
    assert "wr0ng" not in str(caught.value) and "\n" not in str(caught.value)
