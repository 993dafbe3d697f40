"""What a guardian is told of a session: how to reach its ensemble, and what closes it."""

from __future__ import annotations

from zkcoord.guardian.client import Guardian, TlsOptions
from zkcoord.zk.kazoo_port.session import KazooPort
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.overlay import OverlaidPort
from zkcoord.zk.port import Port


def guardian_tls(zk: ZkOptions) -> TlsOptions | None:
    """How a guardian reaches the ensemble."""
    tls = zk.tls
    return TlsOptions(tls.ca, tls.cert, tls.key, tls.key_password) if tls else None


def guard(guardian: Guardian, port: Port | None, session_id: int) -> None:
    """Have a session closed when this process is gone; the server that it is connected to is asked
    first. A port that is no real one has no session to close.
    """
    if isinstance(port, OverlaidPort):
        port = port.port
    if isinstance(port, KazooPort):
        connected = port.connected_server
        servers = [connected] if connected else []
        servers += [server for server in port.servers if server != connected]
        guardian.watch(session_id, port.password, port.timeout_ms, servers)
