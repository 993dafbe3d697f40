"""What must hold of groups that are shared with old consumers, beside the other invariants: from
transactions, deliveries and links alone.

C1   nobody is delivered what another is delivered: not by one of ours while an old consumer owns
it, nor by an old consumer whose session lives while one of ours fetches it; C2   in the end every
owner node is where the old consumers' maths over all registrations puts it (`expected`, asked by
the world); C3   when the registrations change, or the partitions of a topic of it, every owner node
of ours that was there is gone some seconds later, whether a coordinator leads or not, whatever the
application does; C4   the coordinator deletes no owner node; C7   an offset is stored only by who
owns the partition (I5), and one that an old consumer wrote over ours does not move us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tests.sim.legacy import (
    LegacyMember,
    Poison,
    parse_partitions,
    parse_registration,
    range_owners,
)
from tests.sim.places import Places
from tests.sim.tree import Tree, Txn
from zkcoord.core.model import TopicPartition

if TYPE_CHECKING:
    from tests.sim.world import World

RELEASE_MS = 4_000
SLACK_MS = 1_500  # links, servers, a commit that is under way, a timer that is late


def expected(tree: Tree, places: Places, group: str) -> dict[TopicPartition, str]:
    """Partition -> thread id, by the maths of the old consumers over what is registered."""
    topics = sorted(tree.children.get("/brokers/topics", ()))
    registrations: dict[str, Mapping[str, int]] = {}
    for name in tree.children.get(places.ids(group), ()):
        try:
            registrations[name] = parse_registration(
                tree.nodes[f"{places.ids(group)}/{name}"].data, topics
            )
        except Poison:
            continue
    return range_owners(
        registrations,
        {t: parse_partitions(tree.nodes[f"/brokers/topics/{t}"].data) for t in topics},
    )


class Contract:
    """The checks of one world whose groups are shared."""

    def __init__(self, world: World, violate: Callable[[str, str], None]) -> None:
        self.world = world
        self.violate = violate
        self.seen: dict[str, frozenset[tuple[str, int]]] = {}
        # Group -> what its registrations were, and since when, for the last SLACK_MS.
        self.lately: dict[str, list[tuple[int, frozenset[tuple[str, int]]]]] = {}
        # Group -> from when to when its registrations were others, which nobody need have seen.
        self.undone: dict[str, tuple[int, int]] = {}
        self.shared_since: dict[str, int] = {}
        self.told_since: dict[str, dict[str, int]] = {}

    def committed(self, txn: Txn) -> None:
        """Look at one transaction, just after it happened."""
        world, tree = self.world, self.world.zk.tree
        for path, before, after in txn.changes:
            place = world.places.place_of(path)
            if (
                place.kind == "owner"
                and after is None
                and txn.session
                and txn.host[:1] == "k"
                and place.group in self.shared_since
            ):
                self.violate("C4", f"the coordinator deleted {path} of a shared group")
            if (
                path.startswith("/brokers/topics/")
                and before is not None
                and after is not None
                and parse_partitions(before.data) != parse_partitions(after.data)
            ):
                self._topic(path.rpartition("/")[2])
        for group in world.groups:
            mode = tree.nodes.get(f"{world.places.group(group)}/mode")
            if mode is None or b'"mixed"' not in mode.data:
                self.shared_since.pop(group, None)
                self.told_since.pop(group, None)
            else:
                self.shared_since.setdefault(group, world.kernel.now)
                self._told(group)
            ids = world.places.ids(group)
            if any(path.startswith(f"{ids}/") for path, _, _ in txn.changes):
                self._registrations(group, ids)

    def _told(self, group: str) -> None:
        """Since when each member may know that its group is shared: since it is, but who could not
        be reached then, later (seed 709172382188).
        """
        world, told = self.world, self.told_since.setdefault(group, {})
        for member in world.members(group):
            since_ms = told.setdefault(member.host.name, self.shared_since[group])
            if world.kernel.now - since_ms < SLACK_MS:
                told[member.host.name] = max(
                    since_ms,
                    member.host.link_bad_until(),
                    world.zk.frozen_until_ms,
                    *(server.isolated_until_ms for server in world.zk.servers),
                )

    def knows(self, group: str, host: str) -> bool:
        """Whether a member must know that its group is shared: it has had the time to hear so, also
        since nobody could hear anything.
        """
        now = self.world.kernel.now
        told = self.told_since.get(group, {}).get(host, self.shared_since.get(group, now))
        return now - max(told, self.world.zk.frozen_until_ms) >= SLACK_MS

    def _registrations(self, group: str, ids: str) -> None:
        tree = self.world.zk.tree
        now = frozenset(
            (name, tree.nodes[f"{ids}/{name}"].czxid)
            for name in tree.children.get(ids, ())
            if _readable(tree.nodes[f"{ids}/{name}"].data) and tree.nodes[f"{ids}/{name}"].owner
        )
        before, self.seen[group] = self.seen.get(group), now
        if before is None or before == now:
            return
        if self._was_so(group, before, now):
            return
        if group in self.shared_since:
            self._all_let_go(group, "")

    def _was_so(
        self, group: str, before: frozenset[tuple[str, int]], now: frozenset[tuple[str, int]]
    ) -> bool:
        """Whether the registrations are again what they were a moment ago: who has not looked
        meanwhile cannot know, and nobody wants anything of it any more (mixed 1373).
        """
        now_ms = self.world.kernel.now
        lately = self.lately.setdefault(group, [])
        lately[:] = [(until, was) for until, was in lately if now_ms - until < SLACK_MS]
        lately.append((now_ms, before))
        for until_ms, was in lately[:-1]:
            if was == now:
                self.undone[group] = (until_ms, now_ms)
                return True
        return False

    def _topic(self, topic: str) -> None:
        """A topic has other partitions: who owns some of it lets go of those."""
        for group in list(self.shared_since):
            self._all_let_go(group, topic)

    def _all_let_go(self, group: str, topic: str) -> None:
        for member in self.world.members(group):
            if not self.knows(group, member.host.name):
                continue
            held = {
                path: czxid
                for path, czxid in self._held(group, member.host.name).items()
                if not topic or path.split("/")[-2] == topic
            }
            if held:
                self._await(group, member.host, held, topic)

    def _held(self, group: str, host: str) -> dict[str, int]:
        """Owner node -> its czxid, of one host's sessions."""
        world, root = self.world, self.world.places.owners(group)
        tree = world.zk.tree
        paths = [
            f"{root}/{t}/{p}"
            for t in tree.children.get(root, ())
            for p in tree.children.get(f"{root}/{t}", ())
        ]
        return {
            path: tree.nodes[path].czxid
            for path in paths
            if world.host_of_session(tree.nodes[path].owner) == host
        }

    def _await(self, group: str, host: object, held: dict[str, int], topic: str) -> None:
        world, began = self.world, self.world.kernel.now
        process = next(c for c in world.consumers if c.host is host)
        troubled = process.troubles

        def late() -> None:
            first, last = self.undone.get(group, (0, -1))
            if not topic and first <= began <= last:
                return
            left = [
                path
                for path, czxid in self._held(group, process.host.name).items()
                if held.get(path) == czxid
            ]
            bad = (
                not process.running
                or process.host.paused
                or process.troubles != troubled
                or process.host.link_bad_until() > began
            )
            bad = (
                bad
                or any(s.isolated_until_ms > began for s in world.zk.servers)
                or world.zk.frozen_until_ms > began
                or self.shared_since.get(group, world.kernel.now) > began
                or not world.zk.weather_is_fine
            )
            if left and not bad:
                self.violate(
                    "C3",
                    f"{process.host.name} still owns {left[0]} {world.kernel.now - began} ms after"
                    f" the registrations of {group}, or its topics, changed",
                )
            if not bad:
                world.kernel.happened["release judged"] += 1

        world.kernel.after(RELEASE_MS + SLACK_MS, late)

    def handed_out(self, group: str, host: str, partition: TopicPartition) -> None:
        """One of ours delivers: C1."""
        node = self.world.zk.tree.nodes.get(self.world.places.owner((group, partition)))
        holder = self.world.host_of_session(node.owner) if node is not None and node.owner else ""
        if holder[:1] == "l":
            self.violate(
                "C1", f"{host} hands out {partition}, which the old consumer {holder} owns"
            )

    def delivered(
        self, member: LegacyMember, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        """An old consumer delivers: C1, and what was processed by it need not be processed by
        ours.
        """
        world = self.world
        part = world.checker.part((member.group, partition))
        part.handed, part.processed = (
            max(part.handed, next_offset),
            max(part.processed, next_offset),
        )
        node = world.zk.tree.nodes.get(world.places.owner((member.group, partition)))
        if node is None or world.host_of_session(node.owner) != member.host.name:
            world.kernel.happened["zombie delivery"] += 1
            return
        part.last_handed_ms = world.kernel.now
        for app in world.apps:
            if (
                app.group == member.group
                and app.host.alive
                and partition in app.positions
                and partition in app.fetching()
            ):
                self.violate(
                    "C1",
                    f"the old consumer {member.host.name} delivers {partition} while"
                    f" {app.host.name} fetches it",
                )

    def unsettled(self, group: str) -> str:
        """C2: why the owners are not what the maths says; "" when they are."""
        tree, at = self.world.zk.tree, self.world.places
        wanted = expected(tree, at, group)
        for tp, thread in sorted(wanted.items()):
            node = tree.nodes.get(at.owner((group, tp)))
            if node is None or node.data != thread.encode():
                return (
                    f"{group}: {tp} is owned by {None if node is None else node.data!r}, the maths"
                    f" says {thread}"
                )
        return ""


def _readable(data: bytes) -> bool:
    try:
        parse_registration(data, ())
    except Poison:
        return False
    return True
