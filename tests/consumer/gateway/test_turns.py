"""Requests of a connection reach members in their order, whichever permission comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from consumer.gateway.frames import HEARTBEAT, Head
from consumer.gateway.turns import Turns, WaitingTurn
from consumer.gateway.wire.requests import HeartbeatRequest


class Scene:
    """Requests that are named by their correlation; `answers`: what the broker says of a group."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.said: list[str] = []
        self.answers: dict[str, asyncio.Future[frozenset[str]]] = {}
        self.serving: asyncio.Task[None] | None = None

    def ask(self, group: str) -> Callable[[], Awaitable[frozenset[str]]]:
        """The question of one group."""

        def asked() -> Awaitable[frozenset[str]]:
            self.said.append(f"ask {group}")
            self.answers[group] = asyncio.get_running_loop().create_future()
            return self.answers[group]

        return asked

    def comes(
        self,
        number: int,
        group: str,
        topics: Callable[[], Awaitable[frozenset[str]]] | None = None,
    ) -> None:
        """A request; `topics`: the question about those that it needs."""
        request = HeartbeatRequest(group, "m", 1)
        head = Head(HEARTBEAT, 0, number, "c")
        if self.turns.add(head, None, request, self.ask(group), topics):
            self.serving = asyncio.ensure_future(
                self.turns.serve(
                    self.serve, self.note("refuse"), lambda: self.said.append("another")
                )
            )

    def serve(self, one: WaitingTurn, topics: frozenset[str]) -> None:
        """Write down one that is served, and of which topics."""
        self.said.append(" ".join([f"serve {one.head.correlation_id}", *sorted(topics)]))

    def note(self, what: str) -> Callable[[WaitingTurn], None]:
        """Write down what becomes of one."""
        return lambda one: self.said.append(f"{what} {one.head.correlation_id}")

    async def answer(self, group: str, *permitted: str) -> None:
        """The broker's answer, and what follows."""
        self.answers[group].set_result(frozenset(permitted))
        for _ in range(5):
            await asyncio.sleep(0)


def test_what_waits_for_one_answer_goes_in_its_order_and_is_asked_once() -> None:
    async def play() -> None:
        scene = Scene()
        for number in (1, 2, 3):
            scene.comes(number, "g")
        assert scene.turns and scene.said == ["ask g"]
        await scene.answer("g", "g")
        assert scene.said == ["ask g", "serve 1", "serve 2", "serve 3"] and not scene.turns
        scene.comes(4, "g")
        await scene.answer("g")
        assert scene.said[4:] == ["ask g", "refuse 4"]

    asyncio.run(play())


def test_another_groups_answer_does_not_overtake() -> None:
    async def play() -> None:
        scene = Scene()
        scene.comes(1, "g")
        scene.comes(2, "h")
        scene.comes(3, "g")
        await scene.answer("h", "h")
        assert scene.said == ["ask g", "ask h"]
        await scene.answer("g")
        assert scene.said[2:] == ["refuse 1", "serve 2", "refuse 3"]

    asyncio.run(play())


def test_what_stands_in_the_way_of_the_next_answer_is_ended() -> None:
    async def play() -> None:
        scene = Scene()
        scene.comes(1, "g")
        scene.comes(2, "h")
        await scene.answer("g", "g")
        assert scene.said == ["ask g", "ask h", "serve 1", "another"]
        await scene.answer("h", "h")
        assert scene.said[4:] == ["serve 2"]

    asyncio.run(play())


def test_a_commit_waits_for_its_topics_too_and_the_next_one_for_it() -> None:
    async def play() -> None:
        scene = Scene()
        scene.comes(1, "g", scene.ask("topics"))
        scene.comes(2, "g")
        assert scene.said == ["ask g", "ask topics"]
        await scene.answer("g", "g")
        assert scene.said[2:] == []
        await scene.answer("topics", "t", "u")
        assert scene.said[2:] == ["serve 1 t u", "serve 2"]

    asyncio.run(play())


def test_a_parked_request_does_not_stand_before_the_answer_about_topics() -> None:
    async def play() -> None:
        scene = Scene()
        scene.comes(1, "g")
        scene.comes(2, "g", scene.ask("topics"))
        await scene.answer("g", "g")
        assert scene.said == ["ask g", "ask topics", "serve 1", "another"]
        await scene.answer("topics")
        assert scene.said[4:] == ["serve 2"]

    asyncio.run(play())


def test_a_connection_that_ends_serves_nobody() -> None:
    async def play() -> None:
        scene = Scene()
        scene.comes(1, "g")
        await asyncio.sleep(0)
        scene.answers["g"].cancel()
        assert scene.serving is not None
        done, _ = await asyncio.wait([scene.serving])
        assert done.pop().cancelled() and scene.said == ["ask g"]

    asyncio.run(play())


def test_what_is_stored_is_asked_after_the_commits_that_have_come() -> None:
    async def play() -> None:
        turns = Turns()
        first, second, later = (Head(8, 7, number, "me") for number in range(3))
        turns.commits(first)
        turns.commits(second)
        waiting = asyncio.ensure_future(turns.settled())
        await asyncio.sleep(0)
        turns.commits(later)
        turns.answered(first)
        await asyncio.sleep(0)
        assert not waiting.done()
        turns.answered(second)
        await waiting
        waiting = asyncio.ensure_future(turns.settled())
        await asyncio.sleep(0)
        turns.close()
        await waiting

    asyncio.run(play())
