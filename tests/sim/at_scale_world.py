"""Any number of groups at rest, put into the model's tree as they would stand there: no member has
ever run.

There is one server, and its tree is the leader's: at a million members a second one would cost
gigabytes, and one server that leads never lags behind itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.bench.scale_world import group_nodes, member_nodes, spread_evenly, topic_data
from tests.sim.tree import Rec, Tree, parent_of
from tests.sim.zookeeper import SimEnsemble
from zkcoord.zk.port import Create, Op
from zkcoord.znodes.paths import Layout, parents

LAYOUT = Layout.DRAFT
TOPICS = 50
FIRST_SESSION = 1 << 40
"""Of members that are there: no session of a process that runs."""
SAID_EVERY = 5_000


class LeadersTree(Tree):
    """The tree of a server that leads: what is done to the leader's is done to it."""

    def __init__(self, of: Tree) -> None:
        super().__init__()
        self.nodes, self.children = of.nodes, of.children

    def apply(self, changes: Sequence[tuple[str, Rec | None, Rec | None]]) -> None:
        """See `Tree`: it is done already."""


class Filler:
    """Puts nodes into the tree of an ensemble of one server that has just been made."""

    def __init__(self, zk: SimEnsemble) -> None:
        (server,) = zk.servers
        self.zk = zk
        self.tree = zk.tree
        server.tree = LeadersTree(zk.tree)
        self.sessions = FIRST_SESSION

    def put(self, ops: Iterable[Op], owner: int = 0) -> None:
        """One transaction of creations, by a session where they are ephemeral. (A node that is
        created and then set once has version 1.)
        """
        self.zk.zxid += 1
        zxid, nodes, children = self.zk.zxid, self.tree.nodes, self.tree.children
        for op in ops:
            if isinstance(op, Create):
                above, name = parent_of(op.path), op.path[op.path.rfind("/") + 1 :]
                session = owner if op.ephemeral else 0
                nodes[op.path] = Rec(op.data, zxid, zxid, 0, 0, session)
                children[op.path] = {}
                children[above][name] = None
            else:
                nodes[op.path] = nodes[op.path]._replace(version=1)

    def counted(self, paths: Iterable[str]) -> None:
        """These nodes have as many children as were put below them."""
        for path in paths:
            count = len(self.tree.children[path])
            self.tree.nodes[path] = self.tree.nodes[path]._replace(creates=count)

    def roots(self, partitions: int) -> list[str]:
        """What is above everything else, and topics; their names."""
        wanted = [*parents(LAYOUT.topic("t")), *parents(LAYOUT.group("g")), *parents(LAYOUT.leader)]
        self.put(Create(path, b"") for path in dict.fromkeys(wanted))
        names = [f"topic-{number:02d}" for number in range(TOPICS)]
        data = topic_data(partitions)
        self.put(Create(LAYOUT.topic(name), data) for name in names)
        return names

    def group(self, name: str, members: int, topic: str, partitions: int) -> None:
        """One at rest."""
        seed = spread_evenly(name, members, topic, partitions)
        above = group_nodes(seed)
        self.put(above)
        for member in seed.members:
            self.sessions += 1
            self.put(member_nodes(seed, member), self.sessions)
        self.counted(op.path for op in above)


def fill(
    zk: SimEnsemble,
    groups: int,
    members: int,
    partitions: int,
    say: Callable[[str], None],
) -> None:
    """So many groups, each of so many members that own so many partitions of one of `TOPICS`
    topics.
    """
    filler = Filler(zk)
    topics = filler.roots(partitions)
    for number in range(groups):
        filler.group(f"group-{number:06d}", members, topics[number % TOPICS], partitions)
        if (number + 1) % SAID_EVERY == 0:
            say(f"{number + 1:,} of {groups:,} groups written")
    filler.counted([LAYOUT.groups_root, LAYOUT.topics_root])
    (server,) = zk.servers
    server.start_from(zk.zxid)
