"""The machine as the side that scenarios are played against: with a clock that goes on by itself
and a store that persists at once, unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.core.classic.scenario import OPTIONS, Play, Scenario
from zkcoord.core.classic.machine import ClassicGroup
from zkcoord.core.classic.messages import (
    Asked,
    ClassicAction,
    ClassicInput,
    ClassicReply,
    ClassicTick,
    Dismissed,
    Moved,
    NotPersisted,
    Persist,
    Persisted,
    Rejoin,
    Unload,
)
from zkcoord.core.classic.requests import (
    ClassicAnswer,
    ClassicRequest,
)
from zkcoord.core.classic.state import ClassicOptions, ClassicPhase, ClassicState
from zkcoord.core.error_codes import WireCode

WAKES_MAX = 1_000


def options_of(scenario: Scenario) -> ClassicOptions:
    """What it says, and the usual ones."""
    given = dict(word.split("=") for word in scenario.options.split())
    return replace(OPTIONS, **{name: int(value) for name, value in given.items()})


class MachineSide:
    """See the module. `made`: of which machine."""

    def __init__(
        self,
        options: ClassicOptions,
        made: Callable[[ClassicOptions], ClassicGroup] = ClassicGroup,
    ) -> None:
        self.options = options
        self._made = made
        self.now_ms = 1_000
        self.group = made(options)
        self.written: ClassicState | None = None
        self.in_flight: Persist | None = None
        self.answers: dict[int, ClassicAnswer] = {}
        self.told: set[str] = set()
        self.sent: dict[str, int] = {}
        self.reason = ""
        self._holds = False
        self._tickets = 0

    def send(self, request: ClassicRequest, version: int) -> int:
        """Ask; the ticket."""
        self._tickets += 1
        self._step(Asked(self._tickets, request))
        return self._tickets

    def answer(self, ticket: int, patient: bool) -> ClassicAnswer | None:
        """The answer, if there is one."""
        self._tick()
        return self.answers.get(ticket)

    def wait(self, ms: int) -> None:
        """From one time at which it wants to be woken to the next."""
        until = self.now_ms + ms
        for _ in range(WAKES_MAX):
            wake = self.group.next_wake_ms()
            if wake is None or wake > until:
                break
            self.now_ms = max(self.now_ms, wake)
            self._step(ClassicTick())
        else:
            raise AssertionError("it wants to be woken again and again")
        self.now_ms = until

    def _form(self) -> None:
        """Time goes on until the group has formed."""
        for _ in range(WAKES_MAX):
            wake = self.group.next_wake_ms()
            if wake is None or self.group.phase is not ClassicPhase.PREPARING:
                return
            self.now_ms = max(self.now_ms, wake)
            self._step(ClassicTick())
        raise AssertionError("it does not form")

    def machine_only(self, word: str, rest: list[str], names: dict[str, str]) -> str:
        """Something that is said of the machine."""
        if word == "told":
            said = ",".join(sorted(n for n, i in names.items() if i in self.told)) or "-"
            self.told.clear()
            return "" if said == rest[0] else f"told were {said}"
        if word == "sent":
            by_id = {i: n for n, i in names.items()}
            sent = sorted(f"{by_id.get(i, 'old')}:{code}" for i, code in self.sent.items())
            self.sent.clear()
            return "" if (",".join(sent) or "-") == rest[0] else f"sent away were {sent}"
        if word == "is":
            said = f"{self.group.phase.value} gen={self.group.generation}"
            return "" if said.startswith(" ".join(rest)) else f"it is {said}"
        if word == "why":
            return "" if " ".join(rest) in self.reason else f"why: {self.reason}"
        if word == "form":
            self._form()
        elif word == "lower":
            self.options = replace(self.options, max_size=int(rest[0]))
        elif word == "hold":
            self._holds = True
        elif word == "flow":
            self._holds = False
            self._persisted(True)
        elif word == "ok":
            self._persisted(True)
        elif word == "fail":
            self._persisted(False, int(rest[0]) if rest else 15)
        elif word == "written":
            assert self.in_flight is not None
            self.written = self.in_flight.state
        elif word == "unload":
            self._step(Unload())
        elif word == "restart":
            self.restart()
        return ""

    def restart(self) -> None:
        """Another machine goes on from what was persisted; nobody is answered by the old one."""
        self.group = self._made(self.options)
        self.in_flight = None
        self._holds = False
        self.told.clear()
        self.sent.clear()
        if self.written is not None:
            self._do(self.group.restore(self.now_ms, self.written))

    def _persisted(self, ok: bool, code: int = 15) -> None:
        out, self.in_flight = self.in_flight, None
        assert out is not None, "nothing is to be persisted"
        if ok:
            self.written = out.state
        self._step(Persisted(out.token) if ok else NotPersisted(out.token, WireCode(code)))

    def _tick(self) -> None:
        wake = self.group.next_wake_ms()
        if wake is not None and wake <= self.now_ms:
            self._step(ClassicTick())

    def _step(self, told: ClassicInput) -> None:
        self._do(self.group.step(self.now_ms, told))

    def _do(self, actions: list[ClassicAction]) -> None:
        for action in actions:
            match action:
                case ClassicReply():
                    assert action.ticket not in self.answers, "it was answered before"
                    self.answers[action.ticket] = action.answer
                case Persist():
                    assert self.in_flight is None, "two are in flight"
                    self.in_flight = action
                case Rejoin():
                    self.told |= set(action.member_ids)
                case Dismissed():
                    self.sent[action.member_id] = int(action.code)
                case Moved():
                    self.reason = action.reason
        if self.in_flight is not None and not self._holds:
            self._persisted(True)


def play(text: str) -> MachineSide:
    """These lines of a scenario, on the machine."""
    lines = tuple(enumerate((line.strip() for line in text.strip().splitlines()), 1))
    side = MachineSide(OPTIONS)
    Play(side).run(Scenario("lines", lines))
    return side
