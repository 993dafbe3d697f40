"""What all of this suite needs."""

from __future__ import annotations

import pytest

from zkcoord.coordinator import journal

CLOSE_WAIT_MS = 60_000


@pytest.fixture(autouse=True)
def journals_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that a test closes writes out all that it has, also on a machine that is so busy
    that a process would not wait for it.
    """
    monkeypatch.setattr(journal, "CLOSE_WAIT_MS", CLOSE_WAIT_MS)
