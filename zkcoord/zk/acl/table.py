"""Who may do what with which node: one table, and the ACL of a node by its path.

There are three kinds of principals (`Roles`). *Coordinators*, and operators with their tools, may
do everything with zkcoord's nodes. *Members* may do what `MATRIX` says and nothing else. *Readers*
may look. ZooKeeper does not inherit an ACL from a parent, and whoever creates a node decides who
may use it. So the ACL depends on the node's place alone, not on who makes it, and it is put on at
the edge (`Roles.applied`, in the port), where no caller can forget it.

What a letter means: `r` read the data, the children's names, and check the version; `w` write the
data; `c` create children; `d` delete children (deleting is the parent's right, not the node's); `a`
change the ACL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from zkcoord.core.value_type import value
from zkcoord.errors import ConfigurationError
from zkcoord.zk.port import PERMISSIONS, AclEntry, Create, Op
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.cluster_tree import CLUSTER_TREE
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import CONSUMERS, GATEWAYS_ABOVE, LAYOUTS, Layout, parents

from .principals import unfit

ANY = "*"
ALL = "rwcda"
READ = "r"
MASK = "x"
BY_MEMBERS = "rc"
SCHEMES_OF_NOBODY = ("world", "auth")
PRINCIPALS_MAX = 100


@value
class AclRule:
    """What members may do with one kind of node. `path` gives its path in a layout, with `ANY` for
    the names in it. `word`: what it says is believed for who may write it, and nothing else, until
    somebody deletes it.
    """

    what: str
    path: Callable[[Layout], str]
    members: str
    why: str
    word: bool = False


MATRIX: tuple[AclRule, ...] = (
    AclRule("leader", lambda lay: lay.leader, "r", "see that somebody leads", word=True),
    AclRule("epoch and groups' root", lambda lay: lay.epoch, "r", "read epoch and lease"),
    AclRule("root of offsets", lambda lay: CONSUMERS, "r", "nothing"),
    AclRule(
        "root above leader and epoch",
        lambda lay: parents(lay.leader)[0],
        "r",
        "nothing (with the layout `draft` it is the root of offsets)",
    ),
    AclRule("root above the asks", lambda lay: parents(lay.asks)[-1], "r", "nothing"),
    AclRule("asks", lambda lay: lay.asks, "rcd", "ask for the nodes of a group"),
    AclRule("ask", lambda lay: lay.ask(ANY), "r", "see that it is answered"),
    AclRule("group", lambda lay: lay.group(ANY), "r", "read the report"),
    AclRule("mode", lambda lay: lay.mode(ANY), "r", "see whom the group belongs to", word=True),
    AclRule(
        "registrations",
        lambda lay: lay.ids(ANY),
        "rcd",
        "register, register anew, take over a static member's place",
    ),
    AclRule(
        "registration",
        lambda lay: lay.registration(ANY, ANY),
        "r",
        "check its version, which proves the membership",
    ),
    AclRule("channels", lambda lay: lay.channels(ANY), "rc", "make the own channel"),
    AclRule(
        "channel",
        lambda lay: lay.channel(ANY, ANY),
        "rd",
        "read commands, and delete them: the ack",
    ),
    AclRule("command", lambda lay: lay.command(ANY, ANY, ANY), "r", "read it"),
    AclRule("owners", lambda lay: lay.owners(ANY), "rc", "make a topic's node"),
    AclRule(
        "owners of a topic",
        lambda lay: lay.owner_topic(ANY, ANY),
        "rcd",
        "own a partition and give it up",
    ),
    AclRule(
        "owner",
        lambda lay: f"{lay.owner_topic(ANY, ANY)}/{ANY}",
        "rw",
        "claim it: its version 1 says that it is one of ours",
    ),
    AclRule("requests", lambda lay: lay.requests(ANY), "r", "nothing: they are an operator's"),
    AclRule("request", lambda lay: lay.request(ANY, ANY), "r", "nothing", word=True),
    AclRule(
        "publications",
        lambda lay: lay.publications(ANY),
        "rcd",
        "publish a sink's batch, finish it",
    ),
    AclRule("publication", lambda lay: lay.publication(ANY, ANY), "r", "finish another's"),
    AclRule("plans", lambda lay: lay.replayed_plans(ANY), "rcd", "say what is read again"),
    AclRule("plan", lambda lay: f"{lay.replayed_plans(ANY)}/{ANY}", "rw", "say it anew"),
    AclRule("clients", lambda lay: lay.clients(ANY), "rcd", "remember a gateway's clients"),
    AclRule("client", lambda lay: lay.client(ANY, ANY), "rw", "remember what it has been told"),
    AclRule("root above the gateways", lambda lay: GATEWAYS_ABOVE, "r", "nothing"),
    AclRule("gateways", lambda lay: lay.gateways, "r", "nothing: clients are sent there"),
    AclRule("gateway", lambda lay: f"{lay.gateways}/{ANY}", "r", "nothing", word=True),
    AclRule("cluster", lambda lay: CLUSTER_TREE.root, "r", "nothing"),
    AclRule(
        "source of topics",
        lambda lay: CLUSTER_TREE.source,
        "r",
        "see where topics are to be read",
        word=True,
    ),
    AclRule("topics", lambda lay: CLUSTER_TREE.topics, "r", "read which topics there are"),
    AclRule("topic", lambda lay: CLUSTER_TREE.topic(ANY), "r", "read its partitions", word=True),
    AclRule("brokers", lambda lay: CLUSTER_TREE.brokers, "r", "read which brokers there are"),
    AclRule(
        "broker", lambda lay: f"{CLUSTER_TREE.brokers}/{ANY}", "r", "read where it is", word=True
    ),
    AclRule("root of client-led groups", lambda lay: ClassicPaths(lay).root, "r", "nothing"),
    AclRule(
        "requests of gateways",
        lambda lay: ClassicPaths(lay).requests,
        "rcd",
        "ask for a client that joins, syncs or leaves, and take that back",
    ),
    AclRule(
        "request of a gateway", lambda lay: ClassicPaths(lay).request(ANY), "r", "read the answer"
    ),
    AclRule("pins", lambda lay: ClassicPaths(lay).pins, "r", "see that there are some"),
    AclRule(
        "pin", lambda lay: ClassicPaths(lay).pin(ANY), "r", "see who is to run a group", word=True
    ),
    AclRule("client-led groups", lambda lay: ClassicPaths(lay).groups, "r", "nothing"),
    AclRule("client-led group", lambda lay: ClassicPaths(lay).group(ANY), "r", "nothing"),
    AclRule(
        "state of a client-led group",
        lambda lay: ClassicPaths(lay).state(ANY),
        "r",
        "answer heartbeats, check its version when offsets are stored",
        word=True,
    ),
    AclRule(
        "round of a client-led group",
        lambda lay: ClassicPaths(lay).round(ANY),
        "r",
        "answer heartbeats",
    ),
    AclRule("blobs", lambda lay: ClassicPaths(lay).blobs(ANY), "r", "nothing"),
    AclRule(
        "blob", lambda lay: ClassicPaths(lay).blob(ANY, ANY), "r", "tell clients what others said"
    ),
    AclRule(
        "presence",
        lambda lay: ClassicPaths(lay).presences(ANY),
        "rcd",
        "say which clients a gateway serves",
    ),
    AclRule(
        "presence of a client",
        lambda lay: f"{ClassicPaths(lay).presences(ANY)}/{ANY}",
        "r",
        "see that it is served",
    ),
    AclRule(
        "group's node above its offsets",
        lambda lay: f"{CONSUMERS}/{ANY}",
        "r",
        "nothing",
    ),
    AclRule("offsets", lambda lay: lay.offsets(ANY), "rc", "make a topic's node"),
    AclRule(
        "offsets of a topic",
        lambda lay: lay.offset_topic(ANY, ANY),
        "rwc",
        "store the first offset, and to which incarnation of the topic offsets belong",
    ),
    AclRule("offset", lambda lay: f"{lay.offset_topic(ANY, ANY)}/{ANY}", "rw", "commit"),
    AclRule(
        "commit metadata", lambda lay: lay.commit_metadata_root(ANY), "rc", "make a topic's node"
    ),
    AclRule(
        "commit metadata of a topic",
        lambda lay: f"{lay.commit_metadata_root(ANY)}/{ANY}",
        "rcd",
        "store the first text beside an offset, and delete it",
    ),
    AclRule(
        "commit metadata of a partition",
        lambda lay: f"{lay.commit_metadata_root(ANY)}/{ANY}/{ANY}",
        "rw",
        "commit",
    ),
)
"""Members' rights. What is not in it (a chroot's parents, Kafka's own nodes) members may read."""


