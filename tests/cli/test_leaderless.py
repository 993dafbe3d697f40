"""One partition without a leader: its log is blank, with the reason, and its neighbours' are whole,
in every tool that asks brokers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.admin.world import World, world
from tests.harness.kafka import create_topic, produce_numbered, unique
from tests.harness.wait import wait_until
from tests.kafka.groups import PATIENCE_S
from zkcoord.admin.offsets import log_offsets
from zkcoord.admin.offsets.log_offsets import LogOffsets
from zkcoord.cli.main import main
from zkcoord.core.model import TopicPartition
from zkcoord.stack.servers import KafkaBroker

pytestmark = pytest.mark.kafka
Run = Callable[..., tuple[int, str, str]]
RECORDS = 20
NOWHERE = 99


@pytest.fixture(scope="module")
def beside(kafka_broker: KafkaBroker) -> str:
    """Another topic, which is well."""
    name = create_topic(kafka_broker.address, unique("well"), 1)
    produce_numbered(kafka_broker.address, name, 1, RECORDS)
    return name


@pytest.fixture
def here(kafka_broker: KafkaBroker, kafka_zk_hosts: str, beside: str) -> Iterator[World]:
    """The group billing with offsets of both topics."""
    with world(kafka_zk_hosts) as found:
        yield found


@pytest.fixture
def half(here: World, kafka_broker: KafkaBroker, beside: str) -> str:
    """A topic whose partition 1 is on a broker that there is not."""
    name = unique("half")
    assigned = {"version": 2, "partitions": {"0": [0], "1": [NOWHERE], "2": [0]}}
    here.client.create(f"/brokers/topics/{name}", json.dumps(assigned).encode())
    here.group("billing", topics=(name, beside))
    here.client.ensure_path(here.layout.ids("billing"))
    for topic, numbers in ((name, (0, 1, 2)), (beside, (0,))):
        for number in numbers:
            here.offset("billing", topic, number, 5)
    with LogOffsets((kafka_broker.address,)) as ends:
        wait_until(
            lambda: len(ends.of([TopicPartition(name, n) for n in (0, 2)])) == 2,
            PATIENCE_S,
            "the two that are led",
        )
    return name


@pytest.fixture
def run(kafka_zk_hosts: str, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--zookeeper", kafka_zk_hosts])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not answered is not waited for as long as a broker may take."""
    monkeypatch.setattr(log_offsets, "ENDS_DEADLINE_MS", 3_000)


def test_ends_beginnings_and_times(half: str, beside: str, kafka_broker: KafkaBroker) -> None:
    tps = [TopicPartition(half, n) for n in range(3)] + [TopicPartition(beside, 0)]
    led = {tps[0]: 0, tps[2]: 0, tps[3]: RECORDS}
    with LogOffsets((kafka_broker.address,)) as ends:
        for _ in range(2):  # and again, without asking all of them together
            assert ends.of(tps) == led
        assert ends.starts_of(tps) == dict.fromkeys(led, 0)
        assert set(ends.at_time(tps, 0)) == set(led)
        assert ends.why_not(tps[1]) == "no broker leads it"
        assert ends.warning == (
            f"{half}-1 (no broker leads it): their log ends and lags are not shown"
        )


def test_describe_and_show(half: str, beside: str, run: Run) -> None:
    status, out, err = run("groups", "describe", "billing", "--json")
    ends = {
        (row["topic"], row["partition"]): row["log_end_offset"]
        for row in json.loads(out)["offsets"]
    }
    assert status == 0 and f"{half}-1 (no broker leads it)" in err
    assert ends == {(half, 0): 0, (half, 1): None, (half, 2): 0, (beside, 0): RECORDS}
    status, out, err = run("offsets", "show", "billing", "--json")
    ends = {
        (row["topic"], row["partition"]): row["log_end_offset"]
        for row in json.loads(out)["offsets"]
    }
    assert status == 0 and f"{half}-1 (no broker leads it)" in err
    assert ends == {(half, 0): 0, (half, 1): None, (half, 2): 0, (beside, 0): RECORDS}


def test_reset_names_the_one_and_resets_the_others(half: str, run: Run, here: World) -> None:
    status, out, err = run("offsets", "reset", "billing", "--topic", half, "--to-earliest")
    assert (status, out) == (1, "") and f"{half}-1 " in err
    assert f"{half}-0" not in err and f"{half}-2" not in err and "no broker leads it" in err
    chosen = ("--topic", f"{half}:0,2", "--to-earliest", "--execute")
    status, _, err = run("offsets", "reset", "billing", *chosen)
    assert status == 0, err
    offset = here.layout.offset("billing", TopicPartition(half, 0))
    assert here.client.get(offset)[0] == b"0"


def test_check_asks_about_the_others(half: str, beside: str, run: Run) -> None:
    status, out, err = run("check", "--kafka", "--json", "--only", "billing")
    found = [one for one in json.loads(out)["findings"] if one["code"] == "offset-outside-log"]
    assert {one["node"].rpartition("/")[2] for one in found} == {"0", "2"}, (status, err)
    assert f"{half}-1 (no broker leads it)" in err
