"""The end of a gateway: in order, in time, or at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from consumer.gateway.operation import ending as module
from consumer.gateway.operation.ending import GatewayEnd, hand_over
from tests.consumer.gateway.members.test_groups import World
from zkcoord.zk.loop import Loop


@pytest.fixture
def signals() -> Iterator[None]:
    """A process that goes ignores further signals; this one does not go."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_what_is_done_is_complete_and_what_it_raises_is_raised() -> None:
    async def run() -> None:
        ending = GatewayEnd()
        await ending.finish(asyncio.sleep(0))
        assert ending.complete

        async def fails() -> None:
            raise ValueError("as it is")

        with pytest.raises(ValueError, match="as it is"):
            await GatewayEnd().finish(fails())

    asyncio.run(run())


def test_what_hangs_ends_in_time() -> None:
    async def run() -> None:
        ending = GatewayEnd()
        await ending.finish(_hangs(), 0.05)
        assert not ending.complete

    asyncio.run(run())


async def _hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.usefixtures("signals")
def test_the_first_signal_stops_and_the_second_one_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        ending = GatewayEnd()
        ending.listen(asyncio.get_running_loop())
        os.kill(os.getpid(), signal.SIGTERM)
        await ending.meanwhile(_hangs())
        assert not ending.at_once.is_set()
        monkeypatch.setattr(module, "SAME_S", -1.0)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(ending.finish(_hangs(), 600.0), 60)
        assert ending.at_once.is_set() and not ending.complete

    asyncio.run(run())


def test_a_signal_that_comes_twice_at_a_time_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` signals the process, and its group."""
    monkeypatch.setattr(module, "SAME_S", 600.0)
    ending = GatewayEnd()
    for _ in range(2):
        ending._signalled(signal.SIGTERM)
    assert ending.stopping.is_set() and not ending.at_once.is_set()


def test_what_is_done_meanwhile_may_fail() -> None:
    async def run() -> None:
        async def fails() -> None:
            raise ValueError("as it is")

        with pytest.raises(ValueError, match="as it is"):
            await GatewayEnd().meanwhile(fails())

    asyncio.run(run())


class Session:
    """Closed when it is told so."""

    def __init__(self) -> None:
        self.finished = False

    def close(self) -> None:
        self.finished = True


def handed_over(world: World, within_s: float, prepare: Callable[[Loop], None]) -> Session:
    """Run `hand_over` for a world's groups; the gateway's own session."""
    session, loop = Session(), Loop("ending")
    world.groups.post = loop.post
    prepare(loop)
    loop.start()
    asyncio.run(hand_over(loop, world.groups, session, within_s))  # type: ignore[arg-type]  # as an `OwnSession`
    loop.stop()
    return session


def test_one_line_says_how_many_clients_were_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for group in ("g", "g", "h"):
        world.member(group=group)
    with caplog.at_level(logging.INFO, "consumer.gateway.operation.ending"):
        session = handed_over(world, 600.0, lambda loop: None)
    assert session.finished and world.groups.finished and world.groups.closing
    (line,) = (r.message for r in caplog.records if r.name.endswith("operation.ending"))
    assert line.startswith("the gateway ends: 3 clients of 2 groups are handed over")
    assert line.endswith("0 sessions are left to the guardian and their timeout")


def test_sessions_that_do_not_close_are_named_and_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.member()
    monkeypatch.setattr(type(world.agents[0]), "finished", property(lambda agent: False))
    with caplog.at_level(logging.INFO, "consumer.gateway.operation.ending"):
        session = handed_over(world, 0.1, lambda loop: None)
    assert session.finished
    assert "1 clients of 1 groups" in caplog.text and "1 sessions are left" in caplog.text


def test_a_members_loop_that_is_gone_holds_nothing_up() -> None:
    world = World()

    def stopped(loop: Loop) -> None:
        loop.stop()

    assert not handed_over(world, 600.0, stopped).finished
