"""Who is about to be in a group that a client is to lead: its JoinGroup waits at the coordinator,
and so it is in no state yet and not registered either.
"""

from __future__ import annotations

from zkcoord.core.classic.requests import ClassicJoin
from zkcoord.zk.port import Children, GetChildren, GetData, Node, ReadAnswer
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes.classic.documents import ClassicAsk, decode_ask
from zkcoord.znodes.classic.paths import ClassicPaths, is_request
from zkcoord.znodes.paths import Layout

REQUESTS_READ_MAX = 1_000


def open_joins(reader: SyncClient, layout: Layout, group: str) -> int:
    """How many JoinGroups of a group are not answered, as far as that can be seen: of many requests
    some are looked at, and those that stand in parts not. Raises `UnavailableError`.
    """
    paths = ClassicPaths(layout)
    (listed,) = reader.read([GetChildren(paths.requests)])
    names = [n for n in listed.names if is_request(n)] if isinstance(listed, Children) else []
    names = names[:REQUESTS_READ_MAX]
    answers = reader.read([GetData(paths.request(name)) for name in names])
    return sum(_joins(group, *one) for one in zip(names, answers, strict=True))


def _joins(group: str, name: str, answer: ReadAnswer) -> bool:
    if not isinstance(answer, Node) or answer.stat.version:  # then it is answered
        return False
    ask = decode_ask(name, answer.data)
    return isinstance(ask, ClassicAsk) and (ask.group, type(ask.request)) == (group, ClassicJoin)
