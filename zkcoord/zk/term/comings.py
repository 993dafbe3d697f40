"""Who came to a group and who went, for the journal: what was read is compared with what was known,
beside the core, which has no part in it and repeats nothing of it in a replay.

Of a group that is read for the first time in a term nothing is told: who is there then came before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from zkcoord.core.events import Event, GroupChanged, Record
from zkcoord.core.group.machine import Group
from zkcoord.core.model import Member

NAMED_MAX = 64
"""Members that one record names of each kind; the others are counted."""


def comings(event: Event, groups: Mapping[str, Group]) -> Iterator[Record]:
    """What a reading, which the core does not know yet, says of comings and goings: a record, or
    none.
    """
    group = groups.get(event.group) if isinstance(event, GroupChanged) else None
    if not isinstance(event, GroupChanged) or group is None:
        return
    if event.delta.full and group.metadata is None:
        return
    read, known = event.delta.members, group.view.members
    came = [m for n, m in read.items() if isinstance(m, Member) and not m.legacy and n not in known]
    left = [n for n in known if n not in read] if event.delta.full else []
    left += [n for n, m in read.items() if m is None and n in known]
    if not came and not left:
        return
    more = max(0, len(came) - NAMED_MAX) + max(0, len(left) - NAMED_MAX)
    yield Record(
        "members",
        event.group,
        {
            "joined": [_told(member) for member in islice(came, NAMED_MAX)],
            "left": left[:NAMED_MAX],
            **({"more": more} if more else {}),
        },
    )


def _told(member: Member) -> dict[str, str]:
    """Its name, where it runs, and how its membership before this one ended."""
    found = {
        "member": member.name,
        "host": member.host,
        "client": member.client,
        "instance": member.instance or "",
        "ended": member.ended,
    }
    return {key: text for key, text in found.items() if text}
