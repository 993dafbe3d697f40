"""What coordinators do not serve, or take for nothing, because of who could have written it, or
because nobody can read it: groups that they leave alone, and what is said of clients that lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from zkcoord.check.group_rules import not_read
from zkcoord.check.rules import CheckFinding
from zkcoord.core.model import Malformed
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node, ReadAnswer
from zkcoord.zk.sync.beliefs import doubts, left_alone
from zkcoord.zk.sync.client import SyncClient
from zkcoord.znodes import names
from zkcoord.znodes.classic.documents import decode_round, decode_state
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.classic.report import decode_report
from zkcoord.znodes.paths import LAYOUTS, Layout

Hide = Callable[[str, Denied], None]
"""Is told of each node that could not be read, and why."""


def led_names(reader: SyncClient, hide: Hide) -> set[str]:
    """Groups that clients lead, or have led, in either layout; `hide` hears of what is above them
    and may not be read. Raises `UnavailableError`.
    """
    found: set[str] = set()
    for layout in LAYOUTS.values():
        paths = ClassicPaths(layout)
        asked = [path for path in paths.roots() if path != paths.groups]
        answers = reader.read([*map(GetData, asked), GetChildren(paths.groups)])
        for path, answer in zip((*asked, paths.groups), answers, strict=True):
            if isinstance(answer, Denied):
                hide(path, answer)
        listed = answers[-1]
        found.update(filter(names.is_group, listed.names if isinstance(listed, Children) else ()))
    return found


def not_served(reader: SyncClient, groups: Sequence[str]) -> Iterator[CheckFinding]:
    """Of these groups what coordinators leave alone, or cannot read. Raises `UnavailableError`."""
    for layout in LAYOUTS.values():
        for group, why in left_alone(reader, layout, groups).items():
            yield CheckFinding("left-alone", group, layout.group(group), why)
        yield from _hidden(reader, layout, groups)
        yield from _led(reader, layout, groups)


def _hidden(reader: SyncClient, layout: Layout, groups: Sequence[str]) -> Iterator[CheckFinding]:
    """What nothing else here reads, and coordinators do."""
    asked = [
        (group, path)
        for group in groups
        for path in (layout.group(group), layout.channels(group), layout.requests(group))
    ]
    answers = reader.read([GetData(path) for _, path in asked])
    for (group, path), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Denied):
            yield not_read(group, path, answer)


def _led(reader: SyncClient, layout: Layout, groups: Sequence[str]) -> Iterator[CheckFinding]:
    paths = ClassicPaths(layout)
    own = {group: paths.said(group) for group in groups}
    asked = [(group, path) for group, nodes in own.items() for path in nodes]
    answers = dict(zip(asked, reader.read([GetData(path) for _, path in asked]), strict=True))
    for (group, path), answer in answers.items():
        if isinstance(answer, Denied):
            yield not_read(group, path, answer)
    led = {
        group: nodes
        for group, nodes in own.items()
        if any(isinstance(answers[group, path], Node) for path in nodes)
    }
    above = doubts(reader, layout, paths.above_groups(), {"": ()}).get("", "") if led else ""
    why = {} if above else doubts(reader, layout, paths.above_groups(), led)
    for group, nodes in led.items():
        if above or group in why:
            found = above or why[group]
            yield CheckFinding("client-led-left-alone", group, paths.state(group), found)
        else:
            for path, bad in _unreadable(group, nodes, [answers[group, path] for path in nodes]):
                yield CheckFinding("client-led-unreadable", group, path, bad.reason)


def _unreadable(
    group: str, nodes: Sequence[str], answers: Sequence[ReadAnswer]
) -> Iterator[tuple[str, Malformed]]:
    for path, answer, decode in zip(
        nodes, answers, (decode_report, decode_state, decode_round), strict=True
    ):
        found = decode(group, answer.data) if isinstance(answer, Node) else None
        if isinstance(found, Malformed):
            yield path, found


def none_served(reader: SyncClient) -> Iterator[CheckFinding]:
    """Where no coordinator serves any group that clients lead, also one that is to come. Raises
    `UnavailableError`.
    """
    for layout in LAYOUTS.values():
        paths = ClassicPaths(layout)
        (head,) = reader.read([GetData(paths.root)])
        if isinstance(head, Node):
            for why in doubts(reader, layout, paths.above_groups(), {"": ()}).values():
                yield CheckFinding("client-led-none-served", "", paths.groups, why)
