"""LeaveGroups that name members of both kinds: each is answered by its own machine, and the answers
are put together again. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from consumer.gateway.wire.requests import Answer, LeaveAnswer, LeaveRequest
from zkcoord.core.error_codes import WireCode


@dataclass(slots=True, eq=False)
class _PartedLeave:
    """`codes`: of its members, as far as they are answered; `waits`: how many parts are not."""

    ticket: int
    codes: list[WireCode]
    waits: int = 0


@dataclass(slots=True)
class PartedLeaves:
    """See the module. `answer` takes what is whole; tickets of parts are below 0."""

    answer: Callable[[int, Answer], None]
    _parts: dict[int, tuple[_PartedLeave, Sequence[int]]] = field(default_factory=dict)
    _tickets: int = 0

    def part(
        self, ticket: int, request: LeaveRequest, is_first: Sequence[bool]
    ) -> Iterator[tuple[int, LeaveRequest]]:
        """A request for each kind, with tickets of their own: one about the members of which this
        is so, and one about the others.
        """
        whole = _PartedLeave(ticket, [WireCode.UNKNOWN_MEMBER_ID] * len(request.members), 2)
        reasons = (*request.reasons, *("" for _ in request.members))
        for kind in (True, False):
            places = [at for at, one in enumerate(is_first) if one is kind]
            self._tickets -= 1
            self._parts[self._tickets] = whole, places
            members = tuple(request.members[at] for at in places)
            said = tuple(reasons[at] for at in places)
            yield self._tickets, replace(request, members=members, reasons=said)

    def answered(self, ticket: int, answer: Answer) -> None:
        """Any answer: that of a part waits for the other."""
        if ticket not in self._parts:
            return self.answer(ticket, answer)
        whole, places = self._parts.pop(ticket)
        assert isinstance(answer, LeaveAnswer)
        # what is refused as a whole is so for each of this part
        codes = answer.members if answer.code is WireCode.NONE else [answer.code] * len(places)
        for at, code in zip(places, codes, strict=True):
            whole.codes[at] = code
        whole.waits -= 1
        if whole.waits:
            return None
        return self.answer(whole.ticket, LeaveAnswer(WireCode.NONE, tuple(whole.codes)))
