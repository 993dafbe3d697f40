"""What must hold of clients of gateways, judged from what clients were told, from what their
applications did, and from the transactions. It knows nothing of gateways but their promises.

W1 what is stored for a client is what it asked for, and it is a member while that happens (that its
member owns the partition, that offsets do not go back: I4, I5); W2 a partition is given to nobody
while another client has it, unless that one has lost it (its member's session or registration ended
without its doing) or was away (paused, without a connection for longer than
`disconnect_grace_ms`, silent for its session timeout, or behind a gateway that hung, which may have
taken it for silent); nor while a member of another kind fetches
it, nor does such a one fetch what a client has; W3 what a client is given is written down before,
where ZooKeeper can be reached; W4 the generations with which a client is given assignments do not
fall; W5 each request is answered once, in the order of its connection, and with what makes sense;
W6 what a client leaves is somebody's soon, or is kept for one that may come back; W7 nothing is
skipped, and where a commit was answered well nobody begins below it. The rest of W3, W5 and W6 is
judged at the end of a run (`tests.sim.wire`).

Which client a session's member is for is told by the instance in its registration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tests.sim.application import Application
from tests.sim.invariants import Checker
from tests.sim.places import Key
from tests.sim.tree import Txn
from tests.sim.wire_client import WireClient
from tests.sim.wire_gateway import GatewayProcess
from zkcoord.core.model import GroupMetadata, TopicPartition
from zkcoord.znodes.gateway_nodes import instance_of_client
from zkcoord.znodes.metadata import decode_metadata

SLACK_MS = 20
AWAKE_MS = 1_000
LEAVE_MS = 2_500
GATEWAY = "w"  # what the names of their hosts begin with


@dataclass(slots=True)
class Known:
    """What is known of one client. `excused`: what it has though it lost it, or was away when it
    was given up, and why; `names`: instances under which it was a member.
    """

    generation: int = -1
    member_id: str = ""
    excused: dict[TopicPartition, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    position: dict[TopicPartition, int] = field(default_factory=dict)


class WireChecker:
    """See the module. `clients` gives all that ever ran, `apps` the applications of others;
    `is_well` says whether nothing was wrong between a gateway and ZooKeeper for a while, `leading`
    which coordinator leads, and has not been disturbed ("": none), `calm_since` whether nothing
    has happened to any gateway since then, `is_fine` whether a coordinator can read what happens,
    `is_dead` whether a session's process is.
    """

    def __init__(
        self,
        checker: Checker,
        clients: Callable[[], list[WireClient]],
        apps: Callable[[], list[Application]],
        disconnect_grace_ms: int,
        is_well: Callable[[GatewayProcess], bool],
        leading: Callable[[], str],
        calm_since: Callable[[int], bool],
        is_fine: Callable[[], bool],
        is_dead: Callable[[int], bool],
    ) -> None:
        self.checker = checker
        self.kernel = checker.kernel
        self.clients = clients
        self.apps = apps
        self.disconnect_grace_ms = disconnect_grace_ms
        self.is_well = is_well
        self.leading = leading
        self.calm_since = calm_since
        self.is_fine = is_fine
        self.is_dead = is_dead
        self._meddled_ms = -1  # when an operator touched a registration last
        self.known: dict[str, Known] = {}
        self._instances: dict[int, tuple[str, str]] = {}  # session -> group, instance
        # Instances by group: whose last registration wanted nothing to wait, whose place waits.
        self._said_goodbye: set[tuple[str, str]] = set()
        self._may_return: set[tuple[str, str]] = set()
        self._acked: dict[Key, int] = {}
        self._owned_ms: dict[Key, int] = {}  # when a partition was taken last

    def of(self, client: WireClient) -> Known:
        """What is known of a client."""
        return self.known.setdefault(client.host.name, Known())

    def instance(self, client: WireClient) -> str:
        """Under which instance its member is."""
        if client.habits.instance is not None:
            return client.habits.instance
        return instance_of_client(client.member_id) if client.member_id else ""

    def instance_of(self, session: int) -> str:
        """Under which instance a session's member is registered."""
        return self._instances.get(session, ("", ""))[1]

    def owns(self, client: WireClient, partition: TopicPartition) -> bool:
        """Whether a client's member owns a partition now, and is one."""
        group = client.habits.group
        node = self.checker.tree.nodes.get(self.checker.places.owner((group, partition)))
        if node is None or self._instances.get(node.owner) != (group, self.instance(client)):
            return False
        return self.checker.registered(group, node.owner)

    def _having(self, group: str, partition: TopicPartition) -> list[WireClient]:
        return [
            c
            for c in self.clients()
            if c.habits.group == group and c.host.alive and partition in c.positions
        ]

    def away(self, client: WireClient) -> str:
        """Why a client cannot be heard now; "" where it can."""
        now = self.kernel.now
        if client.host.paused:
            return "paused"
        if now - client.link.answered_ms >= client.habits.session_ms - client.habits.interval_ms:
            return "silent"
        connection = client.connection
        if connection and now - connection.gateway.disturbed_ms < client.habits.session_ms:
            return "behind a gateway that hung"
        since = connection.dead_since_ms if connection is not None else None
        if client.link.gone_ms is not None:
            since = client.link.gone_ms
        if since is not None and now - since >= self.disconnect_grace_ms - SLACK_MS:
            return "without a connection"
        return ""

    # transactions

    def committed(self, txn: Txn) -> None:
        """Look at one transaction, just after it happened."""
        places = self.checker.places
        for path, before, after in txn.changes:
            place = places.place_of(path)
            if place.kind == "ids" and not txn.session:
                self._meddled_ms = self.kernel.now
            if place.kind == "ids" and after is not None and txn.host[:1] == GATEWAY:
                instance = _said(after.data, "instance")
                self._instances[after.owner] = (place.group, instance)
                self._registered((place.group, instance), _said(after.data, "grace_ms"))
            elif place.kind == "ids" and before is not None and after is None:
                self._ended(self._instances.get(before.owner))
            elif place.kind == "owner":
                key = (place.group, place.partition)
                if after is None and before is not None:
                    self._disowned(txn, key, before.owner)
                elif after is not None:
                    self._owned(key, after.owner)
            elif place.kind == "offset":
                old = before.data if before is not None else b"0"
                if after is None or after.data != old or not txn.session:
                    self._stored(txn, (place.group, place.partition), after.data if after else b"")

    def _registered(self, who: tuple[str, str], grace_ms: str) -> None:
        self._may_return.discard(who)
        (self._said_goodbye.add if grace_ms == "0" else self._said_goodbye.discard)(who)

    def _ended(self, who: tuple[str, str] | None) -> None:
        """Its place waits. So it does where it said that nothing is to wait while no coordinator
        could read that before it was gone: then one takes it for somebody who comes back.
        """
        if who is not None and (who not in self._said_goodbye or not self.is_fine()):
            self._may_return.add(who)

    def _is_kept(self, group: str, tp: TopicPartition, leaver: str) -> bool:
        """Whether a partition is promised to an instance that is away and may return, and has not
        just left it: a static member counts as one while its grace lasts.
        """
        node = self.checker.tree.nodes.get(self.checker.places.group(group))
        report = decode_metadata(group, node.data) if node is not None else None
        if not isinstance(report, GroupMetadata):
            return False
        return any(
            d.since_ms
            and tp in d.partitions
            and d.instance != leaver
            and (group, d.instance) in self._may_return
            for d in report.departed
        )

    def _owned(self, key: Key, session: int) -> None:
        self._owned_ms[key] = self.kernel.now
        group, instance = self._instances.get(session, ("", ""))
        for client in self._having(*key):
            if group and instance == self.instance(client):
                self.of(client).excused.pop(key[1], None)

    def _disowned(self, txn: Txn, key: Key, session: int) -> None:
        _, instance = self._instances.get(session, ("", ""))
        own = txn.session == session and txn.kind == "multi"
        for client in self._having(*key):
            if not instance or instance != self.instance(client):
                continue
            why = self.away(client) if own else f"{txn.kind} of {txn.host}"
            if why:
                self.of(client).excused.setdefault(key[1], why)

    def _stored(self, txn: Txn, key: Key, data: bytes) -> None:
        if txn.host[:1] != GATEWAY:
            if not txn.session:
                self._acked.pop(key, None)
            return
        _, instance = self._instances.get(txn.session, ("", ""))
        mine = [c for c in self.clients() if instance in self.of(c).names]
        if not data.isdigit() or not any((key[1], int(data)) in c.asked for c in mine):
            self.checker.violate(
                "W1",
                f"{txn.host} stored {key[1]}={data!r}, which {instance} did not commit",
            )

    def position(self, txn: Txn, key: Key) -> int | None:
        """How far the client for whom a gateway stores has processed a partition."""
        if txn.host[:1] != GATEWAY:
            return None
        _, instance = self._instances.get(txn.session, ("", ""))
        known = [k for k in self.known.values() if instance in k.names]
        return max((k.position.get(key[1], 0) for k in known), default=0)

    # clients (the WireWitness protocol)

    def given(self, client: WireClient, added: Collection[TopicPartition]) -> None:
        """W2, at the client that is given something."""
        known = self.of(client)
        name = client.host.name
        self.kernel.trace(name, f"has {sorted(client.positions)}, new {sorted(added)}")
        for tp in added:
            known.excused.pop(tp, None)
            if not self.owns(client, tp):
                known.excused[tp] = "it was lost already when it was given"
            self._alone(client, tp)

    def _alone(self, client: WireClient, tp: TopicPartition) -> None:
        name, mine = client.host.name, self.of(client).excused.get(tp)
        if mine is not None:
            return
        for other in self._having(client.habits.group, tp):
            if other is not client and not (self.of(other).excused.get(tp) or self.away(other)):
                self.checker.violate("W2", f"{name} has {tp} while {other.host.name} has it")
        for app in self.apps():
            fetches = app.host.alive and tp in app.positions and tp in app.fetching()
            if app.group == client.habits.group and fetches:
                self.checker.violate("W2", f"{name} has {tp} while {app.host.name} fetches it")

    def shim_handed_out(self, group: str, host: str, tp: TopicPartition) -> None:
        """W2, at another kind of member."""
        for client in self._having(group, tp):
            if not (self.of(client).excused.get(tp) or self.away(client)):
                self.checker.violate("W2", f"{host} fetches {tp} while {client.host.name} has it")

    def synced(self, client: WireClient, generation: int, given: bool) -> None:
        """W3 and W4. A generation that could not be written down is forgotten with its gateway; one
        that was away knows no later ones before it hears that it has lost its members (wire 290).
        Who was evicted, and is not registered again yet, may hear at once that it has nothing
        (`given`: something): there is nothing to be lost with its gateway (wire 963).
        """
        known = self.of(client)
        known.names.add(self.instance(client))
        connection = client.connection
        unwell = connection is not None and not self.is_well(connection.gateway)
        if self.remembered(client) < generation:
            self.kernel.happened["told without being remembered"] += 1
            awake = self.kernel.now - client.troubled_ms > AWAKE_MS
            told_nothing = not given and not self._is_member(client)
            if awake and connection is not None and not unwell and not told_nothing:
                self.checker.violate(
                    "W3", f"{client.host.name} is given what nobody else could know of"
                )
            return
        fell = known.member_id == client.member_id and generation < known.generation
        if fell and not unwell:
            self.checker.violate(
                "W4",
                f"{client.host.name} is given an assignment with generation {generation} after"
                f" {known.generation}",
            )
        known.member_id, known.generation = client.member_id, generation

    def _is_member(self, client: WireClient) -> bool:
        who = (client.habits.group, self.instance(client))
        sessions = [session for session, known in self._instances.items() if known == who]
        return any(self.checker.registered(who[0], session) for session in sessions)

    def remembered(self, client: WireClient) -> int:
        """The generation that is written down for other gateways; -1: none."""
        above = self.checker.places.group(client.habits.group)
        node = self.checker.tree.nodes.get(f"{above}/clients/{self.instance(client)}")
        return int(json.loads(node.data)["generation"]) if node is not None else -1

    def leaves(self, client: WireClient, had: Collection[TopicPartition]) -> None:
        """W6: what it had is somebody's soon, where nothing is wrong and anybody is there."""
        group, connection = client.habits.group, client.connection
        if not had or connection is None or not self.is_well(connection.gateway):
            return
        if connection.dead_since_ms is not None:
            return  # nobody hears it: its session timeout has to pass
        led, name, left_ms = self.leading(), client.host.name, self.kernel.now
        leaver = self.instance(client)

        def judge(partitions: Collection[TopicPartition]) -> None:
            others = {
                t
                for c in self.clients()
                if c is not client and c.running and c.stable and c.habits.group == group
                for t in c.habits.topics
            }
            calm = self.is_well(connection.gateway) and self.calm_since(left_ms)
            if not calm or self._meddled_ms >= left_ms or led != self.leading() or not led:
                return
            self.kernel.happened["leave judged"] += 1
            later = []
            for tp in partitions:
                if tp.topic not in others or self._owned_ms.get((group, tp), 0) >= left_ms:
                    continue
                if self._is_kept(group, tp, leaver):
                    self.kernel.happened["left to an instance that is away"] += 1
                elif self._is_of_a_dead_gateway(group, tp):
                    # the leaver had come from there; nobody owns it before that session is over
                    later.append(tp)
                else:
                    self.checker.violate("W6", f"{tp} waits {LEAVE_MS} ms after {name} left")
            if later:
                self.kernel.after(LEAVE_MS, lambda: judge(later))

        self.kernel.after(LEAVE_MS, lambda: judge(had))

    def _is_of_a_dead_gateway(self, group: str, tp: TopicPartition) -> bool:
        node = self.checker.tree.nodes.get(self.checker.places.owner((group, tp)))
        return node is not None and node.owner in self._instances and self.is_dead(node.owner)

    def unexpected(self, client: WireClient, what: str) -> None:
        """W5."""
        self.checker.violate("W5", f"{client.host.name}: {what}")

    def fenced(self, client: WireClient) -> None:
        """W5: who is told so ends for good."""
        self.kernel.trace(client.host.name, "is fenced")
        group, instance = client.habits.group, client.habits.instance
        later = self.clients()[self.clients().index(client) + 1 :]
        if not any((c.habits.group, c.habits.instance) == (group, instance) for c in later):
            self.checker.violate(
                "W5", f"{client.host.name} is fenced, and nobody has {instance} after it"
            )

    def resets(self, client: WireClient, partition: TopicPartition) -> int:
        """How often an operator has reset it so far."""
        return self.checker.part((client.habits.group, partition)).resets

    def acked(
        self, client: WireClient, partition: TopicPartition, offset: int, resets: int
    ) -> None:
        """A commit was answered well."""
        key = (client.habits.group, partition)
        if resets == self.checker.part(key).resets:
            self._acked[key] = max(offset, self._acked.get(key, 0))

    def begins(
        self, client: WireClient, partition: TopicPartition, offset: int, resets: int
    ) -> None:
        """W7, where a client begins."""
        name, key = client.host.name, (client.habits.group, partition)
        part = self.checker.part(key)
        self.kernel.trace(name, f"begins {partition} at {offset}")
        self.of(client).position[partition] = offset
        if part.reset_to == offset:
            part.reset_to = None
        if offset > part.processed:
            self.checker.violate(
                "W7", f"{name} begins {partition} at {offset}, {part.processed} are processed"
            )
        acked = self._acked.get(key, 0)
        if resets == part.resets and offset < acked and not self.of(client).excused.get(partition):
            self.checker.violate(
                "W7", f"{name} begins {partition} at {offset}, {acked} is committed"
            )

    def handed_out(
        self, client: WireClient, partition: TopicPartition, first: int, next_offset: int
    ) -> None:
        """W2 and W7, where records are handed out."""
        part = self.checker.part((client.habits.group, partition))
        part.last_handed_ms = self.kernel.now
        self._alone(client, partition)
        if first > part.handed:
            self.checker.violate(
                "W7", f"{client.host.name} skips {partition} {part.handed}..{first - 1}"
            )
        part.handed = max(part.handed, next_offset)

    def processed(self, client: WireClient, partition: TopicPartition, next_offset: int) -> None:
        """Everything below `next_offset` is processed."""
        self.of(client).position[partition] = next_offset
        part = self.checker.part((client.habits.group, partition))
        part.processed = max(part.processed, next_offset)


def _said(data: bytes, what: str) -> str:
    """What a registration says."""
    try:
        found = json.loads(data)
        return str(found.get(what, "")) if isinstance(found, dict) else ""
    except ValueError:
        return ""
