"""What one step of a member has to be done by the driver, in order."""

from __future__ import annotations

from . import messages as msg
from .events import MemberAction, SendMessage


class Outbox:
    """The actions of the present step, and the tokens by which answers are known."""

    def __init__(self) -> None:
        self.actions: list[MemberAction] = []
        self._tokens = 0

    def begin_step(self) -> list[MemberAction]:
        """An empty list, which fills while the step goes on."""
        self.actions = []
        return self.actions

    def request(self, action: MemberAction) -> None:
        """The driver has to do this."""
        self.actions.append(action)

    def send(self, message: msg.ToFetcher) -> None:
        """The fetching side has to hear this."""
        self.actions.append(SendMessage(message))

    def notice(self, kind: msg.NoticeKind, **detail: str | int) -> None:
        """Something happened that is worth a line."""
        self.send(msg.Notice(kind, detail))

    def token(self) -> int:
        """One that no request or question had before."""
        self._tokens += 1
        return self._tokens
