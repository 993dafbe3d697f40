"""What pages ask about one group: shared, bounded, and not waited for where nobody answers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from tests.console.pictures import snapshot
from tests.harness.wait import wait_until
from zkcoord.console import asking as module
from zkcoord.console.asking import GROUPS_KEPT, GroupAsker
from zkcoord.errors import UnavailableError, UnknownGroupError
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

PATIENCE_S = 60.0


class Fake:
    """A session, and what it is asked."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.now_ms = 1_000

    def client(self, *_: Any) -> Any:
        def enter() -> Any:
            self.opened += 1
            return reader

        reader = SimpleNamespace(__enter__=enter, close=self._close)
        return reader

    def _close(self) -> None:
        self.closed += 1

    def describe(self, _: Any, layout: Layout, name: str) -> Any:
        self.asked.append(name)
        assert self.gate.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return snapshot(name, {"m": {"a": [0]}})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    found = Fake()
    monkeypatch.setattr(module, "SyncClient", found.client)
    monkeypatch.setattr(module, "describe_any_group", found.describe)
    monkeypatch.setattr(module, "judged", lambda reader, group: group)
    monkeypatch.setattr(module, "boot_ms", lambda: found.now_ms)
    return found


def asker() -> GroupAsker:
    return GroupAsker(ZkOptions("zk:1"), Layout.DRAFT)


def test_pages_of_the_same_moment_cost_one_reading(fake: Fake) -> None:
    here = asker()
    assert here.group("billing") is here.group("billing")
    here.group("audit")
    fake.now_ms += module.FRESH_MS
    here.group("billing")
    assert fake.asked == ["billing", "audit", "billing"] and fake.opened == 1
    here.close()
    wait_until(lambda: fake.closed == 1, PATIENCE_S, "the session's end")


def test_few_groups_are_kept(fake: Fake) -> None:
    here = asker()
    for number in range(GROUPS_KEPT + 20):
        here.group(f"g{number}")
    assert len(here._known) == GROUPS_KEPT


def test_where_nobody_answers_one_tries_and_nobody_waits(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 10 * PATIENCE_S)
    here = asker()
    here.group("billing")
    fake.error = UnavailableError("no server answers")
    fake.now_ms += module.FRESH_MS
    with pytest.raises(UnavailableError, match="no server answers"):
        here.group("billing")
    wait_until(lambda: fake.closed == 1, PATIENCE_S, "the session's end")
    for _ in range(5):
        with pytest.raises(UnavailableError, match="no server answers"):
            here.group("billing")
    assert len(fake.asked) == 2, "for a while nobody asks"
    fake.now_ms += module.AWAY_MS
    fake.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        trying = pool.submit(here.group, "billing")
        wait_until(lambda: len(fake.asked) == 3, PATIENCE_S, "one that tries again")
        with pytest.raises(UnavailableError, match="no server answers"):
            here.group("another")
        fake.error = None
        fake.gate.set()
        assert trying.result(PATIENCE_S).group == "billing"
    assert here.group("another").group == "another" and fake.opened == 2


def test_who_waits_too_long_for_others_is_told_so(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    monkeypatch.setattr(module, "CLOSE_WAIT_S", 0.05)
    here = asker()
    fake.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(here.group, "billing")
        wait_until(lambda: fake.asked, PATIENCE_S, "the first")
        with pytest.raises(UnavailableError, match="ask again"):
            here.group("another")
        here.close()
        fake.gate.set()
        assert first.result(PATIENCE_S)


def test_a_group_that_there_is_not_is_no_failure(fake: Fake) -> None:
    here = asker()
    fake.error = UnknownGroupError("there is no group billing")
    for _ in range(2):
        with pytest.raises(UnknownGroupError):
            here.group("billing")
    assert len(fake.asked) == 2 and fake.opened == 1
