"""What is believed once the ACLs are mended, and could be somebody else's: operators' and
coordinators' words (`AclRule.word`) that others could have made or changed until then, by what they
may do with the node, or with one above. Nothing says who did, so a person has to.

Of what is above, the groups' root is the highest that counts for the words of groups: who may write
there is believed (`zkcoord.zk.acl.belief`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

from zkcoord.core.value_type import value
from zkcoord.zk.port import Denied, GetData, Node, ReadAnswer
from zkcoord.znodes.gateway_nodes import AnnouncedGateway, decode_gateway
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import LAYOUTS, Layout, parents

from .audit import CHILDREN_LISTED_MAX, AclAudit, children_of
from .client import AclClient
from .table import ANY, MATRIX

MAKING, CHANGING = frozenset("ca"), frozenset("wa")
TORN_LOOKS = 2
"""A server before 3.6 answers reads of one request one after the other: somebody can have come to
lead between two of them, and has not at the next look.
"""


class DoubtKind(enum.Enum):
    """What it does when it is believed."""

    WORD = enum.auto()
    LEADER = enum.auto()
    GATEWAY = enum.auto()
    NOTHING = enum.auto()


@value
class AclDoubt:
    """A node that others than coordinators could make. `about`: of a leader its layout, of a
    gateway where clients are sent.
    """

    path: str
    kind: DoubtKind = DoubtKind.WORD
    about: str = ""


class AclDoubts:
    """Gathers them, over several looks where ACLs are mended between: `look` before each. `found`
    is by path.
    """

    def __init__(self, client: AclClient) -> None:
        self.found: dict[str, AclDoubt] = {}
        self._client = client
        self._unlisted: set[str] = set()

    def look(self, audit: AclAudit) -> None:
        """See what stands beside what was found. Raises `UnavailableError`."""
        rights = {f.path: set("".join(may for _, may in f.more)) for f in audit.findings}
        changing = {path for path, may in rights.items() if may & CHANGING}
        # what could not be listed until now was everybody's until now, too
        making = {path for path, may in rights.items() if may & MAKING} | self._unlisted
        self._unlisted = set()
        if not making | changing:
            return
        for layout in LAYOUTS.values():
            patterns = dict.fromkeys(rule.path(layout) for rule in MATRIX if rule.word)
            for pattern in patterns:
                places = [path for path in changing if _fits(pattern.split("/"), path.split("/"))]
                places += self._below(layout, pattern, making)
                self._judge(layout, list(dict.fromkeys(places)), making, changing)

    def leave_out(self, denied: Iterable[str]) -> None:
        """What cannot be mended is not believed then either."""
        for path in denied:
            self.found.pop(path, None)

    def _below(self, layout: Layout, pattern: str, making: set[str]) -> list[str]:
        """Places of such nodes below what others may make nodes in."""
        parts, by_depth = pattern.split("/"), _by_depth(making)
        of_groups = pattern.startswith(f"{layout.epoch}/")
        first = len(layout.epoch.split("/")) if of_groups else 2
        level: list[str] = []
        for depth in range(first, len(parts)):
            found = [path for path in by_depth.get(depth, ()) if _fits(parts[:depth], path)]
            level = list(dict.fromkeys([*level, *map("/".join, found)]))
            level = (
                self._listed(level)
                if parts[depth] == ANY
                else [f"{path}/{parts[depth]}" for path in level]
            )
        return level

    def _listed(self, paths: Sequence[str]) -> list[str]:
        """What is below, as far as the audit looks there."""
        heads = self._client.nodes.read([GetData(path) for path in paths])
        for path, head in zip(paths, heads, strict=True):
            if isinstance(head, Denied):
                self._unlisted.add(path)
        counts = {
            path: head.stat.num_children
            for path, head in zip(paths, heads, strict=True)
            if isinstance(head, Node)
        }
        return children_of(
            self._client, [path for path, n in counts.items() if 0 < n <= CHILDREN_LISTED_MAX]
        )

    def _judge(
        self, layout: Layout, places: Sequence[str], making: set[str], changing: set[str]
    ) -> None:
        answers = self._client.nodes.read([GetData(path) for path in places])
        for path, answer in zip(places, answers, strict=True):
            if path in self.found or not isinstance(answer, (Node, Denied)):
                continue
            if path == layout.leader and self._is_of_epoch(layout):
                if layout.epoch in changing or making & {*parents(layout.epoch)}:
                    self.found[path] = AclDoubt(path, DoubtKind.LEADER, layout.name)
            elif path.startswith(f"{layout.gateways}/"):
                self.found[path] = _of_gateway(path, answer)
            else:
                self.found[path] = AclDoubt(path)

    def _is_of_epoch(self, layout: Layout) -> bool:
        """Whether the leader's node was made in the multi that wrote the epoch, as a coordinator's
        is.
        """
        for _ in range(TORN_LOOKS):
            reads = [GetData(layout.epoch), GetData(layout.leader)]
            epoch, leader = self._client.nodes.read(reads)
            if (
                isinstance(epoch, Node)
                and isinstance(leader, Node)
                and leader.stat.ephemeral_owner
                and leader.stat.czxid == epoch.stat.mzxid
            ):
                return True
        return False


def _of_gateway(path: str, answer: ReadAnswer) -> AclDoubt:
    if not isinstance(answer, Node):
        return AclDoubt(path)
    said = decode_gateway(path.rpartition("/")[2], answer.data)
    if not isinstance(said, AnnouncedGateway) or not answer.stat.ephemeral_owner:
        return AclDoubt(path, DoubtKind.NOTHING)
    return AclDoubt(path, DoubtKind.GATEWAY, shown(f"{said.host}:{said.port}"))


def _by_depth(paths: Iterable[str]) -> Mapping[int, list[list[str]]]:
    found: dict[int, list[list[str]]] = {}
    for path in sorted(paths):
        parts = path.split("/")
        found.setdefault(len(parts), []).append(parts)
    return found


def _fits(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    return len(pattern) == len(parts) and all(
        wanted in (ANY, part) for wanted, part in zip(pattern, parts, strict=True)
    )
