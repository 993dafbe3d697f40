"""Coordinators on a ZooKeeper that is not open to everybody: TLS with client certificates, users,
ACLs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.command import PATIENCE_S, Running, run
from tests.harness.wait import wait_until
from tests.harness.zookeeper import connect, disconnect, start_server
from zkcoord.stack.java import Java
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import ZooKeeperOptions, ZooKeeperServer
from zkcoord.znodes.paths import Layout

PEM = Path(__file__).parents[1] / "zk" / "pem"
TLS = ("--tls", "--tls-ca-file", str(PEM / "ca.pem"), "--tls-cert-file", str(PEM / "client.pem"))


@pytest.fixture(scope="module")
def secure(
    java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ZooKeeperServer, str]]:
    """A server that also serves TLS at the address returned with it, and wants a client certificate
    there.
    """
    port = free_port()
    config = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(PEM / "server.pem"),
        "ssl.trustStore.location": str(PEM / "ca.pem"),
        "ssl.clientAuth": "need",
    }
    server = start_server(
        tmp_path_factory.mktemp("secure"), java, ZooKeeperOptions(force_sync=False, config=config)
    )
    yield server, f"localhost:{port}"
    server.kill()


def test_by_tls_a_coordinator_leads_and_its_guardian_closes_its_session(
    tmp_path: Path, secure: tuple[ZooKeeperServer, str]
) -> None:
    """A session timeout of a minute: without the guardian the node would outlive this test's
    patience.
    """
    server, address = secure
    client = connect(server.address)
    try:
        with Running(
            tmp_path, "--zookeeper", address, "--session-timeout-ms", "60000", *TLS
        ) as process:
            process.ready("leading")
            assert client.exists(Layout.DRAFT.leader) is not None
            process.process.kill()
            wait_until(
                lambda: client.exists(Layout.DRAFT.leader) is None,
                PATIENCE_S,
                "the leader node to go",
            )
    finally:
        disconnect(client)
    done = run(tmp_path, "groups", "list", "--zookeeper", address, *TLS)
    assert (done.returncode, done.stdout) == (0, "") and "there is no group" in done.stderr


def test_a_certificate_that_is_not_trusted_is_one_sentence(
    tmp_path: Path, secure: tuple[ZooKeeperServer, str]
) -> None:
    done = run(
        tmp_path,
        "groups",
        "list",
        "--zookeeper",
        secure[1],
        "--tls",
        "--connect-timeout-ms",
        "4000",
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "TLS failed" in done.stderr


def test_with_a_user_and_an_acl_others_are_kept_out_and_told_so(
    tmp_path: Path, zk_hosts: str
) -> None:
    password = tmp_path / "password"
    password.write_text("s3cret\n", encoding="utf-8")
    mine = (
        "--zookeeper",
        zk_hosts,
        "--zookeeper-user",
        "coord",
        "--zookeeper-password-file",
        str(password),
    )
    with Running(tmp_path / "a", *mine, "--acl", "auth::cdrwa") as process:
        process.ready("leading")
        assert run(tmp_path, "groups", "list", *mine).returncode == 0
        stranger = run(tmp_path, "groups", "list", "--zookeeper", zk_hosts)
        assert (
            stranger.returncode == 1
            and stranger.stderr.count("\n") == 1
            and "--zookeeper-user" in stranger.stderr
        )
        wrong = run(
            tmp_path,
            "coordinator",
            "--zookeeper",
            zk_hosts,
            "--zookeeper-user",
            "coord",
            "--zookeeper-password",
            "wr0ng",
        )
        assert (
            wrong.returncode == 1
            and "credentials" in wrong.stderr
            and "Traceback" not in wrong.stderr
        )
        assert "s3cret" not in process.log and "wr0ng" not in wrong.stderr
        assert process.signal() == 0