def roots(layout: Layout) -> tuple[str, ...]:
    """The nodes that are above all groups, topics or gateways, from the root down: those of the
    table that have one place, but for the leader's, which comes and goes.
    """
    found = {path for rule in MATRIX if ANY not in (path := rule.path(layout))} - {layout.leader}
    return tuple(sorted(found, key=lambda path: (path.count("/"), path)))


def bits(letters: str) -> int:
    """Permission bits of letters."""
    return sum(PERMISSIONS[letter] for letter in letters)


def letters(perms: int) -> str:
    """Letters of permission bits, in the order of `ALL`."""
    return "".join(letter for letter in ALL if perms & PERMISSIONS[letter])


def _by_length() -> dict[int, list[tuple[tuple[str, ...], str]]]:
    """Patterns as components, by their number of components, those with fewer wildcards first; of
    two rules for one path the earlier counts.
    """
    found: dict[tuple[str, ...], str] = {}
    for layout in LAYOUTS.values():
        for rule in MATRIX:
            found.setdefault(tuple(rule.path(layout).split("/")), rule.members)
    table: dict[int, list[tuple[tuple[str, ...], str]]] = {}
    for parts, members in sorted(found.items(), key=lambda item: item[0].count(ANY)):
        table.setdefault(len(parts), []).append((parts, members))
    return table


