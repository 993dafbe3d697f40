"""Reading what is below /consumers, batch by batch: a batch holds some whole groups and at most
about `NODES_AT_ONCE` nodes, so memory is bounded whatever the ensemble holds.

Both homes of a group are read: /consumers/[g], where old consumers and zkcoord's layout `isolated`
have their members, and /consumers/groups/[g], where the layout `draft` has them. Each request is
one snapshot, the requests together are not: what is being rebalanced while it is read may show an
owner that has just left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zkcoord.core.model import Malformed, Mode
from zkcoord.errors import RefusedError
from zkcoord.zk.port import Children, Denied, GetChildren, GetData, Node, Read, ReadAnswer
from zkcoord.zk.sync.client import SyncClient, not_allowed
from zkcoord.zk.sync.listed_names import unusable_names
from zkcoord.zk.sync.read_modes import believed_modes
from zkcoord.znodes import names
from zkcoord.znodes.paths import CONSUMERS, Layout

GROUPS_AT_ONCE = 250
NODES_AT_ONCE = 20_000
CHILDREN_MAX = 20_000
HOMES = (Layout.ISOLATED, Layout.DRAFT)


class At(NamedTuple):
    """A node below owners or offsets: the topic, the name of its child, and what that holds."""

    topic: str
    child: str
    path: str
    node: Node


@dataclass
class GroupSeen:
    """One group. `members` by home (the layout's name) and name; `beside` is by topic the node
    above its offsets, `mode` what an operator said (layout `isolated`), `paused` where and by whom
    it is paused: path and name. `denied`: paths that could not be read, and why; `large`: paths
    with too many children; `unusable_modes`: those that say nothing, and why.
    """

    name: str
    members: dict[str, dict[str, tuple[str, Node]]] = field(default_factory=dict)
    owners: list[At] = field(default_factory=list)
    offsets: list[At] = field(default_factory=list)
    beside: dict[str, Node] = field(default_factory=dict)
    has_offsets: bool = False
    mode: Mode | None = None
    paused: tuple[str, str] | None = None
    has_home: bool = False
    denied: dict[str, Denied] = field(default_factory=dict)
    large: list[tuple[str, int]] = field(default_factory=list)
    unusable_modes: dict[str, str] = field(default_factory=dict)

    @property
    def may_hide_members(self) -> bool:
        """Whether registrations could not be read: who is not seen may be registered."""
        ids = tuple(home.ids(self.name) for home in HOMES)
        return any(
            path in ids or path.rpartition("/")[0] in ids
            for path in (*self.denied, *(path for path, _ in self.large))
        )

    @property
    def is_whole(self) -> bool:
        """Whether all of it was read."""
        return not self.denied and not self.large

    @property
    def size(self) -> int:
        """About how many nodes it holds."""
        return 1 + sum(map(len, self.members.values())) + len(self.owners) + len(self.offsets)


@dataclass
class _Parents:
    """What is known of a group's parents after the first rounds: path -> names of its children."""

    seen: GroupSeen
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def leaves(self, counts: dict[str, int]) -> int:
        """About how many nodes are to be read of it."""
        return 1 + sum(
            counts.get(f"{path}/{name}", 1)
            for path, children in self.found.items()
            for name in children
        )


@dataclass(frozen=True)
class NamesFound:
    """The groups of an ensemble, whichever layout they use, sorted. `unusable`: nodes among them
    that no group can be called by, name and path; `denied`: roots that could not be listed.
    """

    groups: tuple[str, ...]
    unusable: tuple[tuple[str, str], ...] = ()
    denied: tuple[tuple[str, Denied], ...] = ()


def names_found(reader: SyncClient) -> NamesFound:
    """Which groups there are. Raises `UnavailableError`."""
    roots = (CONSUMERS, *(layout.groups_root for layout in HOMES))
    found: set[str] = set()
    unusable: list[tuple[str, str]] = []
    denied: list[tuple[str, Denied]] = []
    for root, answer in zip(roots, reader.read([GetChildren(root) for root in roots]), strict=True):
        if isinstance(answer, Denied):
            denied.append((root, answer))
        elif isinstance(answer, Children):
            found.update(filter(names.is_group, answer.names))
            unusable += [(name, f"{root}/{name}") for name in unusable_names(answer.names, root)]
    return NamesFound(tuple(sorted(found)), tuple(sorted(unusable)), tuple(denied))


def group_names(reader: SyncClient) -> list[str]:
    """Every group of the ensemble, sorted. Raises `UnavailableError`, and `RefusedError` where some
    may be hidden.
    """
    found = names_found(reader)
    if found.denied:
        raise RefusedError(not_allowed(*found.denied[0]))
    return list(found.groups)


def read_groups(reader: SyncClient, wanted: Sequence[str]) -> Iterator[list[GroupSeen]]:
    """These groups, in batches. Raises `UnavailableError`."""
    for start in range(0, len(wanted), GROUPS_AT_ONCE):
        parents = _heads(reader, wanted[start : start + GROUPS_AT_ONCE])
        counts = _counts(reader, parents)
        batch: list[_Parents] = []
        nodes = 0
        for parent in parents:
            size = parent.leaves(counts)
            if batch and nodes + size > NODES_AT_ONCE:
                yield _whole(reader, batch, counts)
                batch, nodes = [], 0
            batch.append(parent)
            nodes += size
        if batch:
            yield _whole(reader, batch, counts)


def _heads(reader: SyncClient, wanted: Sequence[str]) -> list[_Parents]:
    """The nodes above members, owners and offsets, and their children's names."""
    parents = [_Parents(GroupSeen(name)) for name in wanted]
    for layout in HOMES:
        _modes(reader, layout, [parent.seen for parent in parents])
    asked = [(parent, path) for parent in parents for path in _above(parent.seen.name)]
    there: list[tuple[_Parents, str]] = []
    for (parent, path), answer in zip(
        asked, reader.read([GetData(path) for _, path in asked]), strict=False
    ):
        if isinstance(answer, Denied):
            parent.seen.denied[path] = answer
        if not isinstance(answer, Node):
            continue
        if path == Layout.DRAFT.offsets(parent.seen.name):
            parent.seen.has_offsets = True
        if path == f"{CONSUMERS}/{parent.seen.name}":
            parent.seen.has_home = True
        elif answer.stat.num_children > CHILDREN_MAX:
            parent.seen.large.append((path, answer.stat.num_children))
        elif answer.stat.num_children:
            there.append((parent, path))
    for (parent, path), answer in zip(
        there, reader.read([GetChildren(path) for _, path in there]), strict=False
    ):
        parent.found[path] = _names(parent.seen, path, answer)
    return parents


def _modes(reader: SyncClient, layout: Layout, groups: Sequence[GroupSeen]) -> None:
    """What operators have said of these groups, as far as coordinators believe it."""
    paths = {seen.name: layout.mode(seen.name) for seen in groups}
    answers = dict(zip(paths, reader.read([*map(GetData, paths.values())]), strict=True))
    modes = believed_modes(reader, layout, answers)
    for seen in groups:
        path, answer, found = paths[seen.name], answers[seen.name], modes.get(seen.name)
        mode = found if isinstance(found, Mode) else None
        if isinstance(found, Malformed):
            seen.unusable_modes[path] = found.reason
        if mode is not None and mode.paused:
            seen.paused = path, mode.paused_by
        if layout == Layout.ISOLATED:
            seen.mode = mode
            if isinstance(answer, Denied):
                seen.denied[path] = answer


def _above(group: str) -> list[str]:
    paths = [f"{CONSUMERS}/{group}", Layout.DRAFT.offsets(group)]
    return paths + [path for home in HOMES for path in (home.ids(group), home.owners(group))]


def _counts(reader: SyncClient, parents: Iterable[_Parents]) -> dict[str, int]:
    """How many children each topic's node below owners or offsets has; its own data is read with
    it.
    """
    asked = [
        (parent.seen, path, topic)
        for parent in parents
        for path, children in parent.found.items()
        if not path.endswith("/ids")
        for topic in children
    ]
    counts: dict[str, int] = {}
    for (seen, path, topic), answer in zip(
        asked, reader.read([GetData(f"{path}/{topic}") for _, path, topic in asked]), strict=False
    ):
        at = f"{path}/{topic}"
        if isinstance(answer, Denied):
            seen.denied[at] = answer
        elif isinstance(answer, Node):
            if answer.stat.num_children > CHILDREN_MAX:
                seen.large.append((at, answer.stat.num_children))
            else:
                counts[at] = answer.stat.num_children
            if path == Layout.DRAFT.offsets(seen.name):
                seen.beside[topic] = answer
    return counts


def _whole(reader: SyncClient, batch: list[_Parents], counts: dict[str, int]) -> list[GroupSeen]:
    """The batch's leaves."""
    topics = [
        (parent.seen, path, topic)
        for parent in batch
        for path, children in parent.found.items()
        if not path.endswith("/ids")
        for topic in children
        if counts.get(f"{path}/{topic}")
    ]
    listed = reader.read([GetChildren(f"{path}/{topic}") for _, path, topic in topics])
    leaves = [
        (seen, path, topic, child)
        for (seen, path, topic), answer in zip(topics, listed, strict=False)
        for child in _names(seen, f"{path}/{topic}", answer)
    ]
    leaves += [
        (parent.seen, path, "", child)
        for parent in batch
        for path, children in parent.found.items()
        if path.endswith("/ids")
        for child in children
    ]
    reads: list[Read] = [GetData(_leaf(path, topic, child)) for _, path, topic, child in leaves]
    for (seen, path, topic, child), answer in zip(leaves, reader.read(reads), strict=False):
        at = _leaf(path, topic, child)
        if isinstance(answer, Denied):
            seen.denied[at] = answer
        if not isinstance(answer, Node):
            continue
        home = next(
            (home.name for home in HOMES if path in (home.ids(seen.name), home.owners(seen.name))),
            "",
        )
        if not topic:
            seen.members.setdefault(home, {})[child] = (at, answer)
        elif path == Layout.DRAFT.offsets(seen.name):
            seen.offsets.append(At(topic, child, at, _small(answer)))
        else:
            seen.owners.append(At(topic, child, at, _small(answer)))
    return [parent.seen for parent in batch]


def _leaf(path: str, topic: str, child: str) -> str:
    return f"{path}/{topic}/{child}" if topic else f"{path}/{child}"


def _small(node: Node, bytes_max: int = 1_024) -> Node:
    """What is longer than any owner or offset is not kept."""
    return node if len(node.data) <= bytes_max else Node(node.data[:bytes_max], node.stat)


def _names(seen: GroupSeen, path: str, answer: ReadAnswer) -> tuple[str, ...]:
    if isinstance(answer, Denied):
        seen.denied[path] = answer
    return answer.names if isinstance(answer, Children) else ()
