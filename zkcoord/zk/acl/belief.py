"""Who could have written a node, and so whether it is believed.

ZooKeeper does not say who made a node, and whoever makes one chooses its ACL. What can be known is
who may write it now: its own ACL says who may change it and what is below it, the ACL of the node
above who may make and delete it. So a word that only coordinators and operators are to say counts
where nobody else may write either of the two, and a group is served where nobody may do more with
the nodes it consists of than their places allow.

Whose word counts: the coordinators of `Roles`, and whoever may write the groups' root, because that
is who decides who leads. So an ensemble that is open as a whole (its root is), or whose principals
are being exchanged, is judged by what holds there now, not by one process's options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from zkcoord.zk.port import (
    Acl,
    AclAnswer,
    AclEntry,
    AclsDone,
    AclsResult,
    Denied,
    GetData,
    Missing,
    Node,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
)
from zkcoord.znodes.paths import Layout, parents

from .table import ALL, Roles, bits, is_masked, letters, members_may

WRITING = bits("wcda")
SCHEMES_OF_PLACES = ("world", "ip")
"""Those of whom a coordinator may be one, whatever its credentials are."""
MEND = "look with zkcoord acl audit, mend it with zkcoord acl apply"
BEYOND = (
    "zkcoord acl apply may not mend it: have who made it, or ZooKeeper's superuser, delete or mend"
    " it"
)


class Belief:
    """`root` is the ACL of the groups' root. The answers of all methods are sentences without a
    full stop, "" where nothing is wrong. `by_coordinator`: who asks may be one, and is shown every
    hash where it is (the root says so): a node that hides them is not as its place says. (To a
    member, a user of the coordinators' name with another password looks like a coordinator, unless
    both are there.)
    """

    def __init__(self, roles: Roles, root: AclAnswer, by_coordinator: bool = False) -> None:
        self.roles = roles
        entries = root.entries if isinstance(root, Acl) else ()
        self.by_coordinator = by_coordinator and not any(map(is_masked, entries))
        self.of_root = [e.id for e in entries if is_masked(e) and e.perms & bits("w")]
        self.trusted = {(p.scheme, p.id) for p in roles.coordinators} | {
            (entry.scheme, entry.id) for entry in self._known(entries) if entry.perms & bits("w")
        }
        self.members = {(p.scheme, p.id) for p in roles.members} - self.trusted

    def usable(self, path: str, answer: AclAnswer, also: str = "") -> str:
        """Whether a node that a group consists of gives somebody more than its place does, or
        keeps coordinators out. `also`: letters that members may have beside.
        """
        if not isinstance(answer, Acl):
            return self._hidden(path, answer)
        entries = list(self._known(answer.entries))
        wrong = self._unknown(path, answer.entries) or self._more(
            path, answer.entries, bits(members_may(path)) | bits(also)
        )
        if wrong or any(
            (entry.scheme, entry.id) in self.trusted and entry.perms == bits(ALL)
            for entry in entries
        ):
            return wrong
        return f"{path} keeps coordinators out: {self._mend(answer.entries)}"

    def usable_group(
        self, layout: Layout, group: str, paths: Sequence[str], answers: Sequence[AclAnswer]
    ) -> str:
        """As `usable`, of some of the nodes that a group consists of. (Before coordinators made
        them members did, and may create below those that hold others. Requests are words, which are
        not believed where they could be anybody's: a group can be served without.)
        """
        above = layout.above_parts(group)
        found = (
            self.usable(path, answer, "c" if path in above else "")
            for path, answer in zip(paths, answers, strict=True)
            if path != layout.requests(group)
        )
        return next((wrong for wrong in found if wrong), "")

    def closed(self, path: str, answer: AclAnswer) -> str:
        """Whether anybody but coordinators may write a node."""
        if not isinstance(answer, Acl):
            return self._hidden(path, answer)
        return self._unknown(path, answer.entries) or self._more(path, answer.entries, 0)

    def writable(self, answer: AclAnswer) -> bool:
        """Whether a coordinator can have written a node; one whose ACL is hidden may be its."""
        return isinstance(answer, Denied) or (
            isinstance(answer, Acl)
            and any(
                entry.perms & bits("w") and (entry.scheme, entry.id) in self.trusted
                for entry in self._known(answer.entries)
            )
        )

    def _known(self, entries: Iterable[AclEntry]) -> Iterable[AclEntry]:
        return (self.roles.unmasked(entry) for entry in entries)

    def _unknown(self, path: str, entries: Sequence[AclEntry]) -> str:
        """Whether users are not who they seem to be."""
        twice = self.roles.doubled(entries, self.of_root)
        if twice:
            what = f"has two users {twice}, with different passwords"
            return f"{path} {what}: {self._mend(entries)}"
        masked = next(filter(is_masked, entries), None) if self.by_coordinator else None
        if masked is not None:
            return f"{path} does not show coordinators who {masked.who} is: {BEYOND}"
        return ""

    def _mend(self, entries: Sequence[AclEntry]) -> str:
        """Who can. Whoever may change an ACL is shown every hash in it."""
        if self.by_coordinator and any(map(is_masked, entries)):
            return BEYOND
        ours = any(
            entry.scheme in SCHEMES_OF_PLACES or (entry.scheme, entry.id) in self.trusted
            for entry in self._known(entries)
            if entry.perms & bits("a")
        )
        return MEND if ours else BEYOND

    def _more(self, path: str, entries: Sequence[AclEntry], members: int) -> str:
        for entry in self._known(entries):
            who = (entry.scheme, entry.id)
            allowed = members if who in self.members else 0
            more = entry.perms & WRITING & ~allowed
            if who not in self.trusted and more:
                return f"{path} lets {entry.who} do {letters(more)}: {self._mend(entries)}"
        return ""

    def _hidden(self, path: str, answer: AclAnswer) -> str:
        """A node that is not there says nothing."""
        return (
            f"{path} may not be read with these credentials ({answer.error.value}): delete it with"
            " those that may (ZooKeeper's superuser always may)"
            if isinstance(answer, Denied)
            else ""
        )


def judge_other_leader(
    port: Port,
    roles: Roles,
    layout: Layout,
    done: Callable[[str | None], None],
    by_coordinator: bool = False,
) -> None:
    """Ask who could have made the leader node of the other layout, now or before somebody closed
    it: a coordinator makes it in the multi that writes that layout's epoch. `done` gets "" where it
    is believed, else why not; None where ZooKeeper does not answer.
    """
    leader, epoch = layout.other_profile().leader, layout.other_profile().epoch
    paths = (layout.epoch, parents(leader)[-1], leader)

    def looked(result: ReadResult) -> None:
        if not isinstance(result, ReadDone):
            return done(None)
        before, node, after = result.answers
        alone = _is_of_no_epoch(before, node, after)
        done(f"{leader} was not made together with {epoch}" if alone else "")

    def answered(result: AclsResult) -> None:
        if not isinstance(result, AclsDone):
            return done(None)
        root, above, node = result.answers
        belief = Belief(roles, root, by_coordinator)
        wrong = belief.closed(paths[1], above) or belief.closed(paths[2], node)
        if wrong:
            return done(wrong)
        # a server before 3.6 reads one after the other: whether the epoch was written between
        port.read((GetData(epoch), GetData(leader), GetData(epoch)), looked)

    port.acls(paths, answered)


def _is_of_no_epoch(before: ReadAnswer, leader: ReadAnswer, after: ReadAnswer) -> bool:
    """Whether no coordinator made a leader's node, by the epoch as it was before and after."""
    written, last = _written(before), _written(after)
    return (
        isinstance(leader, Node)
        and written is not None
        and written == last
        and leader.stat.czxid != written
    )


def _written(epoch: ReadAnswer) -> int | None:
    """In which transaction; 0: never, None: that is not known."""
    if isinstance(epoch, Missing):
        return 0
    return epoch.stat.mzxid if isinstance(epoch, Node) else None