_PATTERNS = _by_length()


def members_may(path: str) -> str:
    """The letters of what members may do with the node at this path (relative to the chroot), in
    either layout: their paths do not overlap, because groups may not have the names of parts.
    """
    parts = path.split("/")
    for pattern, members in _PATTERNS.get(len(parts), ()):
        if all(wanted in (ANY, part) for wanted, part in zip(pattern, parts, strict=False)):
            return members
    return READ


@dataclass(frozen=True)
class Principal:
    """Who, in ZooKeeper's words: `sasl:app`, `x509:CN=app,O=shop`, `digest:app:<hash>`,
    `ip:10.0.0.0/8`. A digest's hash is shown nowhere.
    """

    scheme: str
    id: str = field(repr=False)

    def __str__(self) -> str:
        return AclEntry(0, self.scheme, self.id).who


@dataclass(frozen=True)
class Roles:
    """Who is what. One principal may be in several."""

    coordinators: tuple[Principal, ...]
    members: tuple[Principal, ...]
    readers: tuple[Principal, ...] = ()

    @cached_property
    def _acls(self) -> dict[str, tuple[AclEntry, ...]]:
        return {}

    def acl(self, path: str) -> tuple[AclEntry, ...]:
        """The ACL of the node at a path."""
        return self._acl(members_may(path))

    def made_by_members(self) -> tuple[AclEntry, ...]:
        """The ACL of a node that holds others of a group, where a member has to make the group by
        itself: it could make nothing below it else.
        """
        return self._acl(BY_MEMBERS)

    def _acl(self, may: str) -> tuple[AclEntry, ...]:
        if may not in self._acls:
            given = ((self.coordinators, ALL), (self.members, may), (self.readers, READ))
            rights: dict[Principal, int] = {}  # somebody may be in two roles
            for who, what in given:
                for p in who:
                    rights[p] = rights.get(p, 0) | bits(what)
            self._acls[may] = tuple(AclEntry(has, p.scheme, p.id) for p, has in rights.items())
        return self._acls[may]

    @property
    def widest(self) -> tuple[AclEntry, ...]:
        """An ACL as large on the wire as that of any node: for whoever counts bytes before a
        write.
        """
        return self.acl("/")

    def unmasked(self, entry: AclEntry) -> AclEntry:
        """Who may not change an ACL is shown `x` for a digest's hash: then it is taken for that of
        the user of this name.
        """
        name, _, _ = entry.id.partition(":")
        known = (
            next(
                (p for p in self.all if p.scheme == "digest" and p.id.startswith(f"{name}:")), None
            )
            if is_masked(entry)
            else None
        )
        return entry if known is None else AclEntry(entry.perms, known.scheme, known.id)

    def doubled(self, entries: Sequence[AclEntry], of_root: Sequence[str] = ()) -> str:
        """A user's name that an ACL has more often than there are principals of this name, without
        showing the hashes: one of the passwords is somebody else's. `of_root`: who may write the
        groups' root, where passwords are exchanged first. "": there is none.
        """
        shown = [entry.id for entry in entries if is_masked(entry)]
        return next(
            (one for one in shown if shown.count(one) > max(self._named(one), of_root.count(one))),
            "",
        )

    def _named(self, masked_id: str) -> int:
        user = masked_id.partition(":")[0]
        same = [p for p in self.all if p.scheme == "digest" and p.id.partition(":")[0] == user]
        return max(1, len(same))

    def applied(self, ops: Sequence[Op]) -> list[Op]:
        """The operations, with the ACL of its place on each node that is created."""
        return [
            replace(op, acl=self.acl(op.path)) if isinstance(op, Create) and not op.own_acl else op
            for op in ops
        ]

    @property
    def all(self) -> tuple[Principal, ...]:
        """Everybody."""
        return (*self.coordinators, *self.members, *self.readers)


