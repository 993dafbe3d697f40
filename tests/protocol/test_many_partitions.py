"""A member with more partitions than one multi holds: commits, losses, changes of mind and ends are
split, and none of them gets stuck.
"""

from __future__ import annotations

from consumer.core import messages as msg
from tests.protocol.rig import GROUP, Rig
from tests.protocol.test_left_alone import fill
from zkcoord.core.model import Command, Option
from zkcoord.zk.port import MULTI_BYTES_MAX, OPS_PER_MULTI_MAX, encoded_bytes
from zkcoord.znodes import codec

COUNT = OPS_PER_MULTI_MAX + 100


def test_commits_and_lost_offsets_of_very_many_partitions(rig: Rig) -> None:
    """All are committed; then an operator deletes the stored offsets of the whole group under it:
    each partition is given up, started anew and fetched from what auto_offset_reset says.
    """
    partitions = rig.topic("t", COUNT)
    rig.coordinator()
    m = rig.member("m", "t").fetches(*partitions)
    assert m.commit(dict.fromkeys(partitions, 9)).outcome is msg.CommitOutcome.OK
    assert all(
        rig.offset(tp)[0] == 9 for tp in (partitions[0], partitions[COUNT // 2], partitions[-1])
    )  # type: ignore[index]
    rig.zk.delete(rig.layout.offsets(GROUP), recursive=True)
    m.resolves_to = 4
    m.commit(dict.fromkeys(partitions, 10))
    m.wait(
        lambda: len({tp for lost in m.said(msg.Lost) for tp in lost.partitions}) == COUNT,
        "the loss of all",
    )
    m.fetches(*partitions)
    assert rig.offset(partitions[-1])[0] == 4 and len(m.sessions) == 1  # type: ignore[index]
    m.leave(dict.fromkeys(partitions, 11))
    sent = [s.ops for s in m.spy.multis()]
    assert (
        max(map(len, sent)) <= OPS_PER_MULTI_MAX
        and max(sum(map(encoded_bytes, ops)) for ops in sent) <= MULTI_BYTES_MAX
    )


def test_a_changed_subscription_over_a_crowded_channel(rig: Rig) -> None:
    """Somebody filled its channel with commands that could be its own: it changes its mind all the
    same.
    """
    (t0, *_), (u0,) = rig.topic("t", 1), rig.topic("u", 1)
    rig.reign()
    m = rig.member("m", "t").joined()
    m.stall()
    future = Command(m.member, rig.incarnation(m.member), Option.STOP, 5, 99, 1, {}, (t0,))
    junk = fill(
        rig.client(), rig.layout.channel(GROUP, m.member), COUNT, codec.encode_command(future)
    )
    m.subscribe("u")
    m.go()
    m.wait(
        lambda: b'"u"' in (rig.node(rig.layout.registration(GROUP, m.member)) or (b"",))[0],
        "its new subscription",
    )
    rig.command(m.member, 200, start=(u0,))
    m.fetches(u0)
    assert junk and len(m.sessions) == 1
