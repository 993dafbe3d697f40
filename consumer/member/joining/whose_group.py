"""Whose a group is that one wants to join: old consumers', members' of the other layout, or of
clients that lead it?
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from zkcoord.core.classic.state import ClassicState
from zkcoord.core.model import Member
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.port import (
    READS_PER_REQUEST_MAX,
    Acl,
    AclsDone,
    AclsResult,
    Children,
    Denied,
    GetChildren,
    GetData,
    Missing,
    Node,
    Port,
    Read,
    ReadAnswer,
    ReadDone,
    ReadResult,
)
from zkcoord.znodes import codec, names
from zkcoord.znodes.classic.documents import decode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.pin import Machine, Pin, decode_pin
from zkcoord.znodes.paths import Layout

REGISTRATIONS_LISTED_MAX = 20_000
REGISTRATIONS_SEEN_MAX = 100
TYPE_CHARS_MAX = 100


def reads_of_leader(layout: Layout, group: str) -> tuple[Read, Read]:
    """What `led_by_clients` is told: what its clients' coordinator decided, and an operator's
    word.
    """
    paths = ClassicPaths(layout)
    return GetData(paths.state(group)), GetData(paths.pin(group))


def led_by_clients(group: str, state: ReadAnswer, pin: ReadAnswer, goes_over: bool) -> str:
    """Why nobody else may join it, as a sentence; "": they do not lead it. An operator's word is
    not for a gateway's client of a group that has others (`goes_over`): it comes from another
    gateway to go over there with them.
    """
    led = decode_state(group, state.data) if isinstance(state, Node) else None
    if isinstance(led, ClassicState) and led.members:
        kind = names.printable(led.protocol_type, TYPE_CHARS_MAX)
        return (
            f"group {group} is led by one of its {len(led.members)} clients (protocol type {kind}),"
            " which assigns to those alone: stop them all first (`zkcoord groups describe"
            f" {shlex.quote(group)} --members` names them), or use another group_id"
        )
    said = decode_pin(group, pin.data) if isinstance(pin, Node) else None
    if not goes_over and isinstance(said, Pin) and said.machine is Machine.CLIENT_LED:
        return (
            f"an operator has said that clients lead group {group}, and this is no Kafka client at"
            f" a gateway: say `zkcoord groups machine {shlex.quote(group)} auto` first, or use"
            " another group_id"
        )
    return ""


def if_not_led_by_clients(
    port: Port,
    layout: Layout,
    group: str,
    roles: Roles | None,
    answers: tuple[ReadAnswer, ReadAnswer],
    goes_over: bool,
    led: Callable[[str, bool], None],
    then: Callable[[], None],
) -> None:
    """As `led_by_clients`, of what was read for `reads_of_leader`: `led` is told the sentence, and
    whether it is doubtful. With roles a pin that others than coordinators can have made is nobody's
    word. A state counts where a coordinator can have written it, though others can, too: it may be
    the coordinator's own, then clients would own what a member is given; but that is doubtful,
    since one that does not believe it writes another when its term begins. Nothing is called when
    the connection is lost.
    """
    why = led_by_clients(group, *answers, goes_over)
    if not why:
        return then()
    if roles is None:
        return led(why, False)
    paths = ClassicPaths(layout)
    above = (layout.epoch, *paths.above_pins(), paths.pin(group))
    of_state = (*paths.above_groups(), paths.group(group), paths.state(group))

    def answered(result: AclsResult) -> None:
        if not isinstance(result, AclsDone):
            return
        acls, states = result.answers[: len(above)], result.answers[len(above) :]
        belief = Belief(roles, acls[0])
        closed = not any(map(belief.closed, above, acls)) and isinstance(acls[-1], Acl)
        state, pin = answers
        said = led_by_clients(
            group,
            state if belief.writable(states[-1]) else Missing(),
            pin if closed else Missing(),
            goes_over,
        )
        if not said:
            return then()
        others = next(filter(None, map(belief.closed, of_state, states)), "")
        if not others or (closed and led_by_clients(group, Missing(), pin, goes_over)):
            return led(said, False)
        led(f"{said}. That may not be so, since others can have written it: {others}", True)

    port.acls((*above, *of_state), answered)


def in_use(group: str, chosen: str | None, members: Sequence[str]) -> str:
    """Why nobody else may have a consumer id that the user chose, which is for one process at a
    time; "": it is free.
    """
    member = next((m for m in members if chosen and names.origin_of(group, m) == chosen), None)
    if member is None:
        return ""
    return (
        f"consumer id {chosen!r} is in use in group {group} (member {member}): give each process a"
        " consumer_id of its own, or none; if that process has just died, its session must end"
        " first"
    )


def may_be_of(instance: str | None, registration: bytes) -> bool:
    """Whether a registration may be of this instance, seen without reading it: a group may have
    thousands. (No writer of JSON spells these names in another way: A-Z a-z 0-9 . _ -.)
    """
    return (instance or "").encode() in registration


def see_whose(
    port: Port,
    layout: Layout,
    group: str,
    ours: Callable[[], None],
    old_consumers: Callable[[str], None],
) -> None:
    """Nobody has assigned this group, nobody said whose it is, and somebody is registered: old
    consumers, who would leave a share of their partitions to another registration (told with a
    sentence)? Nothing is called when the connection is lost.
    """

    def listed(result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            (answer,) = result.answers
            found = answer.names if isinstance(answer, Children) else ()
            look([name for name in found if names.is_member(name)], [])

    def look(members: Sequence[str], old: list[str]) -> None:
        """One by one, since each may be a megabyte long, until one is ours. `old` are the old
        consumers so far.
        """
        if not members and old:
            return old_consumers(
                f"group {group} belongs to old consumers ({', '.join(old[:3])}), who would leave"
                " partitions to another registration: stop them, or let both share the group with"
                f" `zkcoord groups mode {shlex.quote(group)} mixed` first"
            )
        if not members:
            return ours()
        name, *rest = members

        def answered(result: ReadResult) -> None:
            if not isinstance(result, ReadDone):
                return
            (answer,) = result.answers
            found = (
                codec.decode_registration(name, answer.data, answer.stat)
                if isinstance(answer, Node)
                else None
            )
            if isinstance(found, Member) and not found.legacy:
                return ours()
            look(rest, [*old, name] if isinstance(found, Member) else old)

        port.read([GetData(layout.registration(group, name))], answered)

    port.read([GetChildren(layout.ids(group))], listed)


def if_not_used_elsewhere(
    port: Port,
    layout: Layout,
    group: str,
    ids: ReadAnswer,
    used: Callable[[str], None],
    then: Callable[[], None],
) -> None:
    """The other layout must not have members of this group (`ids`: where they would be): what is
    persistent is none. `used` is told a sentence. Nothing is called when the connection is lost.
    """
    other = layout.other_profile()
    why = (
        f"group {group} has members under {other.ids(group)} (layout {other.name}, or old"
        f" consumers): use zookeeper_layout={other.name!r}, or another group_id"
    )
    if not isinstance(ids, Node) or not ids.stat.num_children:
        return then()
    if ids.stat.num_children > REGISTRATIONS_LISTED_MAX:
        return used(why)

    def look(members: Sequence[str]) -> None:
        part, rest = members[:READS_PER_REQUEST_MAX], members[READS_PER_REQUEST_MAX:]
        if part:
            reads = [GetData(other.registration(group, name)) for name in part]
            port.read(reads, lambda result: found(result, rest))
        else:
            then()

    def found(result: ReadResult, rest: Sequence[str]) -> None:
        if not isinstance(result, ReadDone):
            return
        alive = any(
            isinstance(a, Denied) or (isinstance(a, Node) and a.stat.ephemeral_owner)
            for a in result.answers
        )
        if alive:
            used(why)
        else:
            look(rest)

    def listed(result: ReadResult) -> None:
        if isinstance(result, ReadDone):
            answer = result.answers[0]
            look(answer.names if isinstance(answer, Children) else ())

    port.read([GetChildren(other.ids(group))], listed)
