"""The loop: order, time, failure and rest."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError

import pytest

from tests.harness.wait import wait_until
from zkcoord.zk import loop as loop_module
from zkcoord.zk.clock import boot_ms, boot_ns, wall_ms
from zkcoord.zk.loop import THUNKS_PER_TURN_MAX, Loop

PATIENCE_S = 20.0


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A running loop, ended at the end."""
    made = Loop("test")
    made.start()
    yield made
    made.stop()
    assert made.join(PATIENCE_S)


class Alarm:
    """A driver that is due at given times and notes when it was ticked."""

    def __init__(self, at_ms: list[int]) -> None:
        self.at_ms = at_ms
        self.ticked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def next_wake_ms(self) -> int | None:
        """The first time that is left."""
        return self.at_ms[0] if self.at_ms else None

    def tick(self) -> None:
        """Note the time."""
        self.at_ms.pop(0)
        self.ticked.put(boot_ms())


def test_clocks_advance() -> None:
    first = boot_ns()
    assert boot_ns() >= first
    assert abs(boot_ms() - first // 1_000_000) < 60_000
    assert wall_ms() > 1_600_000_000_000


def test_thunks_of_many_threads_run_one_at_a_time_and_in_each_threads_order(loop: Loop) -> None:
    ran: list[tuple[int, int]] = []
    inside: list[int] = []
    overlaps: list[int] = []

    def thunk(thread: int, number: int) -> Callable[[], None]:
        def run() -> None:
            if inside:
                overlaps.append(number)
            inside.append(number)
            ran.append((thread, number))
            inside.pop()

        return run

    def post(thread: int) -> None:
        for number in range(500):
            loop.post(thunk(thread, number))

    threads = [threading.Thread(target=post, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop.submit(lambda: None).result(PATIENCE_S)
    assert not overlaps
    for thread_number in range(4):
        assert [n for t, n in ran if t == thread_number] == list(range(500))


def test_a_driver_is_ticked_when_due_and_not_before(loop: Loop) -> None:
    due = boot_ms() + 40
    alarm = Alarm([due, due + 30])
    loop.attach(alarm)
    assert alarm.ticked.get(timeout=PATIENCE_S) >= due
    assert alarm.ticked.get(timeout=PATIENCE_S) >= due + 30
    assert alarm.ticked.empty()


def test_a_post_wakes_a_loop_that_sleeps_for_long(loop: Loop) -> None:
    loop.attach(Alarm([boot_ms() + 3_600_000]))
    assert loop.submit(lambda: 7).result(PATIENCE_S) == 7


def test_a_flood_of_thunks_does_not_keep_a_driver_from_its_time(loop: Loop) -> None:
    """A thunk that posts itself again for ever; the alarm must come through all the same."""
    alarm = Alarm([boot_ms()])
    ran = [0]
    enough = threading.Event()

    def again() -> None:
        ran[0] += 1
        if not enough.is_set():
            loop.post(again)

    for _ in range(THUNKS_PER_TURN_MAX * 2):
        loop.post(again)
    loop.attach(alarm)
    try:
        assert alarm.ticked.get(timeout=PATIENCE_S)
    finally:
        enough.set()


def test_the_first_error_ends_the_loop_and_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop("fails")
    ended = threading.Event()
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("a bug")

    loop.post(lambda: ran.append("before"))
    loop.post(fail)
    loop.post(lambda: ran.append("after"))
    waiting = loop.submit(lambda: ran.append("asked"))
    loop.start(on_end=ended.set)
    assert loop.join(PATIENCE_S) and ended.wait(PATIENCE_S)
    assert ran == ["before"]
    assert isinstance(loop.failure, ValueError)
    assert "should not happen" in caplog.text
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_S)
    with pytest.raises(CancelledError):
        loop.submit(lambda: None).result(PATIENCE_S)


def test_an_error_of_a_tick_ends_it_too() -> None:
    class Bad(Alarm):
        def tick(self) -> None:
            raise RuntimeError("bad tick")

    loop = Loop("tick")
    loop.attach(Bad([boot_ms()]))
    loop.run()
    assert isinstance(loop.failure, RuntimeError)


def test_stop_runs_what_was_posted_before_it_and_nothing_after() -> None:
    loop = Loop("stops")
    ran: list[int] = []
    loop.post(lambda: ran.append(1))
    loop.stop()
    loop.post(lambda: ran.append(2))
    loop.run()
    assert ran == [1] and loop.failure is None and loop.stopped.is_set()


def test_a_detached_driver_is_left_alone(loop: Loop) -> None:
    alarm = Alarm([boot_ms() + 50])

    def for_a_moment() -> None:
        loop.attach(alarm)
        loop.detach(alarm)

    # on its own thread: it cannot be ticked in between
    loop.submit(for_a_moment).result(PATIENCE_S)
    later = Alarm([boot_ms() + 60])
    loop.attach(later)
    later.ticked.get(timeout=PATIENCE_S)
    assert alarm.ticked.empty()


def test_a_driver_that_is_always_due_rests(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_module, "TICKS_WITHOUT_REST_MAX", 5)

    class Always(Alarm):
        def tick(self) -> None:
            self.ticked.put(1)

    rests: list[float] = []
    sleep = time.sleep

    def noted(seconds: float) -> None:
        if threading.current_thread().name == "zkcoord-test":
            rests.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", noted)
    driver = Always([0])
    loop.attach(driver)
    wait_until(
        lambda: "always due" in caplog.text and len(rests) > 3,
        PATIENCE_S,
        "a complaint about the driver, and rests",
    )
    loop.detach(driver)