def is_masked(entry: AclEntry) -> bool:
    """Whether the hash of its password is not shown, so that it is any user of this name."""
    return entry.scheme == "digest" and entry.id.partition(":")[2] == MASK


def roles(coordinators: str, members: str, readers: str, names: tuple[str, str, str]) -> Roles:
    """Roles of three texts, each SCHEME:ID;SCHEME:ID... `names` is what the three are called in a
    refusal. Raises `ConfigurationError`.
    """
    found = tuple(
        tuple(_principal(part.strip(), name) for part in text.split(";") if part.strip())
        for text, name in zip((coordinators, members, readers), names, strict=False)
    )
    for who, name in zip(found[:2], names, strict=False):
        if not who:
            raise ConfigurationError(
                f"{name} names nobody: write SCHEME:ID;SCHEME:ID..., for example sasl:app, or leave"
                f" all of {', '.join(names)} out"
            )
        everybody = next((p for p in who if p.scheme == "world"), None)
        if everybody is not None:
            raise ConfigurationError(
                f"{name} names {masked(str(everybody))}, which is everybody: name users (sasl:NAME,"
                " x509:SUBJECT, digest:NAME:HASH) or addresses (ip:ADDRESS/BITS)"
            )
    for who, name in zip(found[1:], names[1:], strict=True):
        twin = next((p for p in who if _is_twin(p, found[0])), None)
        if twin is not None:
            raise ConfigurationError(
                f"{name} names {shown(str(twin))} with another password than {names[0]}, and"
                " members cannot tell two digest users of one name apart: use another name"
            )
    for who, name, kind in zip(found[1:], names[1:], ("consumers", "readers"), strict=True):
        if who and set(who) <= set(found[0]):
            raise ConfigurationError(
                f"{name} names nobody but coordinators ({names[0]} names them, too), so that all"
                f" {kind} may do everything: give them a user of their own"
            )
    if sum(map(len, found)) > PRINCIPALS_MAX:
        raise ConfigurationError(
            f"{', '.join(names)} name {sum(map(len, found))} principals, and {PRINCIPALS_MAX} at"
            " most fit: let several processes share one"
        )
    return Roles(*found)


def _is_twin(principal: Principal, coordinators: Sequence[Principal]) -> bool:
    """Whether it is a digest user that has a coordinator's name, and no coordinator's password."""
    user = principal.id.partition(":")[0]
    named = [p for p in coordinators if p.scheme == "digest" and p.id.partition(":")[0] == user]
    return principal.scheme == "digest" and bool(named) and principal not in named


def masked(text: str) -> str:
    """An ACL's entry for a message: without what stands behind its second colon, which of a digest
    is a hash that a password can be guessed by.
    """
    scheme, colon, rest = text.partition(":")
    name, more, _ = rest.partition(":")
    if not more and scheme.strip().lower() == "digest":
        return "its digest"
    return shown(f"{scheme}{colon}{name}") + (" (and more, which is not shown)" if more else "")


def _principal(text: str, name: str) -> Principal:
    scheme, colon, who = text.partition(":")
    if (
        not colon
        or not scheme.isalnum()
        or not who
        or not who.isprintable()
        or (scheme == "digest" and not all(who.partition(":")[::2]))
    ):
        raise ConfigurationError(
            f"{masked(text)} in {name} is no principal: write SCHEME:ID, for example sasl:app,"
            " x509:CN=app, digest:NAME:HASH, with ; between two of them"
        )
    if scheme == "auth":
        raise ConfigurationError(
            f"{name} names the scheme auth, which is whoever creates a node: name users (sasl:NAME,"
            " x509:SUBJECT, digest:NAME:HASH)"
        )
    why = unfit(scheme, who)
    if why:
        raise ConfigurationError(f"{masked(text)} in {name} can be nobody: {why}")
    return Principal(scheme, who)
