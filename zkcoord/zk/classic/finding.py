"""What is written of client-led groups, read at the beginning of a term.

With roles it counts only where nobody but coordinators may write it now; of a group where that is
not so nothing is believed but how often its state was written: its members join again, and nobody
has a generation twice. It is named, and `zkcoord acl apply` mends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zkcoord.core.classic.state import ClassicPhase, ClassicState
from zkcoord.core.events import Record
from zkcoord.core.model import Malformed
from zkcoord.zk.acl.belief import Belief
from zkcoord.zk.acl.table import Roles
from zkcoord.zk.classic.edge import Edge, names_in, others_in
from zkcoord.zk.classic.served_group import BOTH_KINDS, Found
from zkcoord.zk.port import (
    AclsDone,
    AclsResult,
    Denied,
    GetChildren,
    GetData,
    Missing,
    Node,
    Read,
    ReadAnswer,
    SetData,
)
from zkcoord.znodes import names
from zkcoord.znodes.classic.documents import ClassicRound, decode_round, decode_state, encode_state

GROUPS_PER_READ = 50
READS_PER_GROUP = 5
GENERATIONS_UNWRITTEN = 1_000
"""More than there are of those that could not be written, and whose numbers are not used again."""

Answers = Callable[[tuple[ReadAnswer, ...]], None]


class WrittenGroups:
    """See the module. `read` asks ZooKeeper, `strange` hears of what is not believed. `found(group,
    what is written, which of its nodes are missing)` takes each group, `done` hears of the end.
    """

    def __init__(
        self,
        edge: Edge,
        read: Callable[[Sequence[Read], Answers], None],
        roles: Roles | None,
        strange: Callable[[Malformed], None],
        found: Callable[[str, Found, list[str]], None],
        done: Callable[[], None],
    ) -> None:
        self._edge = edge
        self._paths = edge.paths
        self._read = read
        self._roles = roles
        self._strange = strange
        self._found = found
        self._done = done

    def begin(self) -> None:
        """Look which there are, and read one after the other."""

        def listed(answers: tuple[ReadAnswer, ...]) -> None:
            self._next([name for name in names_in(answers[0]) if names.is_group(name)])

        self._read([GetChildren(self._paths.groups)], listed)

    def _next(self, groups: list[str]) -> None:
        now, later = groups[:GROUPS_PER_READ], groups[GROUPS_PER_READ:]
        if not now:
            return self._done()
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

        def judged(answers: list[tuple[ReadAnswer, ...]], why: dict[str, str]) -> None:
            for group, said in zip(now, answers, strict=True):
                self._take(group, said, why.get(group, ""))
            self._next(later)

        return self._read(reads, read)

    def _judge(self, groups: list[str], then: Callable[[dict[str, str]], None]) -> None:
        """Tell for each of them why what is written of it is not believed."""
        if self._roles is None:
            return then({})
        roles, paths = self._roles, self._paths
        above = (paths.layout.epoch, *paths.above_groups())
        own = {g: (paths.group(g), paths.state(g), paths.round(g)) for g in groups}

        def answered(result: AclsResult) -> None:
            if not isinstance(result, AclsDone) or self._edge.dead:
                return
            belief, acls = Belief(roles, result.answers[0], True), iter(result.answers)
            closed = [belief.closed(path, next(acls)) for path in above]
            wrong = next(filter(None, closed), "")
            why = {}
            for group, nodes in own.items():
                each = [belief.closed(path, next(acls)) for path in nodes]
                why[group] = wrong or next(filter(None, each), "")
            then(why)

        nodes = [path for group in groups for path in own[group]]
        return self._edge.port.acls([*above, *nodes], answered)

    def _take(self, group: str, answers: Sequence[ReadAnswer], why: str) -> None:
        state, since, blobs, presence, ids = answers
        decided: ClassicState | Malformed | None = None
        if isinstance(state, Node):
            decided = decode_state(group, state.data)
            if why:
                why = f"others than coordinators can have written it: {why}"
                decided = Malformed("client-led group", group, why)
        if isinstance(decided, Malformed):
            # members come anew; each generation was written, so there were at most so many
            self._strange(decided)
            above = state.stat.version + GENERATIONS_UNWRITTEN if isinstance(state, Node) else 0
            decided = ClassicState(ClassicPhase.EMPTY, above)
        completing = decided is not None and decided.phase is ClassicPhase.COMPLETING
        if decided is not None and completing and others_in(ids):
            # who led before wrote its first generation, and could not look whether anybody is
            # registered before it had told its members
            decided = ClassicState(ClassicPhase.EMPTY, decided.generation, decided.protocol_type)
            self._edge.record(Record("client-led refusal", group, {"reason": BOTH_KINDS}))
            self._write(group, decided)
        elif decided is not None and why:
            self._write(group, decided)  # so it is not believed once that is mended
        for answer in answers:
            if isinstance(answer, Denied):
                where, refusal = self._paths.group(group), answer.error.value
                refusal = f"not all of it can be read ({refusal}): see {where}"
                self._strange(Malformed("client-led group", group, refusal))
        told = decode_round(group, since.data) if isinstance(since, Node) else ClassicRound()
        found = Found(
            decided,
            isinstance(state, Node),
            told if isinstance(told, ClassicRound) and not why else ClassicRound(-1),
            frozenset(names_in(blobs)),
        )
        found.see(names_in(presence))
        parts = zip(self._paths.parts(group)[1:], (blobs, presence, since), strict=True)
        lacking = [path for path, answer in parts if isinstance(answer, Missing)]
        self._found(group, found, lacking)

    def _write(self, group: str, state: ClassicState) -> None:
        written = SetData(self._paths.state(group), encode_state(state), -1)
        self._edge.write([written], lambda refused: None)
