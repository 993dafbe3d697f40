"""What the coordinator says of a client-led group for people, in the group's own node: since when
it is as it is, whom a rebalance waits for, how the last one went. Nobody decides by it. It is
written seldom, and after what it is about: what was decided is in the state.
"""

from __future__ import annotations

from zkcoord.core.classic.state import WORDS_CHARS_MAX, ClassicPhase
from zkcoord.core.model import Malformed
from zkcoord.core.value_type import value
from zkcoord.znodes.classic.documents import INT32_MAX, MEMBER_ID_CHARS_MAX, VERSION
from zkcoord.znodes.classic.fields import flag, listed, text
from zkcoord.znodes.strict_json import (
    INT64_MAX,
    JsonObject,
    UnfitField,
    free_text,
    integer,
    reading,
    required,
    to_bytes,
)

NAMED_MAX = 50
"""Of many members that are waited for some are named, and all are counted."""

COUNT_MAX = 1_000_000
CAUSE_CHARS_MAX = MEMBER_ID_CHARS_MAX + 2 * WORDS_CHARS_MAX
PROBLEMS_MAX = 20
REPORT_BYTES_MAX = 524_288


@value
class Why:
    """What began a rebalance: the kind (of `CauseKind`, or of a later release), whom it was about,
    and in words.
    """

    kind: str
    trigger: str = ""
    words: str = ""


@value
class Named:
    """Members: how many, and the names of some."""

    count: int = 0
    names: tuple[str, ...] = ()


@value
class WaitsSaid:
    """Whom a rebalance waits for, which began at `since_ms` (wall clock), until `until_ms` at most.
    `unjoined`: members without another JoinGroup; `pending`: ids that were given out and have not
    been used; `unsynced`: members without a SyncGroup, of whom the `leader`'s is needed (""). An
    initial one waits for whoever comes.
    """

    why: Why
    since_ms: int
    until_ms: int
    is_initial: bool = False
    unjoined: Named = Named()
    pending: Named = Named()
    unsynced: Named = Named()
    leader: str = ""


@value
class EndedSaid:
    """How the last rebalance went, which ended at `at_ms` (wall clock); the rest as in
    `Rebalanced`.
    """

    why: Why
    at_ms: int
    generation: int
    members: int
    duration_ms: int
    joins_ms: int
    last: str = ""
    out: Named = Named()
    again: int = 0


@value
class ClassicReport:
    """See the module. `since_ms`: wall clock."""

    phase: ClassicPhase
    generation: int
    since_ms: int
    waits: WaitsSaid | None = None
    ended: EndedSaid | None = None
    problems: tuple[str, ...] = ()


def named(names: tuple[str, ...]) -> Named:
    """All of these, of whom some are named."""
    return Named(len(names), names[:NAMED_MAX])


def encode_report(report: ClassicReport) -> bytes:
    """The node's data."""
    waits, ended = report.waits, report.ended
    document: JsonObject = {
        "version": VERSION,
        "phase": report.phase.value,
        "generation": report.generation,
        "since": report.since_ms,
        "waits": None,
        "ended": None,
        "problems": [one[:CAUSE_CHARS_MAX] for one in report.problems[:PROBLEMS_MAX]],
    }
    if waits is not None:
        document["waits"] = {
            **_of_why(waits.why),
            "since": waits.since_ms,
            "until": waits.until_ms,
            "initial": waits.is_initial,
            "unjoined": _of_named(waits.unjoined),
            "pending": _of_named(waits.pending),
            "unsynced": _of_named(waits.unsynced),
            "leader": waits.leader,
        }
    if ended is not None:
        document["ended"] = {
            **_of_why(ended.why),
            "at": ended.at_ms,
            "generation": ended.generation,
            "members": ended.members,
            "duration": ended.duration_ms,
            "joins": ended.joins_ms,
            "last": ended.last,
            "out": _of_named(ended.out),
            "again": ended.again,
        }
    return to_bytes(document)


def _of_why(why: Why) -> JsonObject:
    return {"cause": why.kind, "trigger": why.trigger, "words": why.words[:CAUSE_CHARS_MAX]}


def _of_named(members: Named) -> list[object]:
    return [members.count, *members.names[:NAMED_MAX]]


def decode_report(group: str, data: bytes) -> ClassicReport | Malformed | None:
    """What is said of a group; None: nothing yet. Never raises."""
    if not data:
        return None
    return reading("report of a client-led group", group, data, _report, REPORT_BYTES_MAX)


_PHASES = {phase.value: phase for phase in ClassicPhase}


def _report(document: JsonObject) -> ClassicReport:
    integer(document, "version", VERSION, VERSION)
    phase = _PHASES.get(text(document, "phase", WORDS_CHARS_MAX))
    if phase is None:
        raise UnfitField(f"phase is not one of {', '.join(_PHASES)}")
    problems = listed(document, "problems", PROBLEMS_MAX)
    if not all(isinstance(one, str) and len(one) <= CAUSE_CHARS_MAX for one in problems):
        raise UnfitField("problems holds what is no sentence")
    waits, ended = required(document, "waits"), required(document, "ended")
    return ClassicReport(
        phase,
        integer(document, "generation", 0, INT32_MAX),
        integer(document, "since", 0, INT64_MAX),
        None if waits is None else _waits(_object(waits, "waits")),
        None if ended is None else _ended(_object(ended, "ended")),
        tuple(map(str, problems)),
    )


def _object(value: object, key: str) -> JsonObject:
    if type(value) is not dict:
        raise UnfitField(f"{key} is no object")
    return value


def _waits(document: JsonObject) -> WaitsSaid:
    return WaitsSaid(
        _why(document),
        integer(document, "since", 0, INT64_MAX),
        integer(document, "until", 0, INT64_MAX),
        flag(document, "initial"),
        _named(document, "unjoined"),
        _named(document, "pending"),
        _named(document, "unsynced"),
        free_text(document, "leader", MEMBER_ID_CHARS_MAX),
    )


def _ended(document: JsonObject) -> EndedSaid:
    return EndedSaid(
        _why(document),
        integer(document, "at", 0, INT64_MAX),
        integer(document, "generation", 0, INT32_MAX),
        integer(document, "members", 0, COUNT_MAX),
        integer(document, "duration", 0, INT64_MAX),
        integer(document, "joins", 0, INT64_MAX),
        free_text(document, "last", MEMBER_ID_CHARS_MAX),
        _named(document, "out"),
        integer(document, "again", 0, COUNT_MAX),
    )


def _why(document: JsonObject) -> Why:
    return Why(
        text(document, "cause", WORDS_CHARS_MAX),
        text(document, "trigger", MEMBER_ID_CHARS_MAX),
        text(document, "words", CAUSE_CHARS_MAX),
    )


def _named(document: JsonObject, key: str) -> Named:
    match listed(document, key, NAMED_MAX + 1):
        case [int(count), *names] if (
            type(count) is int
            and len(names) <= count <= COUNT_MAX
            and all(isinstance(one, str) and len(one) <= MEMBER_ID_CHARS_MAX for one in names)
        ):
            return Named(count, tuple(map(str, names)))
    raise UnfitField(f"{key} says no members")
