"""What comes of an action that a reader has asked for: first what it would do, then, once, what it
did. Any thread; each of the two waits for a command to end.
"""

from __future__ import annotations

import secrets
import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from zkcoord.console.acting.actions import ACTIONS, COORDINATOR, GroupAction, NotSaidError
from zkcoord.console.acting.audit import AuditLog
from zkcoord.console.acting.readers import ActingReader
from zkcoord.console.acting.running import BusyError, CommandResult, CommandRunner
from zkcoord.errors import InvalidGroupError, UnavailableError
from zkcoord.zk.clock import boot_ms
from zkcoord.znodes.names import validate_group

TICKETS_MAX = 1_000
TICKET_MS = 15 * 60_000
"""What was shown longer ago is looked at once more: by then it may be another."""

ENDED = "it was ended after it had run for too long: look at what it has done"
USED = "this was done already, or is too long ago: look at what it would do once more"


@dataclass(frozen=True)
class Sheet:
    """An action's page. `command` is what a shell would be told, `result` what that printed;
    `ticket` allows to do it, once ("": it is not to be done as it stands); `problem` says why."""

    action: GroupAction
    group: str
    said: Mapping[str, str]
    command: str = ""
    result: CommandResult | None = None
    ticket: str = ""
    problem: str = ""
    is_done: bool = False


@dataclass(frozen=True)
class ShownSheet:
    """What a ticket stands for: whose it is, what was shown, until when (ms of the clock) it may be
    done, and by which arguments.
    """

    proof: str
    sheet: Sheet
    arguments: list[str]
    until_ms: int


class ActionDesk:
    """See the module. `clock` in ms."""

    def __init__(
        self, runner: CommandRunner, audit: AuditLog, clock: Callable[[], int] = boot_ms
    ) -> None:
        self._runner = runner
        self._audit = audit
        self._clock = clock
        self._lock = threading.Lock()
        self._tickets: dict[str, ShownSheet] = {}

    def begin(self, name: str, group: str, said: Mapping[str, str]) -> Sheet | None:
        """The page on which a reader says more; None: there is no such action, or group."""
        action = ACTIONS.get(name)
        if action is None or (group == "") != (name == COORDINATOR):
            return None
        try:
            if group:
                validate_group(group)
        except InvalidGroupError:
            return None
        return Sheet(action, group, said)

    def look(self, sheet: Sheet, reader: ActingReader) -> Sheet:
        """What would be done. Nothing is."""
        try:
            look = sheet.action.look(sheet.group, sheet.said)
            does = sheet.action.does(sheet.group, sheet.said)
            result = self._runner.run(look, reader.name)
        except (NotSaidError, BusyError) as error:
            return replace(sheet, problem=str(error))
        except OSError as error:
            return replace(sheet, problem=f"the command cannot be run: {error.strerror or error}")
        ticket = self._ticket(reader, sheet, does) if result.is_done else ""
        problem = "" if result.is_done else (_sentence(result) or ENDED)
        return replace(sheet, command=_shown(does), result=result, ticket=ticket, problem=problem)

    def do(self, sheet: Sheet, reader: ActingReader, ticket: str) -> Sheet:
        """Do what was looked at, once, if this reader has looked at it, whatever `sheet` says."""
        with self._lock:
            seen = self._tickets.pop(ticket, None)
        if seen is None or seen.proof != reader.proof or seen.until_ms <= self._clock():
            return replace(sheet, problem=USED)
        sheet, arguments = seen.sheet, seen.arguments
        told = {"who": reader.name, "action": sheet.action.name, "group": sheet.group}
        try:
            self._audit.write("begins", **told, command=_shown(arguments), ticket=ticket[:8])
        except UnavailableError as error:
            return replace(sheet, problem=str(error))
        problem = ""
        try:
            result = self._runner.run(arguments, reader.name)
        except (BusyError, OSError) as error:
            result, problem = None, f"nothing was done: {error}"
        status = "not run" if result is None else result.status
        try:
            self._audit.write("ended", **told, status=status, ticket=ticket[:8])
        except UnavailableError as error:
            problem = f"{problem} {error}".strip()
        if result is not None and not result.is_done:
            problem = _sentence(result) or ENDED
        command, is_done = _shown(arguments), not problem
        return replace(sheet, command=command, result=result, problem=problem, is_done=is_done)

    def _ticket(self, reader: ActingReader, sheet: Sheet, arguments: list[str]) -> str:
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            while len(self._tickets) >= TICKETS_MAX:
                del self._tickets[next(iter(self._tickets))]
            until_ms = self._clock() + TICKET_MS
            self._tickets[ticket] = ShownSheet(reader.proof, sheet, arguments, until_ms)
        return ticket


def _shown(arguments: list[str]) -> str:
    return shlex.join(["zkcoord", *arguments])


def _sentence(result: CommandResult) -> str:
    """The last line that a failed command printed, which says why."""
    if result.status is None:
        return ""
    lines = [line for line in result.text.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with status {result.status}"
