"""Having the coordinator step down: its leader node is deleted, so that it resigns and another
leads.

The leader node is version 0 each time it is made, so its version proves nothing. The epoch node's
does: whoever wins raises it in the transaction that makes the leader node. So the deletion checks
the epoch's version that was read together with the leader node.
"""

from __future__ import annotations

from collections.abc import Callable

from zkcoord.admin.common import Progress, write_refused
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.errors import RefusedError
from zkcoord.zk.port import Check, Committed, Delete, GetData, Node, Rejected
from zkcoord.zk.sync.client import SyncClient
from zkcoord.zk.term.election import leads
from zkcoord.znodes.codec import LeaderData, decode_leader
from zkcoord.znodes.paths import Layout

TRIES_MAX = 5


@value
class Leadership:
    """Who leads: the leader node, the transaction that made it, and the version of the epoch node
    beside it.
    """

    leader: LeaderData | Malformed
    made: int
    fence: int


@value
class SteppedDown:
    """Who led, who leads, and how long nobody did or could be seen to, in ms."""

    old: Leadership
    new: Leadership
    took_ms: int


def seat_now(client: SyncClient, layout: Layout) -> Leadership | None:
    """Who leads, after a sync; None: nobody. Raises `RefusedError` where the other layout's
    coordinator leads.
    """
    other = layout.other_profile()
    client.sync()
    leader, epoch = client.see([GetData(layout.leader), GetData(layout.epoch)])
    if isinstance(leader, Node) and leader.stat.ephemeral_owner and isinstance(epoch, Node):
        return Leadership(decode_leader(leader.data), leader.stat.czxid, epoch.stat.version)
    (foreign,) = client.see([GetData(other.leader)])
    if leads(foreign):
        raise RefusedError(
            f"the coordinator of this ensemble leads with the layout {other.name}: add --layout"
            f" {other.name}"
        )
    return None


def step_down(
    client: SyncClient,
    layout: Layout,
    clock: Callable[[], int],
    timeout_ms: int,
    pause: Callable[[], object],
    progress: Progress,
) -> SteppedDown:
    """Do it, and wait for the next one. Raises `RefusedError`."""
    old = seat_now(client, layout)
    if old is None:
        raise RefusedError(_nobody_leads(client, layout))
    began_ms = clock()
    _unseat(client, layout, old)
    progress.note(f"{name_of(old)} was asked to step down")
    while True:
        new = seat_now(client, layout)
        took_ms = clock() - began_ms
        if new is not None and new.made != old.made:
            return SteppedDown(old, new, took_ms)
        if took_ms >= timeout_ms:
            raise RefusedError(
                f"{name_of(old)} stepped down, but nobody leads after {took_ms} ms: start a"
                " coordinator, or look at the logs of those that stand by"
            )
        progress.say("waiting for the next coordinator")
        pause()


def _nobody_leads(client: SyncClient, layout: Layout) -> str:
    """Why, as far as the seat tells, and what to do."""
    (there,) = client.see([GetData(layout.leader)])
    if not isinstance(there, Node):
        return f"nobody leads ({layout.leader} is not there): start a coordinator"
    if there.stat.num_children:
        return (
            f"nobody can lead, since {layout.leader} is a persistent node with children, which no"
            " coordinator made: delete it with all that is below it"
        )
    return (
        f"nobody leads, and {layout.leader} is a node that no coordinator made: start a"
        " coordinator, which replaces it"
    )


def _unseat(client: SyncClient, layout: Layout, old: Leadership) -> None:
    """Delete this very leader node."""
    for _ in range(TRIES_MAX):
        result = client.multi([Check(layout.epoch, old.fence), Delete(layout.leader)])
        if isinstance(result, Committed):
            return
        now = seat_now(client, layout)
        if now is None or now.made != old.made:
            if isinstance(result, Rejected):
                raise RefusedError(
                    f"{name_of(old)} does not lead any"
                    f" more{f', {name_of(now)} does' if now is not None else ''}: repeat the"
                    " command if that one must step down as well"
                )
            return  # the answer was lost, and it happened
        if isinstance(result, Rejected):
            raise RefusedError(write_refused(client, Delete(layout.leader), result.error))
    raise RefusedError(
        "ZooKeeper did not answer again and again: look at its servers, then try again"
    )


def name_of(seat: Leadership) -> str:
    """host:port (epoch n)."""
    leader = seat.leader
    return (
        f"{leader.host}:{leader.port} (epoch {leader.epoch})"
        if isinstance(leader, LeaderData)
        else f"a coordinator whose node cannot be read ({leader.reason})"
    )


def is_same(a: Leadership, b: Leadership) -> bool:
    """Whether the same process leads again, as far as its address tells."""
    return (
        isinstance(a.leader, LeaderData)
        and isinstance(b.leader, LeaderData)
        and (a.leader.host, a.leader.port) == (b.leader.host, b.leader.port)
        and a.leader.port > 0
    )
