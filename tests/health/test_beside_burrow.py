"""Verdicts beside those of the real Burrow, on the same groups at the same time.

Debian packages it (`apt-get install burrow`, 1.2.1): without it there is nothing to compare with.
Where it has another verdict, `DIFFERENT` says which, and why ours is right.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.wait import wait_until
from tests.health.situations import (
    BEFORE,
    Situation,
    back_and_again,
    back_at,
    situations,
    slow_by,
    up_to_date,
)
from zkcoord.cli.main import main
from zkcoord.stack.ports import free_port
from zkcoord.stack.servers import KafkaBroker

BURROW = shutil.which("Burrow") or shutil.which("burrow")
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.skipif(BURROW is None, reason="Burrow is not here: apt-get install burrow"),
]
PATIENCE_S = 60.0
LOOKS = ("--samples", "41", "--interval-ms", "1000")
BACK = 90  # ticks, some 27 s

TEN = {
    "healthy": Situation(up_to_date),
    "delayed": Situation(slow_by(4.0)),
    "idle": Situation(lambda tick, end, stored: None, BEFORE, 0),
    # seldom enough for Burrow, which looks at the log once a second, to see it grow in between
    "behind": Situation(lambda tick, end, stored: stored + 9 if tick % 8 == 0 else None),
    "stopped": Situation(lambda tick, end, stored: None),
    "stalled": Situation(lambda tick, end, stored: stored),
    "rewound-from-the-end": Situation(back_at(BACK, up_to_date)),
    "rewound-while-behind": Situation(back_at(BACK, slow_by(4.0))),
    "rewound-and-there-again": Situation(back_and_again(BACK, slow_by(4.0))),
    "beyond-its-log": Situation(lambda tick, end, stored: stored, BEFORE + 50, 0),
}
OURS = {
    "healthy": "OK",
    "delayed": "OK",
    "idle": "OK",
    "behind": "WARN",
    "stopped": "STOP",
    "stalled": "STALL",
    "rewound-from-the-end": "REWIND",
    "rewound-while-behind": "REWIND",
    "rewound-and-there-again": "OK",
    "beyond-its-log": "ERROR",
}
DIFFERENT = {
    "delayed": ("WARN", "a lag that stays the same is no falling behind"),
    "rewound-from-the-end": (
        "OK",
        "1.2.1 takes no lag at an earlier commit for well; releases since then look for a rewind"
        " first",
    ),
    "rewound-and-there-again": (
        "REWIND",
        "1.2.1 does not see that it has come to where it was; releases since then do",
    ),
    "beyond-its-log": ("OK", "it is where the log has never been: nobody goes on from there"),
}


def config(broker: KafkaBroker, port: int, home: Path, storage: str) -> str:
    zookeeper, _, chroot = broker.zookeeper.partition("/")
    consumer = {
        "kafka": f"""
class-name="kafka"
servers=["{broker.address}"]
client-profile="test"
""",
        "zookeeper": f"""
class-name="kafka_zk"
servers=["{zookeeper}"]
zookeeper-path="/{chroot}"
zookeeper-timeout=6
""",
    }
    return f"""
[general]
pidfile="{home}/burrow.pid"
[logging]
filename="{home}/burrow.log"
level="info"
[zookeeper]
servers=["{zookeeper}"]
timeout=6
root-path="/burrow"
[client-profile.test]
client-id="burrow"
kafka-version="1.0.0"
[cluster.here]
class-name="kafka"
servers=["{broker.address}"]
client-profile="test"
topic-refresh=2
offset-refresh=1
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
workers=4
intervals=10
expire-group=604800
min-distance=1
[evaluator.default]
class-name="caching"
expire-cache=1
[consumer.here]
cluster="here"
{consumer[storage]}
"""


def get(port: int, path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return dict(json.load(answer))
    except (urllib.error.URLError, OSError):
        return {}


@contextmanager
def burrow(broker: KafkaBroker, home: Path, storage: str) -> Iterator[int]:
    """A Burrow that knows the brokers; its port."""
    assert BURROW is not None
    port = free_port()
    (home / "burrow.toml").write_text(config(broker, port, home, storage))
    with (home / "out").open("wb") as out:
        process = subprocess.Popen(
            [BURROW, "--config-dir", str(home)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        wait_until(
            lambda: get(port, "/v3/kafka/here/topic").get("topics"), PATIENCE_S, "Burrow's topics"
        )
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def verdict_of_burrow(port: int, group: str) -> str:
    found = get(port, f"/v3/kafka/here/consumer/{group}/status").get("status", {})
    partitions = found.get("partitions") or [{"status": found.get("status", "nothing")}]
    return str(partitions[0]["status"])


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_ten_situations(
    kafka_broker: KafkaBroker,
    kafka_zk_hosts: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    storage: str,
) -> None:
    in_kafka = storage == "kafka"
    with (
        situations(kafka_broker, kafka_zk_hosts, TEN, in_kafka) as running,
        burrow(kafka_broker, tmp_path, storage) as port,
    ):
        names = {one.group: name for name, one in running.made.items()}
        looks = (*LOOKS, "--json", "--partitions")
        main(["groups", "health", *names, "--zookeeper", kafka_zk_hosts, *looks])
        theirs = {name: verdict_of_burrow(port, group) for group, name in names.items()}
        found = json.loads(capsys.readouterr().out)["groups"]
    ours = {names[one["group"]]: one["partitions"][0]["verdict"] for one in found}
    for name in TEN:
        why = {names[one["group"]]: one["partitions"][0]["why"] for one in found}[name]
        print(f"{storage:9} {name:24} {ours[name]:7} {theirs[name]:7} {why}")
    expected = {**OURS, "stalled": "STOP"} if in_kafka else OURS
    assert ours == expected
    for name, verdict in theirs.items():
        other = DIFFERENT.get(name, ("", ""))[0]
        assert verdict in (OURS[name], other), (name, verdict)
