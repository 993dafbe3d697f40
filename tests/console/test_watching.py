"""The look at all groups: what it sees, and what it says when somebody does not answer."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.admin.world import world
from tests.harness.wait import wait_until
from zkcoord.cli.brokers import Brokers
from zkcoord.console import watching as module
from zkcoord.console.picture import Picture
from zkcoord.console.watching import Watcher
from zkcoord.errors import RefusedError, UnavailableError
from zkcoord.health.monitor import HealthMonitor
from zkcoord.health.rules import HealthLimits, HealthVerdict
from zkcoord.health.sampler import HealthLook
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.paths import Layout

PATIENCE_S = 90.0
NOWHERE = ("127.0.0.1:9",)


@contextlib.contextmanager
def watching(hosts: str, brokers: Callable[[], Brokers]) -> Iterator[tuple[Watcher, list[Picture]]]:
    pictures: list[Picture] = []
    options = ZkOptions(hosts, session_timeout_ms=6_000, connect_timeout_ms=500)
    found = Watcher(options, Layout.DRAFT, lambda _: brokers(), 500, pictures.append)
    found.start()
    try:
        yield found, pictures
    finally:
        found.close()
        wait_until(lambda: not found._thread.is_alive(), PATIENCE_S, "the watcher's end")


def seen(watcher: Watcher, fits: Callable[[Picture], Any]) -> Picture:
    """A picture like this."""
    return wait_until(
        lambda: found if fits(found := watcher.picture) else None, PATIENCE_S, "such a picture"
    )


def no_broker() -> Brokers:
    return Brokers()


def test_groups_come_and_go(zk_hosts: str) -> None:
    with world(zk_hosts) as here, watching(zk_hosts, no_broker) as (watcher, pictures):
        assert seen(watcher, lambda p: p.at_ms).lines == {}
        here.leader()
        here.group("billing")
        picture = seen(watcher, lambda p: p.lines)
        line = picture.lines["billing"]
        assert (line.verdict, line.lag, line.seconds) == (HealthVerdict.UNKNOWN, None, None)
        assert picture.no_lag == module.NO_BROKERS and not picture.problem
        assert seen(watcher, lambda p: p.coordinator and p.coordinator.leader)
        here.client.delete(here.layout.group("billing"), recursive=True)
        seen(watcher, lambda p: not p.lines)
        numbers = [picture.number for picture in pictures]
        assert numbers == sorted(set(numbers)), "each has a number of its own"


@pytest.mark.parametrize("kind", [RefusedError, UnavailableError])
def test_who_cannot_say_which_brokers_there_are(zk_hosts: str, kind: type[Exception]) -> None:
    def refused() -> Brokers:
        raise kind("nobody knows")

    with world(zk_hosts) as here, watching(zk_hosts, refused) as (watcher, _):
        here.group("billing")
        picture = seen(watcher, lambda p: p.lines)
        assert picture.no_lag == "nobody knows" and not picture.problem


def test_brokers_that_are_away_hold_no_list_up(zk_hosts: str) -> None:
    with (
        world(zk_hosts) as here,
        watching(zk_hosts, lambda: Brokers(NOWHERE)) as (watcher, _),
    ):
        here.topic("orders", 1)
        here.group("billing")
        here.offset("billing", "orders", 0, 5)
        here.group("another")
        picture = seen(watcher, lambda p: len(p.lines) == 2)
        assert not picture.problem and picture.took_ms < module.KAFKA_DEADLINE_S * 1_000
        assert picture.no_lag == "no broker takes connections at 127.0.0.1:9"
        assert picture.lines["billing"].verdict is HealthVerdict.UNKNOWN


class SlowSampler:
    """Brokers that go while they are asked."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self, groups: object) -> HealthLook:
        self.looks += 1
        return HealthLook({}, {}, {})


def test_brokers_that_have_been_slow_are_asked_when_they_take_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = {"now": 0, "takes": True}
    monkeypatch.setattr(module, "takes_connections", lambda servers: here["takes"])

    def clock() -> int:
        here["now"] += step
        return here["now"]

    monkeypatch.setattr(module, "boot_ms", clock)
    step = 1
    reader: Any = None
    eyes, monitor = module._Eyes(reader, Layout.DRAFT), HealthMonitor(HealthLimits())
    sampler = SlowSampler()
    wanted: Any = (Brokers(NOWHERE), sampler, type("History", (), {"complete": lambda *_: None})())
    eyes._asked, eyes._sampler, eyes._history = wanted
    eyes.look(monitor, [])
    assert not eyes.are_slow
    here["takes"] = False
    step = module.SLOW_MS + 1
    eyes.look(monitor, [])
    assert eyes.are_slow and sampler.looks == 2, "who has answered is not asked for that before"
    assert eyes.look(monitor, []) == [] and sampler.looks == 2 and "no broker takes" in eyes.problem
    here["takes"], step = True, 1
    eyes.look(monitor, [])
    assert sampler.looks == 3 and not eyes.are_slow and eyes.problem == ""


def test_why_nothing_was_seen_yet_is_said() -> None:
    with watching("127.0.0.1:1", no_broker) as (watcher, _):
        picture = seen(watcher, lambda p: p.problem)
        assert picture.at_ms == 0 and picture.lines == {} and picture.number > 0


def test_an_error_that_should_not_happen_is_said(
    zk_hosts: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Brokers:
        raise RuntimeError("a bug")

    with caplog.at_level(logging.ERROR), watching(zk_hosts, broken) as (watcher, _):
        assert "looks no more" in seen(watcher, lambda p: p.problem).problem
        assert "a bug" in caplog.text
        assert not [t for t in threading.enumerate() if t is watcher._thread and not t.daemon]
