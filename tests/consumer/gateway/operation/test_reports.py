"""What a gateway says over HTTP, of itself and of its two loops."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from consumer.gateway.address import Address
from consumer.gateway.cli import gateway_options
from consumer.gateway.cluster import ClusterSeen
from consumer.gateway.operation import reports as reports_module
from consumer.gateway.operation.direct_members import DirectMembers
from consumer.gateway.operation.ending import GatewayEnd
from consumer.gateway.operation.figures import RelayFigures
from consumer.gateway.operation.reports import Reports
from tests.consumer.gateway.members.test_groups import World
from zkcoord.config.option_spec import Use
from zkcoord.config.settings import HttpOptions
from zkcoord.config.sources import resolve
from zkcoord.errors import ConfigurationError, UnavailableError
from zkcoord.zk.loop import Loop


class Scene:
    """A gateway of which everything is said, and its loops."""

    def __init__(self) -> None:
        self.figures = RelayFigures()
        self.world = World()
        self.groups = self.world.groups
        self.led: Any = SimpleNamespace(groups={}, of_others=SimpleNamespace(count=0, named={}))
        self.members = Loop("scene")
        self.ending = GatewayEnd()
        self.session: Any = SimpleNamespace(port=object())
        self.seen = ClusterSeen({1: Address("kafka1", 9092)})
        self.silent_since_s: float | None = None
        self.leader: Any = SimpleNamespace(leads=True)
        self.neighbours: Any = SimpleNamespace(differing=1)
        self.own = Address("gw1", 9192)
        self.gateways = tuple((n, Address(f"gw{n}", 9192)) for n in (1, 2, 3))
        self.listening = True
        self.connections = 7
        self.members.start()
        self.events = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.events.run_forever)
        self.thread.start()
        self.reports = Reports(HttpOptions("127.0.0.1", 0, ("gw.example",)), self)
        self.asked: list[Sequence[str]] = []
        self.direct = DirectMembers(self._live_members, self.reports.groups_here)
        self.reports.start(self.events)
        assert self.reports.http is not None
        self.port = self.reports.http.port

    def _live_members(self, groups: Sequence[str]) -> dict[str, tuple[str, ...]]:
        self.asked.append(groups)
        return dict.fromkeys(groups, ("app on /10.0.0.9",))

    def get(self, path: str, host: str = "localhost") -> tuple[int, str]:
        """Status and body."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        asked.add_header("Host", host)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def close(self) -> None:
        self.reports.stop()
        self.members.stop()
        self.events.call_soon_threadsafe(self.events.stop)
        self.thread.join()
        self.events.close()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Nothing is kept from one question to the next, and nobody waits for long."""
    for name in ("ANSWER_EVERY_MS", "READINESS_EVERY_MS"):
        monkeypatch.setattr(reports_module, name, 0)
    monkeypatch.setattr(reports_module, "ASK_DEADLINE_MS", 200)
    made = Scene()
    yield made
    made.close()


def test_each_path(scene: Scene) -> None:
    scene.world.member(group="g")
    scene.figures.from_clients = 12
    assert scene.get("/live") == (200, "live\n")
    assert scene.get("/ready") == (200, "serving\n")
    status, text = scene.get("/metrics")
    assert status == 200
    assert 'zkcoord_gateway_bytes_total{way="from_clients"} 12.0' in text
    assert "zkcoord_gateway_members 1.0" in text and "zkcoord_gateway_neighbours 2.0" in text
    assert "zkcoord_gateway_neighbours_differing 1.0" in text
    status, text = scene.get("/groups")
    assert json.loads(text) == {
        "groups": [{"group": "g", "members": 1, "partitions": 0, "in_kafka": []}],
        "left_off": 0,
        "client_led": [],
        "client_led_left_off": 0,
    }
    assert scene.get("/other")[0] == 404
    assert scene.get("/ready", "stranger.example")[0] == 421
    assert scene.get("/ready", "gw.example")[0] == 200


def test_groups_that_are_split_are_named(scene: Scene) -> None:
    scene.world.member(group="g")
    scene.direct.look()
    assert scene.asked == [["g"]]
    (group,) = json.loads(scene.get("/groups")[1])["groups"]
    assert group["in_kafka"] == ["app on /10.0.0.9"]
    assert "zkcoord_gateway_groups_split 1.0" in scene.get("/metrics")[1]


def test_who_does_not_serve_is_alive_and_not_ready(scene: Scene) -> None:
    scene.listening = False
    assert scene.get("/ready") == (503, "no broker has answered yet\n")
    scene.session.port = None
    assert scene.get("/ready") == (503, "not connected to ZooKeeper\n")
    scene.events.call_soon_threadsafe(scene.ending.stopping.set)
    assert scene.get("/ready") == (503, "stopping\n")
    assert scene.get("/live") == (200, "live\n")
    assert "zkcoord_gateway_ready 0.0" in scene.get("/metrics")[1]


def test_brokers_that_are_silent_for_long_are_why_it_is_not_ready(scene: Scene) -> None:
    scene.silent_since_s = time.monotonic()
    assert scene.get("/ready") == (200, "serving\n")
    scene.silent_since_s -= reports_module.SILENT_S
    assert scene.get("/ready") == (503, "no broker answers\n")
    assert scene.get("/live") == (200, "live\n")
    scene.silent_since_s = None
    assert scene.get("/ready") == (200, "serving\n")


def test_whether_a_coordinator_leads_is_a_figure(scene: Scene) -> None:
    for leads, value in ((True, "1.0"), (False, "0.0")):
        scene.leader.leads = leads
        assert f"zkcoord_gateway_coordinator_leads {value}" in scene.get("/metrics")[1]
    assert scene.get("/ready") == (200, "serving\n")


@pytest.mark.parametrize("which", ["events", "members"])
def test_a_loop_that_hangs_is_not_alive(scene: Scene, which: str) -> None:
    go_on = threading.Event()
    if which == "events":
        scene.events.call_soon_threadsafe(go_on.wait)
    else:
        scene.members.post(go_on.wait)
    try:
        assert [scene.get(path)[0] for path in ("/live", "/ready", "/metrics")] == [503, 503, 503]
    finally:
        go_on.set()
    assert scene.get("/live") == (200, "live\n")


def test_a_port_that_is_taken_is_refused_before_anything_is_done(scene: Scene) -> None:
    with pytest.raises(UnavailableError, match="--http-port"):
        Reports(HttpOptions("127.0.0.1", scene.port), scene)


def test_without_http_nothing_is_served() -> None:
    options = gateway_options(settled("off"))
    assert options.http is None
    assert gateway_options(settled("on", http_port="9406")).http == HttpOptions("127.0.0.1", 9406)
    with pytest.raises(ConfigurationError, match="switches it off"):
        gateway_options(settled("off", http_port="9406"))


def settled(http: str, **more: str) -> object:
    """Resolved options."""
    given = {"brokers": "kafka1:9092", "http": http, **more}
    return resolve(Use.GATEWAY, {}, {f"ZKCOORD_{name.upper()}": v for name, v in given.items()})
