"""Which gateway serves a member of a client-led group, and what one does that has not heard of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from consumer.gateway.client_led.presences import Presences
from tests.zk.classic.served_side import GROUP, PATHS
from zkcoord.zk.port import (
    OPEN_ACL,
    Denied,
    GetData,
    Missing,
    Node,
    Read,
    ReadDone,
    ReadResult,
    Unanswered,
    ZkError,
)
from zkcoord.znodes.stat import Stat

OWN, OTHERS = 7, 8


def served_by(session_id: int) -> Node:
    """A presence that ends with this session."""
    return Node(b"", Stat(1, 1, 0, 0, session_id, 0))


@pytest.mark.parametrize(
    ("result", "leaves"),
    [
        (ReadDone((served_by(OWN),)), True),
        (ReadDone((served_by(OTHERS),)), False),
        (ReadDone((Missing(),)), True),
        (ReadDone((Denied(ZkError.NO_AUTH),)), False),
        (Unanswered(), False),
    ],
)
def test_a_member_leaves_that_no_other_gateway_serves(result: ReadResult, leaves: bool) -> None:
    """A gateway that was cut off from ZooKeeper has not heard that its client is at another one
    (simulator, change 281).
    """

    class Nodes:
        """A `Port`, as far as it is used."""

        def sync(self, done: Callable[[ReadResult], None]) -> None:
            """See `Port`."""
            done(ReadDone(()))

        def read(self, reads: Sequence[Read], done: Callable[[ReadResult], None]) -> None:
            """See `Port`."""
            assert reads == [GetData(PATHS.presence(GROUP, "m"))]
            done(result)

    presences = Presences(PATHS, OPEN_ACL, lambda group, member_id: None)
    left: list[bool] = []
    presences.unless_elsewhere(GROUP, "m", lambda: left.append(True))
    assert not left, "without ZooKeeper nobody is put out"
    presences.connected(Nodes(), OWN, True)  # type: ignore[arg-type]  # as far as it is used
    presences.unless_elsewhere(GROUP, "m", lambda: left.append(True))
    assert left == [True] * leaves
