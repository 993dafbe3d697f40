"""What the groups whose leader is a client share: the session, the fence, and who hears what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zkcoord.core.classic.requests import ClassicAnswer
from zkcoord.core.events import Record
from zkcoord.zk.port import (
    OPS_PER_MULTI_MAX,
    READS_PER_REQUEST_MAX,
    AclEntry,
    Check,
    Children,
    Committed,
    Create,
    Delete,
    Denied,
    GetChildren,
    GetData,
    MultiResult,
    Node,
    Op,
    Port,
    ReadAnswer,
    ReadDone,
    ReadResult,
    Rejected,
    Unanswered,
    ZkError,
)
from zkcoord.znodes.classic.paths import ClassicPaths
from zkcoord.znodes.registration import is_somebodys

LOOKED_AT_ONCE = 50
"""Registrations, of which each may be as long as a node can be."""


@dataclass
class Edge:
    """Of one connection of a term. `reply(ticket, answer)` answers a request, `touched` is told of
    which group something has happened, `freed` of which it is written that no client leads it any
    more, `fenced` that another coordinator leads. `wall_clock` is for people; `reads_max`: so many
    reads make an answer that is taken.
    """

    port: Port
    paths: ClassicPaths
    fence: Check
    acl: tuple[AclEntry, ...]
    clock: Callable[[], int]
    record: Callable[[Record], None]
    reply: Callable[[int, ClassicAnswer], None]
    touched: Callable[[str], None]
    freed: Callable[[str], None]
    fenced: Callable[[str], None]
    wall_clock: Callable[[], int]
    dead: bool = False
    reads_max: int = READS_PER_REQUEST_MAX

    def wall_ms(self, at_ms: int) -> int:
        """A time of `clock`, for people."""
        return self.wall_clock() - self.clock() + at_ms

    def create(self, path: str, data: bytes = b"") -> Create:
        """A node of the coordinator's."""
        return Create(path, data, acl=self.acl)

    def write(self, ops: Sequence[Op], done: Callable[[Rejected | None], None]) -> None:
        """Write, if this term is not over. `done`: what was refused, counted without the fence
        (None: nothing). Nothing is heard where the end is not known: whoever reads next knows.
        """

        def ended(result: MultiResult) -> None:
            match result:
                case _ if self.dead:
                    return
                case Committed():
                    done(None)
                case Rejected(0, ZkError.BAD_VERSION | ZkError.NO_NODE):
                    self.fenced("another epoch is in force")
                case Rejected():
                    done(Rejected(result.index - 1, result.error))
                case Unanswered():
                    pass

        self.port.multi([self.fence, *ops], ended)

    def write_but(
        self, error: ZkError, ops: Sequence[Op], done: Callable[[Rejected | None], None]
    ) -> None:
        """The same, but what is refused by this error is done already, and left out."""

        def ended(refused: Rejected | None) -> None:
            if refused is not None and refused.error is error and 0 <= refused.index < len(ops):
                rest = [*ops[: refused.index], *ops[refused.index + 1 :]]
                return self.write_but(error, rest, done)
            return done(refused)

        if ops:
            self.write(ops, ended)
        else:
            done(None)

    def look_for_others(self, group: str, then: Callable[[bool], None]) -> None:
        """Whether somebody is registered in a group whom the coordinator assigns: what was there
        before the last write is seen. What would stay without its maker is nobody's. Nothing is
        heard when the connection is lost.
        """
        ids = self.paths.layout.ids(group)

        def listed(result: ReadResult) -> None:
            if isinstance(result, ReadDone) and not self.dead:
                (answer,) = result.answers
                look([name for name in names_in(answer) if is_somebodys(name)], others_in(answer))

        def look(names: list[str], others: bool) -> None:
            if not others or not names:
                return then(others)
            part = names[: min(self.reads_max, LOOKED_AT_ONCE)]

            def read(result: ReadResult) -> None:
                if isinstance(result, ReadDone) and not self.dead:
                    found = any(map(_is_of_a_session, result.answers))
                    later = names[len(part) :]
                    if found:
                        then(True)
                    else:
                        look(later, bool(later))

            return self.port.read([GetData(f"{ids}/{name}") for name in part], read)

        self.port.read([GetChildren(ids)], listed)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete nodes, in parts. Those of a part of which one is missing stay."""
        for at in range(0, len(paths), OPS_PER_MULTI_MAX - 1):
            part = paths[at : at + OPS_PER_MULTI_MAX - 1]
            self.write([Delete(path) for path in part], lambda refused: None)


def others_in(ids: ReadAnswer) -> bool:
    """Whether anybody is registered in a group whom the coordinator assigns, or may be."""
    if isinstance(ids, Denied):
        return True
    found = ids.names if isinstance(ids, Children) else ()
    return any(map(is_somebodys, found))


def _is_of_a_session(registration: ReadAnswer) -> bool:
    """Whether somebody's session keeps it, or may."""
    if isinstance(registration, Node):
        return registration.stat.ephemeral_owner != 0
    return isinstance(registration, Denied)


def names_in(answer: ReadAnswer) -> tuple[str, ...]:
    """Of a node's children; none where it is missing, or not to be listed."""
    return answer.names if isinstance(answer, Children) else ()
