"""Where everything of groups whose leader is a client is: below the groups' root, out of sight of
those groups and of earlier releases, for no group can have the name above.

    [root]/requests/[request]           ephemeral: what a gateway asks, and then the answer
    [root]/requests/[request].[n]       ephemeral: the n-th part of a request that is longer
    [root]/pins/[group]                 an operator's word about who runs a group
    [root]/groups/[group]/state         what was decided last; its version fences commits
    [root]/groups/[group]/round         whether a rebalance has begun since
    [root]/groups/[group]/blobs/[hash]  metadata and assignments that the state names
    [root]/groups/[group]/presence/[member]  ephemeral: a gateway serves this member

Gateways make requests and presence, operators pins; all else is the coordinator's.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass

from zkcoord.core.value_type import value
from zkcoord.znodes import names
from zkcoord.znodes.paths import Layout

MEMBER_DIGITS = 32

LANE_DIGITS = 8
_REQUEST = re.compile(r"[0-9a-f]{32}")
_PRESENCE = re.compile(r"[0-9a-f]{32}")


@value
class ClassicRequestAt:
    """A request of a gateway."""

    request: str


@value
class ClassicPresenceAt:
    """A gateway serves a member, of which this is the digest."""

    group: str
    member: str


@value
class ClassicStateAt:
    """What was decided last of a group."""

    group: str


@value
class ClassicRoundAt:
    """Whether a rebalance of a group has begun."""

    group: str


@value
class ClassicPinAt:
    """An operator's word about who runs a group."""

    group: str


@value
class ClassicBlobAt:
    """Bytes that a state names."""

    group: str
    digest: str


@value
class ClassicParentAt:
    """What is above a group's blobs, or above who serves its members."""

    group: str


ClassicWhere = (
    ClassicRequestAt
    | ClassicPresenceAt
    | ClassicStateAt
    | ClassicRoundAt
    | ClassicPinAt
    | ClassicBlobAt
    | ClassicParentAt
)


def request_name(group: str, unique: str = "") -> str:
    """A new request's, about this group (`unique`: 32 hexadecimal digits; "": at random). It begins
    with the group's digits, so that groups wait for their turn each in a lane of its own
    (`lane_of`), before a request is read.
    """
    digest = hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:LANE_DIGITS] + (unique or uuid.uuid4().hex)[LANE_DIGITS:]


def lane_of(request: str) -> str:
    """What the names of all requests about a group have in common."""
    return request[:LANE_DIGITS]


def member_digest(member_id: str) -> str:
    """The name of a member's node: its id may hold what a path cannot."""
    digest = hashlib.sha256(member_id.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:MEMBER_DIGITS]


@dataclass(frozen=True)
class ClassicPaths:
    """The paths, in a layout."""

    layout: Layout

    @property
    def root(self) -> str:
        """The root of all of it."""
        return f"{self.layout.groups_root}/coordinator/classic"

    @property
    def requests(self) -> str:
        """The parent of requests."""
        return f"{self.root}/requests"

    @property
    def groups(self) -> str:
        """The parent of groups."""
        return f"{self.root}/groups"

    def roots(self) -> tuple[str, ...]:
        """What must be there, from the top down."""
        above = f"{self.layout.groups_root}/coordinator", self.root
        return (*above, self.requests, self.pins, self.groups)

    def above_pins(self) -> tuple[str, ...]:
        """Whoever may make or delete one of these can have made a pin."""
        return (f"{self.layout.groups_root}/coordinator", self.root, self.pins)

    def above_groups(self) -> tuple[str, ...]:
        """Whoever may make or delete one of these can have made what is said of a group."""
        return (f"{self.layout.groups_root}/coordinator", self.root, self.groups)

    @property
    def pins(self) -> str:
        """The parent of pins."""
        return f"{self.root}/pins"

    def pin(self, group: str) -> str:
        """An operator's word about who runs a group."""
        return f"{self.pins}/{group}"

    def request(self, name: str) -> str:
        """What a gateway asks."""
        return f"{self.requests}/{name}"

    def part(self, name: str, number: int) -> str:
        """A part of it, counted from 1."""
        return f"{self.requests}/{name}.{number}"

    def group(self, group: str) -> str:
        """The parent of what follows."""
        return f"{self.groups}/{group}"

    def parts(self, group: str) -> tuple[str, ...]:
        """The nodes that a group is made with besides its state, the highest first."""
        return (self.group(group), self.blobs(group), self.presences(group), self.round(group))

    def said(self, group: str) -> tuple[str, str, str]:
        """Whoever may write one of these says what was decided."""
        return (self.group(group), self.state(group), self.round(group))

    def proof(self, group: str) -> str:
        """Who may have a group deleted writes this, as members may not, in the transaction that
        makes the request. Nothing is said there.
        """
        return self.blobs(group)

    def state(self, group: str) -> str:
        """What was decided last."""
        return f"{self.groups}/{group}/state"

    def round(self, group: str) -> str:
        """Whether a rebalance has begun."""
        return f"{self.groups}/{group}/round"

    def blobs(self, group: str) -> str:
        """The parent of blobs."""
        return f"{self.groups}/{group}/blobs"

    def blob(self, group: str, digest: str) -> str:
        """Bytes that the state names."""
        return f"{self.groups}/{group}/blobs/{digest}"

    def presences(self, group: str) -> str:
        """The parent of presence."""
        return f"{self.groups}/{group}/presence"

    def presence(self, group: str, member_id: str) -> str:
        """That a gateway serves a member."""
        return f"{self.groups}/{group}/presence/{member_digest(member_id)}"

    def locate(self, path: str) -> ClassicWhere | None:
        """What a path is; None: nothing that is looked at when it changes."""
        if path.startswith(f"{self.requests}/"):
            name = path[len(self.requests) + 1 :]
            return ClassicRequestAt(name) if is_request(name) else None
        if path.startswith(f"{self.pins}/"):
            name = path[len(self.pins) + 1 :]
            return ClassicPinAt(name) if names.is_group(name) else None
        if not path.startswith(f"{self.groups}/"):
            return None
        group, *rest = path[len(self.groups) + 1 :].split("/")
        if not names.is_group(group):
            return None
        match rest:
            case ["state"]:
                return ClassicStateAt(group)
            case ["round"]:
                return ClassicRoundAt(group)
            case ["presence", member] if is_member_digest(member):
                return ClassicPresenceAt(group, member)
            case ["blobs" | "presence"]:
                return ClassicParentAt(group)
            case ["blobs", digest]:
                return ClassicBlobAt(group, digest)
            case _:
                return None


def is_request(name: str) -> bool:
    """Whether this is a request's name (a part's is none)."""
    return _REQUEST.fullmatch(name) is not None


def is_member_digest(name: str) -> bool:
    """Whether this is the name of a member's node."""
    return _PRESENCE.fullmatch(name) is not None
