"""ACLs of nodes that exist: two requests that only `zkcoord acl` and a coordinator's look at its
start need, and a client for them.

Neither is part of a multiRead or a multi, so they are sent one by one, many at once; ZooKeeper
answers in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType

from kazoo.protocol import serialization as wire
from kazoo.security import ACL, Id

from zkcoord.zk.kazoo_port.session import KazooPort
from zkcoord.zk.kazoo_port.wire_requests import (
    WireRequest,
    absolute,
    get_acl_request,
    refused_acl,
)
from zkcoord.zk.options import ZkOptions, principal_of
from zkcoord.zk.port import Acl, AclAnswer, AclEntry, Denied, Unanswered, ZkError
from zkcoord.zk.sync.client import SyncClient

REQUESTS_AT_ONCE_MAX = 500
ANY_VERSION, NO_VERSION = -1, 2**31 - 1


def set_acl_request(
    chroot: str, path: str, entries: Sequence[AclEntry], version: int = ANY_VERSION
) -> WireRequest:
    """Answer: the `Acl` now, `Missing`, `Denied` or `Unanswered`."""
    acls = [ACL(entry.perms, Id(entry.scheme, entry.id)) for entry in entries]

    def decode(err: int, body: bytes, offset: int) -> AclAnswer | Unanswered:
        return (
            refused_acl(err)
            if err
            else Acl(tuple(entries), wire.SetACL.deserialize(body, offset).numChildren)
        )

    return WireRequest(
        wire.SetACL.type,
        bytes(wire.SetACL(absolute(chroot, path), acls, version).serialize()),
        decode,
    )


class AclClient:
    """Reads and sets ACLs, and reads nodes. A context manager. Raises `UnavailableError`, one
    sentence, when ZooKeeper does not answer: what was set until then stays.
    """

    def __init__(self, options: ZkOptions) -> None:
        self.nodes = SyncClient(options)
        self.known_as = principal_of(options.digest, options.sasl)

    def __enter__(self) -> AclClient:
        self.nodes.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.nodes.close()

    def acls(self, paths: Sequence[str]) -> list[AclAnswer]:
        """The ACLs of nodes, in order."""
        return acls_of(self.nodes, paths)

    def set_acls(self, acls: Sequence[tuple[str, Sequence[AclEntry]]]) -> list[AclAnswer]:
        """Set the ACLs of nodes; what became of each, in order."""
        return _each(
            self.nodes,
            [partial(set_acl_request, path=path, entries=entries) for path, entries in acls],
        )

    def denied(self, acls: Sequence[tuple[str, Sequence[AclEntry]]]) -> list[bool]:
        """Which of these may not be set, and nothing is: ZooKeeper looks at who asks first, and
        then refuses a version that no ACL has.
        """
        answers = _each(
            self.nodes,
            [
                partial(set_acl_request, path=path, entries=entries, version=NO_VERSION)
                for path, entries in acls
            ],
        )
        return [
            isinstance(answer, Denied) and answer.error is not ZkError.BAD_VERSION
            for answer in answers
        ]


def acls_of(client: SyncClient, paths: Sequence[str]) -> list[AclAnswer]:
    """The ACLs of nodes, in order. Raises `UnavailableError`."""
    return _each(client, [partial(get_acl_request, path=path) for path in paths])


def _each(client: SyncClient, requests: Sequence[Callable[[str], WireRequest]]) -> list[AclAnswer]:
    found: list[AclAnswer] = []
    for at in range(0, len(requests), REQUESTS_AT_ONCE_MAX):
        part = requests[at : at + REQUESTS_AT_ONCE_MAX]
        answers: list[AclAnswer | Unanswered] = client.ask_all(
            [partial(_send, request) for request in part]
        )
        told = [answer for answer in answers if not isinstance(answer, Unanswered)]
        if len(told) < len(part):
            raise client.unanswered()
        found += told
    return found


def _send(
    request: Callable[[str], WireRequest],
    port: KazooPort,
    done: Callable[[AclAnswer | Unanswered], None],
) -> None:
    port.ask(request(port.chroot), done)
