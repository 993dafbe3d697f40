"""What must hold of groups as wholes, beside `invariants.py`: again only from transactions, parsed
by code of its own.

I9   a group at rest whose member joins is written about within the quiet window and its turn behind
the other groups' slots, whatever bad groups there are; I14  a generation names one target: it never
goes back, and no two starts of one generation give a partition to different threads; I15  eager
form: no start while a stop is outstanding (judged where every member only takes part in the eager
form); I16  static members: while one is away within its grace, or back, the members that stayed are
not commanded; I17  quarantine: nothing is started or stopped in a quarantined group, it does not
leave before its backoff (a new coordinator counts it anew), and a new coordinator tells nobody
again; I19  a full group: nothing is started at a member that has as many older ones beside it as
the group may have; I20  a start names what the registration subscribes that it is for, topic and
stream.

I9 and I16 are judged only of groups that were at rest: reported as Stable with all their members
since the last change, nobody named as an owner who is gone, no command outstanding. Anything else
that happens to the group ends the judgement, never makes a violation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.sim.kernel import Kernel
from tests.sim.places import Place, Places
from tests.sim.tree import Rec, Tree, Txn

Changes = list[tuple[Place, str, Rec | None, Rec | None]]

REST_MS = 2_500  # longer than any quiet window: what happened before is decided by now
WINDOW_MS = 150  # the quiet window of a group at rest, latencies, late timers
SLOT_MS = 20  # one write under way
TOPICS = ("/brokers/topics/", "/zkcoord/cluster/topics/", "/zkcoord/cluster/source")
BUILT_IN = frozenset({"range", "roundrobin", "sticky"})
TERM_MS = 3_000  # a new coordinator has taken over by then


@dataclass(slots=True)
class Registered:
    """A registration: what it says of itself, but for its times."""

    instance: str
    grace_ms: int
    wishes: str
    custom: bool  # it names a custom assignor, whose answer may take long


@dataclass(slots=True)
class Known:
    """What is known of one group."""

    members: dict[str, Registered] = field(default_factory=dict)
    commands: dict[str, tuple[str, str]] = field(default_factory=dict)  # path -> member, option
    state: str = ""
    news_ms: int = 0
    rest_ms: int = -1
    stayed: set[str] | None = None
    away: dict[str, tuple[int, str]] = field(default_factory=dict)  # instance -> until, wishes
    # instance -> the end of the grace that its return ended
    returned: dict[str, int] = field(default_factory=dict)
    commanded: set[str] = field(default_factory=set)  # members that a coordinator has seen
    # every instance that left and did not come back: the end of its grace is an event, whenever it
    # left
    missing: set[str] = field(default_factory=set)
    # instances with a place, by the report: of one that is gone for good the coordinator may not
    # have read the last registration (wire 1149)
    promised: set[str] = field(default_factory=set)
    quarantined_ms: int | None = None  # not later than this
    # the first eviction since something was started or stopped; of one that is gone already, only
    # its command is deleted
    failed_ms: int | None = None
    generation: int = -1
    overwritten: bool = False  # the report is not a coordinator's, and none has written it since
    # partition -> generation, thread
    threads: dict[str, tuple[int, str]] = field(default_factory=dict)
    joined_ms: int | None = None
    names: set[str] = field(default_factory=set)  # of all that ever registered
    # of those that did so again: the target may be of their registration before
    again: set[str] = field(default_factory=set)
    # members that were told of a quarantine, and of nothing else since, and in which epoch
    told: dict[str, int] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)  # of all that ever registered

    def seat(self, thread: str) -> tuple[str, str]:
        """Who this thread is in a target: a static member that came back takes its place there
        under another name.
        """
        member, _, number = thread.rpartition("-")
        return self.instances.get(member) or member, number

    def failing(self, now_ms: int) -> None:
        """A coordinator evicts a member."""
        self.failed_ms = now_ms if self.failed_ms is None else self.failed_ms


@dataclass(slots=True)
class Sent:
    """A command as it is created."""

    member: str
    option: str
    generation: int
    threads: Mapping[str, str]
    epoch: int
    incarnation: str
    code: str


class Groups:
    """The checks of groups. `slots` is how many groups may be written at once; `eager` that every
    consumer of the world takes part only in the eager form; `isolated` whether I9 can be judged
    now: nothing is wrong with network and coordinator.
    """

    def __init__(
        self, kernel: Kernel, tree: Tree, places: Places, violate: Callable[[str, str], None]
    ) -> None:
        self.kernel = kernel
        self.tree = tree
        self.places = places
        self.violate = violate
        self.groups: dict[str, Known] = {}
        self.slots = 64
        self.eager = False
        self.isolated: Callable[[], bool] = lambda: False
        self.backoff_ms = 0
        self.members_max = 10_000
        self.term_ms = 0

    def committed(self, txn: Txn, role: str, places: Changes) -> None:
        """Look at one transaction, just after it happened."""
        if any(path.startswith(TOPICS) for _, path, _, _ in places):
            for known in self.groups.values():
                self._news(known)
        if any(place.kind == "leader" for place, *_ in places):
            self.term_ms = self.kernel.now
            for known in self.groups.values():
                known.joined_ms = None
                if known.quarantined_ms is not None:
                    known.quarantined_ms = self.kernel.now
        if role == "operator" and any(
            place.kind == "request" or (after is not None and b'"paused"' in after.data)
            for place, _, _, after in places
        ):
            for known in self.groups.values():
                known.quarantined_ms = None
        if role == "coordinator" and txn.kind == "multi":
            self._decided(places)
        for place, path, before, after in places:
            known = self.groups.setdefault(place.group, Known()) if place.group else None
            if known is None:
                continue
            if role == "operator":
                self._news(known)
            if place.kind == "ids":
                self._registration(known, place, role, before, after, places)
            elif place.kind == "command" and after is None:
                known.commands.pop(path, None)
                if role == "coordinator" and place.member not in known.members:
                    known.failing(self.kernel.now)
            # not only a child of it came or went
            elif place.kind == "group" and (
                before is None or after is None or before.mzxid != after.mzxid
            ):
                self._report(known, role, before, after)

    def _news(self, known: Known) -> None:
        known.news_ms = self.kernel.now
        known.stayed = known.joined_ms = None
        known.away.clear()

    def _at_rest(self, known: Known) -> bool:
        now = self.kernel.now
        return (
            known.state == "Stable"
            and known.rest_ms > known.news_ms
            and now - known.news_ms >= REST_MS
            and not known.commands
        )

    # registrations

    def _registration(
        self,
        known: Known,
        place: Place,
        role: str,
        before: Rec | None,
        after: Rec | None,
        places: Changes,
    ) -> None:
        old, new = (
            known.members.pop(place.member, None),
            _registered(after.data) if after is not None else None,
        )
        known.told.pop(place.member, None)
        if new is not None:
            (known.again if place.member in known.names else known.names).add(place.member)
        if new is not None:
            known.members[place.member] = new
            known.instances[place.member] = new.instance
        if role in ("coordinator", "operator"):
            if role == "coordinator":
                known.failing(self.kernel.now)
            return self._news(known)
        if after is None:
            replaced = old is not None and any(
                p.kind == "ids"
                and p.group == place.group
                and a is not None
                and _registered(a.data).instance == old.instance
                for p, _, _, a in places
            )
            self._left(known, place.member, old, replaced)
        elif before is None and new is not None:
            self._joined(known, new)
        else:
            self._news(known)

    def _left(self, known: Known, member: str, old: Registered | None, replaced: bool) -> None:
        if old is None or not old.instance or not old.grace_ms:
            return self._news(known)
        if known.stayed is None:
            here = {m.instance for m in known.members.values()} | {old.instance}
            if not self._at_rest(known) or known.missing or known.promised - here:
                known.missing.add(old.instance)
                return self._news(known)
            known.stayed = set(known.members)
        known.joined_ms = None
        known.stayed.discard(member)
        known.missing.add(old.instance)
        until = self.kernel.now + old.grace_ms
        # it came and went so fast that a coordinator may not know: then the grace before goes on
        if member not in known.commanded:
            until = min(until, known.returned.get(old.instance, until))
        known.away[old.instance] = (until, old.wishes)
        if replaced:
            self.kernel.happened["static replaced"] += 1

    def _joined(self, known: Known, new: Registered) -> None:
        known.missing.discard(new.instance)
        until, wishes = known.away.pop(new.instance, (0, ""))
        known.returned[new.instance] = until or self.kernel.now + new.grace_ms
        if known.stayed is not None and self.kernel.now < until and wishes == new.wishes:
            self.kernel.happened["static promise judged"] += 1
            return
        rests = self._at_rest(known)
        self._news(known)
        if (
            rests
            and self.isolated()
            and not any(r.custom for r in known.members.values())
            and self.kernel.now - self.term_ms >= TERM_MS
        ):
            self._await(known)

    def _await(self, known: Known) -> None:
        """I9: a member joined a group at rest."""
        began = known.joined_ms = self.kernel.now
        limit = WINDOW_MS + SLOT_MS * (1 + len(self.groups) // self.slots)

        def late() -> None:
            if known.joined_ms == began and self.isolated():
                self.violate(
                    "I9",
                    f"a group at rest waits for {limit} ms after a member joined"
                    f" ({len(self.groups)} groups, {self.slots} slots)",
                )

        self.kernel.happened["isolation judged"] += 1
        self.kernel.after(limit, late)

    # what the coordinator writes

    def _report(self, known: Known, role: str, before: Rec | None, after: Rec | None) -> None:
        """The group's node: state and generation, where the coordinator wrote them."""
        report = _json(after.data) if after is not None and role == "coordinator" else {}
        if role != "coordinator":
            known.generation, known.state, known.quarantined_ms = -1, "", None
            known.overwritten = before is not None
            known.threads.clear()
            known.told.clear()
            return
        known.state, known.overwritten = str(report.get("state", "")), False
        known.promised = {str(one["instance"]) for one in report.get("departed", ())}
        # one that is gone: the report is of the world before, though as many members are there now
        owners = {part.partition("=")[0] for part in str(report.get("ownership", "")).split()}
        if (
            known.state == "Stable"
            and report.get("members") == len(known.members)
            and owners <= known.members.keys()
        ):
            known.rest_ms = self.kernel.now
        if known.state == "Quarantined" and known.quarantined_ms is None:
            known.quarantined_ms = self.kernel.now if known.failed_ms is None else known.failed_ms
        elif known.state != "Quarantined":
            known.quarantined_ms = None
            known.told.clear()  # that one is over: the next one is another

    def _decided(self, places: Changes) -> None:
        touched = {place.group for place, *_ in places if place.group}
        states = {
            place.group: str(_json(after.data).get("state", ""))
            for place, _, _, after in places
            if place.kind == "group" and after is not None
        }
        for group in sorted(touched):
            self.groups.setdefault(group, Known()).joined_ms = None
        for place, path, before, after in places:
            if place.kind != "command" or before is not None or after is None:
                continue
            sent, known = _sent(place.member, after.data), self.groups[place.group]
            if sent is None:
                continue
            others = [
                other for other, (member, _) in known.commands.items() if member == sent.member
            ]
            if others:
                self.violate("I6", f"{path} while {others[0]} of the same member is outstanding")
            known.commands[path] = (sent.member, sent.option)
            known.commanded.add(sent.member)
            self._told(known, sent, path)
            if sent.option in ("start-fetcher", "stop-fetcher"):
                self._full(place.group, known, sent, path)
                self._subscribed(place.group, sent, path)
                self._static(known, sent, path)
                self._quarantined(known, states.get(place.group, known.state), path)
                self._generation(known, sent, path)
                known.failed_ms = None
        if self.eager:
            for group in sorted(touched):
                self._eager(group, self.groups[group], places)

    def _static(self, known: Known, sent: Sent, path: str) -> None:
        if known.stayed is None:
            return
        if any(until <= self.kernel.now for until, _ in known.away.values()):
            return self._news(known)  # a grace is over
        if sent.member in known.stayed:
            self.violate(
                "I16",
                f"{path} ({sent.option}) for a member that stayed while static members restarted"
                " within their grace",
            )

    def _quarantined(self, known: Known, state: str, path: str) -> None:
        if known.quarantined_ms is None:
            return
        if state == "Quarantined":
            self.violate("I17", f"{path} in a quarantined group")
        elif self.kernel.now - known.quarantined_ms < self.backoff_ms - SLOT_MS:
            # it began when it was decided, a write before it was seen (eager 289)
            self.violate(
                "I17",
                f"{path}: a quarantine ended after {self.kernel.now - known.quarantined_ms} ms, its"
                f" backoff is {self.backoff_ms}",
            )

    def _told(self, known: Known, sent: Sent, path: str) -> None:
        if sent.option != "notify" or sent.code != "REBALANCE_FAILED":
            known.told.pop(sent.member, None)
            return
        # the same coordinator may have to: it does not know whether a write happened whose command
        # is gone
        if known.told.setdefault(sent.member, sent.epoch) != sent.epoch:
            self.violate("I17", f"{path} tells a member again that its group is quarantined")

    def _full(self, group: str, known: Known, sent: Sent, path: str) -> None:
        """I19. A target that has a member was made of a view that has every older one that is still
        there, and older ones only go; so a member that was taken has no more older ones beside it
        than that now.
        """
        ids = self.places.ids(group)
        node = self.tree.nodes.get(f"{ids}/{sent.member}")
        if (
            sent.option != "start-fetcher"
            or sent.member in known.again
            or node is None
            or str(node.czxid) != sent.incarnation
        ):
            return
        older = sum(
            1
            for name in self.tree.children[ids]
            if self.tree.nodes[f"{ids}/{name}"].czxid < node.czxid
        )
        if older >= self.members_max:
            self.violate(
                "I19",
                f"{path} starts the member after {older}, the group may have {self.members_max}",
            )

    def _subscribed(self, group: str, sent: Sent, path: str) -> None:
        """I20. Judged by the registration that the command names, as its member wrote it; what a
        wildcard matched for the coordinator is in no transaction.
        """
        node = self.tree.nodes.get(f"{self.places.ids(group)}/{sent.member}")
        if (
            sent.option != "start-fetcher"
            or node is None
            or node.version
            or str(node.czxid) != sent.incarnation
        ):
            return
        registration = _json(node.data)
        topics = registration.get("subscription")
        if registration.get("pattern") != "static" or not isinstance(topics, dict):
            return
        for partition, thread in sent.threads.items():
            if int(thread.rpartition("-")[2]) >= topics.get(partition.rpartition("-")[0], 0):
                self.violate(
                    "I20",
                    f"{path} starts {partition} as {thread}, the registration subscribes {topics}",
                )

    def _generation(self, known: Known, sent: Sent, path: str) -> None:
        if sent.generation < known.generation:
            self.violate(
                "I14", f"{path} is of generation {sent.generation} after {known.generation}"
            )
        if known.overwritten:
            # somebody's bytes are where the generation was, and one who reads them begins anew,
            # whatever is sent by the coordinator that remembers
            return
        known.generation = max(known.generation, sent.generation)
        for partition, thread in sent.threads.items():
            generation, other = known.threads.get(partition, (-1, ""))
            if generation == sent.generation and known.seat(other) != known.seat(thread):
                self.violate(
                    "I14",
                    f"{path} starts {partition} as {thread}, the same generation {generation} named"
                    f" {other}",
                )
            known.threads[partition] = (sent.generation, thread)

    def _eager(self, group: str, known: Known, places: Changes) -> None:
        starts = [
            path
            for place, path, before, after in places
            if place.group == group
            and place.kind == "command"
            and before is None
            and known.commands.get(path, ("", ""))[1] == "start-fetcher"
        ]
        stops = [
            path
            for path, (member, option) in known.commands.items()
            if option == "stop-fetcher" and member in known.members
        ]
        if starts and stops:
            self.violate("I15", f"{starts[0]} while {stops[0]} is outstanding in an eager group")
        if starts:
            self.kernel.happened["eager start judged"] += 1


def _json(data: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _registered(data: bytes) -> Registered:
    value = _json(data)
    grace = str(value.get("grace_ms", "0"))
    wishes = json.dumps(
        [
            value.get(name)
            for name in ("subscription", "pattern", "assignors", "protocols", "user_data")
        ],
        sort_keys=True,
    )
    custom = not set(str(value.get("assignors") or "sticky").split(",")) <= BUILT_IN
    return Registered(
        str(value.get("instance") or ""), int(grace) if grace.isdigit() else 0, wishes, custom
    )


def _sent(member: str, data: bytes) -> Sent | None:
    value = _json(data)
    threads, generation, epoch = (
        value.get("ownershipMap", {}),
        value.get("generation"),
        value.get("epoch"),
    )
    if (
        not isinstance(generation, int)
        or not isinstance(epoch, int)
        or not isinstance(threads, dict)
    ):
        return None
    return Sent(
        member,
        str(value.get("option")),
        generation,
        {str(k): str(v) for k, v in threads.items()},
        epoch,
        str(value.get("incarnation")),
        str(value.get("code")),
    )
