"""Who is to run a group: its leader, a client, or the coordinator; or whoever comes first (auto).
Members that are clients of gateways go over to the other kind while they run; others have to stop.
"""

from __future__ import annotations

from collections.abc import Sequence

from zkcoord.admin.common import (
    argument,
    changed_again_and_again,
    children,
    is_written,
    refuse_doubted_word,
    some,
)
from zkcoord.admin.offsets.reset import make_missing
from zkcoord.core.model import GroupMode, Malformed
from zkcoord.errors import RefusedError
from zkcoord.zk.acl.inherited import AclOf
from zkcoord.zk.port import (
    Children,
    Create,
    Delete,
    Denied,
    GetChildren,
    GetData,
    Node,
    Op,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.zk.sync.group_snapshot import GroupSnapshot
from zkcoord.zk.sync.led_groups import pin_of
from zkcoord.zk.sync.led_seen import LedMemberSnapshot
from zkcoord.zk.sync.read_pins import DOUBTED
from zkcoord.znodes.classic.consumer_blobs import known_assignors
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import AUTO, PINS_MAX, Machine, Pin, encode_pin
from zkcoord.znodes.gateway_nodes import RememberedClient, decode_client
from zkcoord.znodes.names import is_topic, shown
from zkcoord.znodes.paths import Layout, parents

TRIES_MAX = 3
MOVE = "stop its members and begin all gateways without that option for it"
CLIENTS_MAX = 1_000


def set_machine(
    client: SyncClient, layout: Layout, group: str, pin: Pin | None, acl: AclOf
) -> None:
    """Say it (None: auto). Raises `RefusedError`, also where it would count for nothing."""
    paths = ClassicPaths(layout)
    path = paths.pin(group)
    if pin is not None:
        refuse_doubted_word(client, layout, paths.above_pins(), path)
        make_missing(client, dict.fromkeys(parents(path), b""), acl)
    for _ in range(TRIES_MAX):
        client.sync()
        node, above_all = client.see([GetData(path), GetData(paths.pins)])
        there = above_all.stat.num_children if isinstance(above_all, Node) else 0
        if pin is not None and not isinstance(node, Node) and there >= PINS_MAX:
            raise RefusedError(
                f"there are {there} such words below {paths.pins}, and coordinators and gateways"
                f" take {PINS_MAX}: take back those of groups that are gone (auto)"
            )
        op = _change(path, node if isinstance(node, Node) else None, pin, acl)
        if op is None:
            return
        result = client.multi([op])
        if isinstance(result, Rejected) and result.error is ZkError.NOT_EMPTY:
            raise RefusedError(_stays(client, path))
        if is_written(client, op, result):
            return
    raise changed_again_and_again(path)


def _stays(client: SyncClient, path: str) -> str:
    """That a word cannot be taken back: whoever made what is below it may need that."""
    (answer,) = client.see([GetChildren(path)])
    below = sorted(children(answer, path))
    return (
        f"what was said still holds: {path} has nodes below it ({some(map(shown, below))}), which"
        " are nothing of zkcoord's, so it cannot be deleted; look whose they are, delete them"
        " (zkCli.sh: deleteall), then say it again"
    )


def unreadable_pin(client: SyncClient, layout: Layout, group: str) -> str:
    """Why what was said counts for nothing; "" where it counts, or nothing was said."""
    path = ClassicPaths(layout).pin(group)
    (node,) = client.read([GetData(path)])
    if isinstance(node, Denied):
        return not_allowed(path, node)
    found = pin_of(client, layout, group)
    if not isinstance(found, Malformed):
        return ""
    if found.what == DOUBTED:
        return f"{path} is not believed ({found.reason})"
    return f"{path} cannot be read ({found.reason}), and says nothing: say it again"


def _change(path: str, node: Node | None, pin: Pin | None, acl: AclOf) -> Op | None:
    if pin is None:
        return None if node is None else Delete(path, node.stat.version)
    data = encode_pin(pin)
    if node is None:
        return Create(path, data, acl=acl(path))
    return None if node.data == data else SetData(path, data, node.stat.version)


def in_kafka(group: str, gateway: str) -> str:
    """Why a group cannot be the coordinator's that has its offsets in Kafka."""
    return (
        f"the offsets of the group {group} are in Kafka (--offsets-in-kafka of the gateway at"
        f" {gateway}), and only a client leads such a group"
    )


def machine_refusal(group: GroupSnapshot, machine: Machine | None) -> str:
    """What stands against it; "" where nothing does."""
    if machine is Machine.CLIENT_LED and group.paused:
        return (
            f"the group {group.group} is paused (by {group.paused}), and a leader among clients"
            " would hand out all of it: zkcoord groups resume"
            f" {argument(group.group)} --execute first"
        )
    mode = group.mode.kind if group.mode is not None else GroupMode.COORDINATED
    if machine is Machine.CLIENT_LED and mode is not GroupMode.COORDINATED:
        return (
            f"the group {group.group} is shared with old consumers (mode {mode.value}), which no"
            " leader among clients can assign to: zkcoord groups mode first"
        )
    staying = sorted(name for name, one in group.members.items() if not one.gateway)
    if machine is Machine.CLIENT_LED and staying:
        return (
            f"the group {group.group} has members that are no clients of a gateway"
            f" ({some(staying)}), to which no leader among clients can assign: stop those first"
        )
    return ""


def machine_waits(group: GroupSnapshot, machine: Machine | None) -> str:
    """Who has still to go over, or to stop, before it is so, or why it will not be; "": nobody."""
    if machine is Machine.COORDINATED and group.in_kafka_at:
        return (
            f"{in_kafka(group.group, group.in_kafka_at)}. It stays what it is, and once its members"
            " have stopped nobody may join it: take the word back (zkcoord groups machine"
            f" {argument(group.group)} {AUTO}), or {MOVE}"
        )
    led = group.led.members if group.led is not None else ()
    if machine is Machine.CLIENT_LED and group.members:
        names, kind = sorted(group.members), "that the coordinator assigns"
    elif machine is Machine.COORDINATED and led:
        names, kind = sorted(one.member_id for one in led), "of a leader of its own"
    else:
        return ""
    staying = [one.member_id for one in led if not _known(group, one)]
    if staying:
        return (
            f"the group has members that list no assignor that the coordinator knows"
            f" ({some(sorted(staying))}), and stays what it is until they have stopped"
        )
    if led and not frozenset.intersection(*(_known(group, one) for one in led)):
        return (
            f"the group has members that have no assignor in common that the coordinator knows"
            f" ({some(names)}), and stays what it is until they have"
        )
    return (
        f"the group has members {kind} ({some(names)}), which go over when they join again, within"
        " their heartbeat interval; nobody is given anything before all of them have, or are out"
        " by their session timeout"
    )


def _known(group: GroupSnapshot, member: LedMemberSnapshot) -> frozenset[str]:
    """The assignors with which the coordinator can assign to it."""
    kind = group.led.protocol_type if group.led is not None else ""
    return known_assignors(kind, member.protocols)


def lists_of_clients(client: SyncClient, layout: Layout, group: str) -> list[tuple[str, ...]]:
    """The assignors that each client of a coordinated group lists, where that is known."""
    (listed,) = client.read([GetChildren(layout.clients(group))])
    names = [n for n in listed.names if is_topic(n)] if isinstance(listed, Children) else []
    answers = client.read([GetData(layout.client(group, name)) for name in names[:CLIENTS_MAX]])
    nodes = zip(names, answers, strict=False)
    found = [decode_client(name, node.data) for name, node in nodes if isinstance(node, Node)]
    return [one.lists for one in found if isinstance(one, RememberedClient) and one.lists]


def no_leader_for(lists: Sequence[tuple[str, ...]]) -> str:
    """Why no client could lead clients that list these; "": one could."""
    if not lists or set.intersection(*map(set, lists)):
        return ""
    named = sorted({"+".join(one) for one in lists})
    return (
        f"the clients of the group list no assignor of the same name ({some(named)}), so none of"
        " them could lead the others: have all of them list one first"
    )
