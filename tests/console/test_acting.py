"""What a reader does from a page is done to a real group, by the command line's own commands."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from consumer.api.kafka_consumer import KafkaConsumer
from tests.console.running import ConsoleRunning, running
from tests.harness.command import PATIENCE_S, Running, run
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.kafka.groups import Taken, consumer, settled, take
from zkcoord.cli.main import main
from zkcoord.stack.servers import KafkaBroker

PARTITIONS = 4
TOKEN = "0123456789" * 4
OFTEN = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}


class Browser:
    """A reader: what it shows, and the forms that it sends."""

    def __init__(self, console: ConsoleRunning) -> None:
        self.console = console
        self.cookie = ""
        headers = self.post("sign-in", {"token": TOKEN})[1]
        self.cookie = headers["set-cookie"].split(";")[0]

    def post(self, path: str, said: dict[str, str]) -> tuple[int, dict[str, str], str]:
        asked = http.client.HTTPConnection("127.0.0.1", self.console.port, timeout=PATIENCE_S)
        with contextlib.closing(asked):
            kind = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": self.cookie}
            asked.request("POST", f"/{path}", urlencode(said), kind)
            answer = asked.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, headers, answer.read().decode()

    def get(self, path: str) -> str:
        asked = http.client.HTTPConnection("127.0.0.1", self.console.port, timeout=PATIENCE_S)
        with contextlib.closing(asked):
            asked.request("GET", path, headers={"Cookie": self.cookie})
            return asked.getresponse().read().decode()

    def looks(self, do: str, name: str = "", **said: str) -> str:
        """The page that says what would be done."""
        page = {"do": do, "name": name}
        page["proof"] = hidden(self.get(f"/act?{urlencode(page)}"), "proof")
        return self.post("act", page | said)[2]

    def does(self, do: str, name: str = "", **said: str) -> str:
        """What came of it."""
        page = self.looks(do, name, **said)
        sent = {"do": do, "name": name, **said}
        assert hidden(page, "ticket"), page
        sent |= {one: hidden(page, one) for one in ("proof", "ticket")}
        page = self.post("act", sent)[2]
        assert "Done." in page, page
        return page


def hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    return found[1] if found else ""


def stored(zk_hosts: str, group: str, home: Path) -> dict[int, int]:
    """The group's offsets, by partition."""
    found = run(home, "offsets", "show", group, "--zookeeper", zk_hosts, "--json")
    assert found.returncode == 0, found.stderr
    return {one["partition"]: one["current_offset"] for one in json.loads(found.stdout)["offsets"]}


@contextlib.contextmanager
def polled(one: KafkaConsumer, taken: Taken) -> Iterator[None]:
    """It is polled while the block runs, by a thread."""
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            take(one, taken)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def members_of(console: ConsoleRunning, group: str) -> str:
    """The part of the group's page that has its members."""
    return page_of(console, group).partition('id="part-members"')[2].partition("<h2")[0]


def page_of(console: ConsoleRunning, group: str) -> str:
    """The group's page."""
    return console.get(f"/group?name={group}&span=24h")[1]


@pytest.mark.kafka
@pytest.mark.slow
def test_a_readers_actions(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    tmp_path: Path,
) -> None:
    topic, group = create_topic(kafka_broker.address, unique("orders"), PARTITIONS), unique("bill")
    produce_numbered(kafka_broker.address, topic, PARTITIONS, 20)
    tokens, taken = tmp_path / "tokens", Taken()
    tokens.touch(0o600)
    tokens.write_text(f"ann {TOKEN}\n")
    with (
        Running(tmp_path / "coordinator", "--zookeeper", kafka_zk_hosts) as coordinator,
        running(
            tmp_path / "console",
            *("--zookeeper", kafka_zk_hosts, "--journal-dir", str(coordinator.journal)),
            *("--actions-token-file", str(tokens), "--audit-log", str(tmp_path / "audit")),
        ) as console,
    ):
        reader = Browser(console)
        with consumer(kafka_zk_hosts, group, topic, client_id="first", **OFTEN) as one:
            settled([one], topic, PARTITIONS, taken)
            console.shows(f"/group?name={group}", "Stable", "act?do=rebalance")
            page = reader.looks("delete", group)
            assert "stop them first" in page and not hidden(page, "ticket"), page
            assert "generation" in reader.does("rebalance", group)
            assert "leads" in reader.does("step-down")
            with polled(one, taken):
                reader.does("pause", group)
                console.shows(f"/group?name={group}", "aused")
                reader.does("resume", group)
            settled([one], topic, PARTITIONS, taken)
            page = members_of(console, group)
            (member,) = set(re.findall(rf"{group}_[-\w.]+-\d+-[0-9a-f]{{8}}", page))
            page = reader.looks("evict", group, member=member)
            assert member in page and hidden(page, "ticket")
            at = re.findall(r"rebalance\?name=[^&]*&amp;at=([-0-9]+)", page_of(console, group))
            why = console.get(f"/why?name={group}&at={at[-1]}")[1]
            assert f"{topic}" in why and "joined" in why, why
            what_if = console.get(f"/why?name={group}&at={at[-1]}&with=assignor%3Drange")[1]
            assert "RECORDED" in what_if and "WHAT IF" in what_if, what_if
        before = stored(kafka_zk_hosts, group, tmp_path)
        page = reader.looks("reset", group, to="earliest", topics=topic)
        assert "--to-earliest" in page and topic in page
        assert stored(kafka_zk_hosts, group, tmp_path) == before, "a look writes nothing"
        reader.does("reset", group, to="earliest", topics=topic)
        assert set(stored(kafka_zk_hosts, group, tmp_path).values()) == {0}
        reader.does("delete", group)
        assert main(["groups", "describe", group, "--zookeeper", kafka_zk_hosts]) == 1
        console.shows("/coordinator", "Coordinator")
    journal = "".join(path.read_text() for path in coordinator.journal.glob("*.jsonl"))
    assert "ann by " in journal, "the coordinator knows who asked"
    audit = [json.loads(one) for one in (tmp_path / "audit").read_text().splitlines()]
    done = [one for one in audit if one["what"] == "ended"]
    assert [one["action"] for one in done] == [
        "rebalance",
        "step-down",
        "pause",
        "resume",
        "reset",
        "delete",
    ]
    assert {one["who"] for one in done} == {"ann"} and {one["status"] for one in done} == {0}
