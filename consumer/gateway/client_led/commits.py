"""OffsetCommit of members of client-led groups: judged by what was decided of the group, stored on
the gateway's pool with a check that this has not changed, and judged again where it has. Those of
one member are stored one after the other, as they came.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import field
from typing import Any, Protocol

from consumer.gateway.client_led.group import LedGroup
from consumer.gateway.client_led.member import COMMITS_MAX, LedMember, WaitingOffsets
from consumer.gateway.client_led.translating import to_check
from consumer.gateway.client_led.watching import LedSeen, Watching
from consumer.gateway.own_session import OwnSession
from consumer.gateway.wire.committing import judged
from consumer.gateway.wire.requests import (
    Answer,
    Caller,
    CommitAnswer,
    CommitRequest,
    MayCommitRequest,
)
from zkcoord.core.error_codes import WireCode
from zkcoord.core.model import TopicPartition
from zkcoord.core.value_type import value
from zkcoord.znodes.names import is_partition, shown

log = logging.getLogger(__name__)

TRIES_MAX = 5
NOT_STORED = "offsets of client-led group %s are not stored, by a defect: please report it"

Codes = dict[TopicPartition, WireCode]
Stored = Callable[[Codes | None], None]


@value
class MembersCommit:
    """What is stored: next offsets, and what stands beside each. `version`: of the state by which
    its member may; `session`: of the gateway that serves it. Where one of both has changed nothing
    more is stored: a gateway that hung may have taken this long before what its client has
    committed at another one since. Or it reads that only now, from a connection that nobody has
    closed, and serves the member by it: so of one that has just come nothing goes back (`forward`).
    """

    group: str
    member_id: str
    version: int
    session: int
    forward: bool = False
    offsets: Mapping[TopicPartition, tuple[int, str]] = field(default_factory=dict)


class CommitsOfMembers(Protocol):
    """Stores them, on a thread that may block."""

    def commit_of_member(self, commit: MembersCommit, codes: Codes) -> Iterator[bool]:
        """In parts, between which others have their turn; True: its member may do so no more."""


class OnPool(Protocol):
    """Runs what blocks."""

    def __call__(self, work: Callable[[], Any], /) -> Future[Any]:
        """See above."""


class Storing:
    """Stores them. `post` brings the end back to the members' loop."""

    def __init__(
        self,
        store: CommitsOfMembers,
        on_pool: OnPool,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._store = store
        self._on_pool = on_pool
        self._post = post
        self._told = False

    def store(self, commit: MembersCommit, done: Stored) -> None:
        """Store it; `done` hears the code of each partition; None: the state has changed, and what
        is stored is to be stored again by whoever may. A defect is answered as a broker's would be:
        UNKNOWN_SERVER_ERROR, of what is not known to be stored.
        """

        def work() -> None:
            codes: Codes = {}
            fenced = False
            try:
                fenced = any(self._store.commit_of_member(commit, codes))
            except Exception:  # thread main: its client must hear something
                if not self._told:  # one defect may meet every commit
                    self._told = True
                    log.exception(NOT_STORED, shown(commit.group))
                left = commit.offsets.keys() - codes.keys()
                codes.update(dict.fromkeys(left, WireCode.UNKNOWN_SERVER_ERROR))
            self._post(lambda: done(None if fenced else codes))

        self._on_pool(work)


class LedCommits:
    """See the module. `session` is the gateway's; `clock` tells ms."""

    def __init__(
        self,
        storing: Storing,
        watching: Watching,
        answer: Callable[[int, Answer], None],
        session: OwnSession,
        clock: Callable[[], int],
    ) -> None:
        self._session = session
        self._clock = clock
        self._storing = storing
        self._watching = watching
        self._answer = answer

    def commit(
        self,
        group: LedGroup,
        member: LedMember | None,
        ticket: int,
        caller: Caller,
        request: CommitRequest,
    ) -> bool:
        """Store it, or say why not; whether its member may store anything."""
        code = group.view.commit(to_check(request))
        if code is not WireCode.NONE or member is None:
            refused = code if code is not WireCode.NONE else WireCode.UNKNOWN_MEMBER_ID
            self._answer(ticket, CommitAnswer(refused))
            return False
        fit = {
            tp: value
            for tp, value in request.offsets.items()
            if is_partition(tp.topic, str(tp.partition))
        }
        unfit = request.offsets.keys() - fit.keys()
        offsets, bad = judged(fit, lambda tp, offset: WireCode.NONE)
        refused_codes = dict.fromkeys(unfit, WireCode.UNKNOWN_TOPIC_OR_PARTITION) | bad
        if not offsets:
            self._answer(ticket, CommitAnswer(WireCode.NONE, refused_codes))
        elif len(member.commits) >= COMMITS_MAX:
            self._answer(ticket, CommitAnswer(WireCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            member.commits.append(
                WaitingOffsets(caller.connection, ticket, request, offsets, refused_codes)
            )
            self.go_on(group, member)
        return True

    def go_on(self, group: LedGroup, member: LedMember) -> None:
        """Store the next one, if none is being stored and its group is known as it is."""
        while member.commits and not member.is_storing and self._watching.is_current(group.name):
            one = member.commits[0]
            code = group.view.commit(to_check(one.request))
            if code is not WireCode.NONE:
                member.commits.popleft()
                self._answer(one.ticket, CommitAnswer(code))
                continue
            member.is_storing = True
            may = member.member_id, group.seen.version, self._session.session_id
            forward = member.has_just_come(self._clock())
            commit = MembersCommit(group.name, *may, forward, one.offsets)
            self._storing.store(commit, self._ended(group, member, one))

    def _ended(
        self, group: LedGroup, member: LedMember, one: WaitingOffsets
    ) -> Callable[[Codes | None], None]:
        def ended(codes: Codes | None) -> None:
            member.is_storing = False
            if not member.commits or member.commits[0] is not one:
                # it was answered when its member was gone, or its connection
                return self.go_on(group, member)
            one.tries += 1
            if codes is None and one.tries < TRIES_MAX:
                self._watching.read_again(group.name)
                return
            member.commits.popleft()
            later = CommitAnswer(WireCode.COORDINATOR_LOAD_IN_PROGRESS)
            done = CommitAnswer(WireCode.NONE, {**one.refused, **(codes or {})})
            self._answer(one.ticket, later if codes is None else done)
            self.go_on(group, member)

        return ended

    def may_commit(self, group: LedGroup, ticket: int, request: MayCommitRequest) -> bool:
        """Say whether its member may store offsets in Kafka: by what is known, and if that says
        yes, by what is there now. Whether it is a member as far as that is known.
        """
        check = to_check(request)
        code = group.view.commit(check)
        if code is not WireCode.NONE:
            self._answer(ticket, CommitAnswer(code))
            return False

        def read(seen: LedSeen | None) -> None:
            later = WireCode.COORDINATOR_NOT_AVAILABLE
            now = later if seen is None else seen.view.commit(check)
            self._answer(ticket, CommitAnswer(now))

        self._watching.look_now(group.name, read)
        return True

    def end(self, member: LedMember, code: WireCode) -> None:
        """Its member is not served here any more."""
        while member.commits:
            self._answer(member.commits.popleft().ticket, CommitAnswer(code))
