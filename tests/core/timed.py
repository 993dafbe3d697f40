"""A core whose time goes on by itself: from one time at which it wants to be woken to the next."""

from __future__ import annotations

from zkcoord.core import events as ev
from zkcoord.core.model import GroupMetadata
from zkcoord.core.options import CoordinatorOptions
from zkcoord.replay.text import action_text

from .script import World

WAKES_MAX = 500
WINDOW_MS = CoordinatorOptions().debounce_ms


class Timed(World):
    """A world that is told lines of a script, and keeps what was answered, with the times."""

    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.answers: list[tuple[int, ev.Action]] = []
        self.shown = 0
        self.say(*lines)

    def say(self, *lines: str) -> list[str]:
        """What is answered to these lines."""
        said = []
        for line in lines:
            word, *rest = line.split()
            actions = getattr(self, f"do_{word}")(*rest)
            if word != "settle":
                self._remember(actions)
            self._take(actions)
            said += [action_text(action) for action in actions]
        return said

    def _take(self, actions: list[ev.Action]) -> None:
        self.answers += [(self.now, action) for action in actions]

    def pass_ms(self, ms: int, deaf: str = "") -> list[tuple[int, str]]:
        """So much time goes on: what was answered since that was asked last, and when. It is woken
        when it said, and writes and commands are carried out at once, but those of these members.
        """
        end = self.now + ms
        self.say(f"settle {deaf}".strip())
        for _ in range(WAKES_MAX):
            wake_ms = self.core.next_wake_ms()
            if wake_ms is None or wake_ms > end:
                self.say(f"tick {end - self.now}", f"settle {deaf}".strip())
                news, self.shown = self.answers[self.shown :], len(self.answers)
                return [(at, action_text(action)) for at, action in news]
            self.say(f"tick {max(0, wake_ms - self.now)}", f"settle {deaf}".strip())
        raise AssertionError(f"it does not sleep: at {self.now} it wants to be woken again")

    def wakes(self, ms: int) -> list[int]:
        """When it wants to be woken in so much time."""
        end = self.now + ms
        found = []
        while (wake_ms := self.core.next_wake_ms()) is not None and wake_ms <= end:
            found.append(wake_ms)
            assert len(found) < WAKES_MAX, found
            self.say(f"tick {wake_ms - self.now}", "settle")
        return found

    def reports(self, group: str) -> list[GroupMetadata]:
        """What was written of a group, the last one last."""
        return [
            op.metadata
            for _, action in self.answers
            if isinstance(action, ev.Write) and action.group == group
            for op in action.ops
            if isinstance(op, ev.PutMetadata)
        ]

    def given(self, group: str, delta: ev.GroupDelta) -> list[str]:
        """What is answered to a reading."""
        actions = self._changed(group, delta)
        self._remember(actions)
        self._take(actions)
        return [action_text(action) for action in actions]


def when(found: list[tuple[int, str]], text: str) -> list[int]:
    """When something like this was answered."""
    return [at for at, said in found if text in said]
