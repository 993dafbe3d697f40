"""What is written of client-led groups, read at the beginning of a term.

With roles it counts only where nobody but coordinators may write it now. While others may write
what is above all of them none is served; a group whose own nodes are others' to write is left
alone, as one that the coordinator assigns would be. Both are named and looked at again, as are
groups that cannot be listed, of which none is served:
`zkcoord acl apply` mends it. Of what was said until then nothing is believed but how often it was
written: its members join again, and nobody has a generation twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.events import Record
from zkcoord.core.model import Malformed
from zkcoord.zk.acl.led_belief import LedDoubts, ask_who_wrote
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.classic.edge import Edge, names_in, others_in
from zkcoord.zk.classic.served_group import BOTH_KINDS, Found
from zkcoord.zk.port import (
    Denied,
    GetChildren,
    GetData,
    Missing,
    Node,
    Read,
    ReadAnswer,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.znodes import names
from zkcoord.znodes.classic.documents import ClassicRound, decode_round, decode_state, encode_state
from zkcoord.znodes.classic.paths import member_digest

GROUPS_PER_READ = 50
READS_PER_GROUP = 5
LOOK_AGAIN_MS = 5_000
ANY_VERSION = -1
GENERATIONS_UNWRITTEN = 1_000
"""More than there are of those that could not be written, and whose numbers are not used again."""

Answers = Callable[[tuple[ReadAnswer, ...]], None]


class WrittenGroups:
    """See the module. `read` asks ZooKeeper, `strange` hears of what is not believed. `found(group,
    what is written, which of its nodes are missing)` takes each group, `done` hears of the end,
    and whether they can be served.
    `are_open`: none is served, since others may write what is above all of them; `mended` hears
    that they may not any more, before what is written is read, and goes on with its argument.
    """

    def __init__(
        self,
        edge: Edge,
        read: Callable[[Sequence[Read], Answers], None],
        roles: Roles | None,
        strange: Callable[[Malformed], None],
        found: Callable[[str, Found, list[str]], None],
        done: Callable[[bool], None],
        mended: Callable[[Callable[[], None]], None],
    ) -> None:
        self._edge = edge
        self._paths = edge.paths
        self._read = read
        self._roles = roles
        self._strange = strange
        self._found = found
        self._done = done
        self._mended = mended
        self.are_open = False
        self._was_open = ""
        self._hidden = False
        self._left_alone: dict[str, str] = {}
        self._listed: frozenset[str] = frozenset()
        self._unsettled: set[str] | None = None  # None: nobody knows yet which there are
        self._look_again_ms: int | None = None
        self._looks = False
        self._writes = 0
        self._then: Callable[[], None] | None = None  # goes on when these have ended

    @property
    def left_alone(self) -> int:
        """How many groups are."""
        return len(self._left_alone)

    @property
    def none_is_served(self) -> bool:
        """Whether none is before something is mended: others may write what is above all of them,
        or they cannot be listed.
        """
        return self.are_open or self._hidden

    def may_have_members(self, group: str) -> bool:
        """Whether its state may name some, though it is not served: it was not read yet, or not
        taken back.
        """
        return self._unsettled is None or group in self._unsettled

    def leaves_alone(self, group: str) -> bool:
        """Whether others than coordinators may write what is said of it, or could and it was not
        taken back yet.
        """
        return group in self._left_alone

    def begin(self) -> None:
        """Look which there are, and read one after the other; later where that is not to be
        believed.
        """

        def listed(answers: tuple[ReadAnswer, ...]) -> None:
            (there,) = answers
            self._hidden = isinstance(there, Denied)
            if isinstance(there, Denied):  # what is hidden must not pass for absent
                why = f"{self._paths.groups} cannot be listed ({there.error.value})"
                names_below, why = f"{self._paths.groups}/*", f"none is served: {why}"
                self._strange(Malformed("client-led groups", names_below, why))
                self._unsettled = None
                self._done(False)
                return self._looked()
            found = [n for n in names_in(there) if names.is_group(n)]
            self._see(frozenset(found))
            self._next(found, read)

        def read() -> None:
            self._looked()
            self._done(not self.are_open)

        def judged(doubts: LedDoubts) -> None:
            was_open, self.are_open = self.are_open, bool(doubts.above)
            if doubts.above:
                self._was_open = doubts.above
                why = f"none is served: {doubts.above}"
                self._strange(Malformed("client-led groups", self._paths.groups, why))
            if was_open and not doubts.above:
                self._mended(look)
            else:
                look()

        def look() -> None:
            self._read([GetChildren(self._paths.groups)], listed)

        self._looks = True
        self._judge([], judged)

    def _see(self, listed: frozenset[str]) -> None:
        """Which there are. What was settled stays so, though it is looked at once more."""
        before, known = self._unsettled, self._listed
        if before is None:
            before, known = set(known), frozenset()
        self._unsettled = (before & listed) | (listed - known)
        self._listed = listed
        for group in sorted(before - listed):
            self._edge.freed(group)
        for group in self._left_alone.keys() - listed:
            del self._left_alone[group]

    def next_wake_ms(self) -> int | None:
        """When `tick` has something to do."""
        return None if self._looks else self._look_again_ms

    def tick(self) -> None:
        """Look again at what is left alone when it is time."""
        due_ms = self.next_wake_ms()
        if due_ms is None or self._edge.clock() < due_ms:
            return
        self._look_again_ms, self._looks = None, True
        if self.none_is_served:
            self.begin()
        else:
            self._next(sorted(self._left_alone), self._looked)

    def _looked(self) -> None:
        """All of it was read: one look at a time, or what is served would be taken up again."""
        self._looks = False
        if self.none_is_served or self._left_alone:
            self._look_again_ms = self._edge.clock() + LOOK_AGAIN_MS

    def _next(self, groups: list[str], done: Callable[[], None]) -> None:
        now, later = groups[:GROUPS_PER_READ], groups[GROUPS_PER_READ:]
        if not now:
            return done()
        paths = self._paths
        reads: list[Read] = []
        for group in now:
            reads += [
                GetData(paths.state(group)),
                GetData(paths.round(group)),
                GetChildren(paths.blobs(group)),
                GetChildren(paths.presences(group)),
                GetChildren(paths.layout.ids(group)),
            ]

        def read(answers: tuple[ReadAnswer, ...]) -> None:
            said = range(0, len(answers), READS_PER_GROUP)
            self._judge(now, partial(judged, [answers[at : at + READS_PER_GROUP] for at in said]))

        def judged(answers: list[tuple[ReadAnswer, ...]], doubts: LedDoubts) -> None:
            above = self._was_open if self.are_open else doubts.above
            for group, said in zip(now, answers, strict=True):
                self._take(group, said, above or doubts.of(group), group in doubts.foreign)
            self._then = partial(self._next, later, done)
            self._go_on()

        return self._read(reads, read)

    def _go_on(self) -> None:
        """When all is written: nobody is answered about a group that is not taken up yet."""
        if not self._writes and self._then is not None:
            then, self._then = self._then, None
            then()

    def _judge(self, groups: Sequence[str], then: Callable[[LedDoubts], None]) -> None:
        def answered(doubts: LedDoubts | None) -> None:
            if doubts is not None and not self._edge.dead:
                then(doubts)

        ask_who_wrote(self._edge.port, self._roles, self._paths, groups, answered, True)

    def _take(self, group: str, answers: Sequence[ReadAnswer], why: str, is_foreign: bool) -> None:
        state, since, blobs, presence, ids = answers
        is_settled = True
        decided = decode_state(group, state.data) if isinstance(state, Node) else None
        if isinstance(state, Denied):
            why = why or f"{self._paths.state(group)} cannot be read ({state.error.value})"
        if why:
            is_news = False
            names_some = isinstance(decided, Malformed) or bool(decided and decided.members)
            if names_some and not (is_foreign and _is_served_to_nobody(decided, presence)):
                self._unsettle(group)
            elif not isinstance(state, Denied):
                is_news = self._settled(group)
            if names_some:
                # members of the other kind may come, however often others write it meanwhile
                self._write(group, _nobody_in(state), ANY_VERSION)
            return self._leave_alone(group, why, is_news=is_news)
        was_open = self._left_alone.get(group, "") or self._was_open
        if was_open and all(isinstance(a, Missing) for a in (state, since, blobs, presence)):
            self._left_alone.pop(group, None)
            return self._deleted(group)
        is_written = True
        told = decode_round(group, since.data) if isinstance(since, Node) else ClassicRound()
        if isinstance(decided, Malformed) or (decided is not None and was_open):
            # members come anew
            is_settled = not isinstance(decided, Malformed) and not decided.members
            if isinstance(decided, Malformed):
                self._strange(decided)
            decided, told = _nobody_in(state), ClassicRound(-1)
            is_written = not was_open
        elif decided is not None and _is_untold(decided, presence) and others_in(ids):
            # who led before wrote its first generation, and could not look whether anybody is
            # registered before it had told its members
            decided = ClassicState(ClassicPhase.EMPTY, decided.generation, decided.protocol_type)
            self._edge.record(Record("client-led refusal", group, {"reason": BOTH_KINDS}))
            is_written = is_settled = False
        for answer in answers:
            if isinstance(answer, Denied):
                where, refusal = self._paths.group(group), answer.error.value
                refusal = f"not all of it can be read ({refusal}): see {where}"
                self._strange(Malformed("client-led group", group, refusal))
        found = Found(
            decided,
            isinstance(state, Node),
            told if isinstance(told, ClassicRound) else ClassicRound(-1),
            frozenset(names_in(blobs)),
        )
        found.see(names_in(presence))
        parts = zip(self._paths.parts(group)[1:], (blobs, presence, since), strict=True)
        lacking = [path for path, answer in parts if isinstance(answer, Missing)]

        def take_up() -> None:
            self._left_alone.pop(group, None)
            self._found(group, found, lacking)
            if decided is None:
                self._deleted(group)
            else:  # where it names nobody, it has not named anybody in this term
                self._settled(group)

        if decided is None or is_written or not isinstance(state, Node):
            return take_up()
        if is_settled:
            self._settled(group)
        else:
            self._unsettle(group)
        return self._write(group, decided, state.stat.version, take_up)

    def _leave_alone(self, group: str, why: str, is_news: bool = False) -> None:
        if is_news or group not in self._left_alone:
            self._edge.freed(group)
        self._left_alone[group] = why
        why = f"it is not served, since others than coordinators can have written it: {why}"
        self._strange(Malformed("client-led group", group, why))

    def _write(
        self,
        group: str,
        state: ClassicState,
        version: int,
        take_up: Callable[[], None] = lambda: None,
    ) -> None:
        """That nobody is in it. Until that is written it is left alone, and read anew at each look:
        what it says once it is served is never written over.
        """
        path = self._paths.state(group)

        def ended(refused: Rejected | None) -> None:
            self._writes -= 1
            if refused is None or refused.error is ZkError.NO_NODE:
                take_up()
                self._settled(group)
                self._edge.freed(group)
            elif version != ANY_VERSION:
                self._cannot_be_written(group, path, refused.error)
            self._go_on()

        self._writes += 1
        self._edge.write([SetData(path, encode_state(state), version)], ended)

    def _cannot_be_written(self, group: str, path: str, error: ZkError) -> None:
        """Nobody else may write it any more, and it cannot be taken back."""
        if error is ZkError.BAD_VERSION:  # who is in it now was not read
            self._unsettle(group)
        if group not in self._left_alone:
            self._edge.freed(group)
        self._left_alone[group] = why = f"{path} cannot be written ({error.value})"
        why = f"group {group} is not served, since {why}"
        self._strange(Malformed("state of a client-led group", path, why))

    def _unsettle(self, group: str) -> None:
        if self._unsettled is not None:
            self._unsettled.add(group)

    def _settled(self, group: str) -> bool:
        """What its state says is served, or is nobody: whether that is news."""
        is_news = self._unsettled is not None and group in self._unsettled
        if self._unsettled is not None:
            self._unsettled.discard(group)
        return is_news

    def _deleted(self, group: str) -> None:
        """It has no state any more: whoever has read one looks again."""
        if self._settled(group):
            self._edge.freed(group)


def _is_served_to_nobody(decided: ClassicState | Malformed | None, presence: ReadAnswer) -> bool:
    """Whether no gateway serves any of these members, whatever it believes."""
    if not isinstance(decided, ClassicState) or isinstance(presence, Denied):
        return False
    return {member_digest(one.member_id) for one in decided.members}.isdisjoint(names_in(presence))


def _is_untold(decided: ClassicState, presence: ReadAnswer) -> bool:
    """Whether none of a generation's members may have heard of it: who has is served."""
    return decided.phase is ClassicPhase.COMPLETING and _is_served_to_nobody(decided, presence)


def _nobody_in(state: ReadAnswer) -> ClassicState:
    """What counts in place of what cannot be read or believed. Each generation was written, so
    there were at most so many.
    """
    above = state.stat.version + GENERATIONS_UNWRITTEN if isinstance(state, Node) else 0
    return ClassicState(ClassicPhase.EMPTY, above)
