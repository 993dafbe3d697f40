"""What tools are told of client-led groups, read from ZooKeeper by what blocks."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.gateway.client_led.watching import LedSeen, seen_of
from zkcoord.core.classic.requests import BlobRef, ClassicDescribed
from zkcoord.core.classic.state import ClassicPhase
from zkcoord.zk.classic.blobs import parts_of
from zkcoord.zk.port import Children, GetChildren, GetData, Node, Read
from zkcoord.zk.sync.beliefs import doubts
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.names import is_group

GROUPS_PER_READ = 50


def read_led(
    client: SyncClient, paths: ClassicPaths, groups: Sequence[str], each: bool = True
) -> dict[str, LedSeen]:
    """Those of these groups that clients lead, or have led. What cannot be read is none; nor is,
    where there are roles, what others than coordinators can have written. That is asked of the
    nodes of `each`, or only of what is above all.
    """
    found: dict[str, LedSeen] = {}
    for at in range(0, len(groups), GROUPS_PER_READ):
        part = groups[at : at + GROUPS_PER_READ]
        reads: list[Read] = []
        for group in part:
            reads += [GetData(paths.state(group)), GetData(paths.round(group))]
        answers = client.read(reads)
        for number, group in enumerate(part):
            seen = seen_of(group, *answers[2 * number : 2 * number + 2])
            if isinstance(seen, LedSeen) and seen.view.described().state != ClassicPhase.DEAD.value:
                found[group] = seen
        if client.roles is not None:
            own = {g: (paths.group(g), paths.state(g)) if each else () for g in part if g in found}
            for group in doubts(client, paths.layout, paths.above_groups(), own):
                del found[group]
    return found


def list_led(client: SyncClient, paths: ClassicPaths) -> dict[str, LedSeen]:
    """All of them."""
    client.sync()
    (answer,) = client.read([GetChildren(paths.groups)])
    names = answer.names if isinstance(answer, Children) else ()
    return read_led(client, paths, [name for name in names if is_group(name)], each=False)


def with_blobs(
    client: SyncClient, paths: ClassicPaths, group: str, said: ClassicDescribed
) -> dict[str, bytes]:
    """What clients have said and have, by digest; what is gone by now is left out."""
    held = [data for one in said.members for data in (one.metadata, one.assignment)]
    refs = dict.fromkeys(data for data in held if isinstance(data, BlobRef))
    found = {}
    for part in parts_of(refs):
        answers = client.read([GetData(paths.blob(group, ref.digest)) for ref in part])
        for ref, node in zip(part, answers, strict=True):
            if isinstance(node, Node):
                found[ref.digest] = node.data
    return found
