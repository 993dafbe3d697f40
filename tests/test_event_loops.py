"""Threads that ask an event loop for something while it ends."""

from __future__ import annotations

import asyncio

import pytest

from zkcoord.event_loops import run_there


def test_one_that_lives_runs_it() -> None:
    async def run() -> str:
        events = asyncio.get_running_loop()
        said: asyncio.Future[str] = events.create_future()
        assert await asyncio.to_thread(run_there, events, lambda: said.set_result("done"))
        return await said

    assert asyncio.run(run()) == "done"


def test_one_that_has_ended_does_not() -> None:
    events = asyncio.new_event_loop()
    events.close()
    assert not run_there(events, lambda: None)


def test_what_else_is_wrong_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    events = asyncio.new_event_loop()

    def refuse(*_: object) -> None:
        raise RuntimeError("no more threads")

    monkeypatch.setattr(events, "call_soon_threadsafe", refuse)
    with pytest.raises(RuntimeError, match="no more threads"):
        run_there(events, lambda: None)
    events.close()
