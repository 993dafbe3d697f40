"""Where topics come from: found out, changed over, and back."""

from __future__ import annotations

import pytest

from tests.topics.cluster_side import OPTIONS, TREE, Side
from zkcoord.topics.finding import ASK_EVERY_MS, READ_EVERY_MS
from zkcoord.topics.judging import KnownTopic, SaidTopic
from zkcoord.topics.keeper import SEEN_EVERY_MS
from zkcoord.topics.options import TopicOptions, TopicSourceKind
from zkcoord.zk.port import Create, Delete, SetData

AUTO, ZOOKEEPER = TopicSourceKind.AUTO, TopicSourceKind.ZOOKEEPER
BROKER_1 = "/brokers/ids/1"


def auto(*names: str, brokers: tuple[int, ...] = (1, 2)) -> Side:
    """A cluster that has these topics, and a coordinator that finds out where they come from."""
    side = Side({name: SaidTopic(f"id-{name}", 1) for name in names}, False, AUTO)
    side.has_zookeeper = True
    side.theirs(*names, brokers=brokers)
    side.lead()
    side.wait(3 * OPTIONS.refresh_ms)
    return side


def test_while_brokers_are_there_nobody_is_asked() -> None:
    side = auto("t")
    side.wait(30_000)
    assert not side.asked and not side.source.is_complete and not side.records
    assert TREE.broker(1) in side.nodes and TREE.broker(2) in side.nodes, "for later"


def test_a_broker_that_has_no_zookeeper_decides() -> None:
    side = auto("t")
    side.has_zookeeper = False
    side.write(Delete(BROKER_1))
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.events == ["ZooKeeper has no brokers", "from Kafka"]
    assert side.topic() == side.found("id-t", 1)
    assert side.servers == ("b1:9092", "b2:9092"), "who is gone from there is asked, too"


def test_a_broker_that_is_down_or_cut_off_does_not() -> None:
    side = auto("t")
    side.write(Delete(BROKER_1), Delete("/brokers/ids/2"))
    side.wait(3 * ASK_EVERY_MS)
    assert 2 <= len(side.asked) <= 5 and not side.source.is_complete and not side.records
    side.answers = False
    side.wait(3 * ASK_EVERY_MS)
    assert not side.source.is_complete and not side.records
    side.answers, side.has_zookeeper = True, False
    side.wait(2 * ASK_EVERY_MS)
    assert side.source.is_complete


def test_brokers_that_are_registered_are_asked_where_nobody_names_any() -> None:
    side = Side({"t": SaidTopic("a", 1)}, begins=False)
    side.has_zookeeper = True
    side.theirs("t", brokers=(1, 2))
    side.lead()
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.servers == ("b1:9092", "b2:9092") and side.source.is_complete


def test_where_zookeeper_has_never_heard_of_brokers_any_that_answers_does() -> None:
    side = Side({"t": SaidTopic("a", 1)}, False, AUTO)
    side.has_zookeeper = True
    side.lead()
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.source.is_complete and side.topic() == KnownTopic("a", 1, found=True)


def test_of_another_cluster_nothing_is_believed() -> None:
    side = auto("t")
    side.cluster, side.has_zookeeper = "another", False
    side.write(Delete(BROKER_1))
    side.wait(3 * ASK_EVERY_MS)
    assert side.events == ["another cluster"] and not side.source.is_complete


def test_a_broker_that_moves_is_found_where_it_is() -> None:
    side = auto("t")
    moved = b'{"version":1,"host":"moved","port":9099}'
    side.write(SetData(BROKER_1, moved, -1))
    side.wait(READ_EVERY_MS + 3 * OPTIONS.refresh_ms)
    assert side.zk.tree.nodes[TREE.broker(1)].data == moved


def test_the_next_coordinator_goes_on_from_the_brokers() -> None:
    side = auto("t")
    side.has_zookeeper = False
    side.write(Delete(BROKER_1))
    side.wait(3 * OPTIONS.refresh_ms)
    side.source.lost()
    side.lead()
    side.topics["t"] = SaidTopic("id-t", 5)
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.source.is_complete and side.topic() == side.found("id-t", 5)


@pytest.mark.parametrize("kind", [AUTO, ZOOKEEPER])
def test_back_to_zookeeper_only_where_somebody_says_so(kind: TopicSourceKind) -> None:
    side = Side({"t": SaidTopic("a", 1)})
    side.theirs("t", brokers=(1, 2))
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.source.is_complete
    side.source.lost()
    side.options = type(OPTIONS)(kind)
    side.lead()
    side.wait(3 * OPTIONS.refresh_ms)
    assert (TREE.source in side.nodes) is (kind is AUTO)
    assert ("from ZooKeeper" in side.events) is (kind is ZOOKEEPER)


def test_one_that_leads_no_more_changes_nothing_back() -> None:
    side = Side({"t": SaidTopic("a", 1)})
    side.wait(3 * OPTIONS.refresh_ms)
    side.options = type(OPTIONS)(ZOOKEEPER)
    side.later = -1
    side.lead()
    assert TREE.source in side.nodes and side.ends


def test_people_are_told_that_zookeeper_has_no_brokers_where_it_alone_is_asked() -> None:
    side = Side({"t": SaidTopic("a", 1)}, False, ZOOKEEPER)
    side.lead()
    assert "no broker is registered in ZooKeeper, and topic_source" in side.source.problem
    side.theirs("t", brokers=(1,))
    side.wait(READ_EVERY_MS + 1_000)
    assert side.source.problem == "" and not side.asked and not side.source.is_complete
    side.write(Delete(BROKER_1))
    side.wait(READ_EVERY_MS + 1_000)
    assert side.source.problem


def test_people_are_told_why_nothing_new_is_heard() -> None:
    side = auto("t")
    assert side.source.problem == ""
    side.write(Delete(BROKER_1), Delete("/brokers/ids/2"))
    side.wait(3 * OPTIONS.refresh_ms)
    assert "no broker is registered in ZooKeeper" in side.source.problem
    side.has_zookeeper = False
    side.wait(2 * ASK_EVERY_MS)
    assert side.source.is_complete and side.source.problem == ""
    side.answers = False
    side.wait(3 * OPTIONS.refresh_ms)
    assert "no broker answers" in side.source.problem
    side.answers, side.cluster = True, "another"
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.source.problem == "brokers of cluster another answer, and not of c"
    side.cluster = "c"
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.source.problem == ""


def test_the_way_back_is_open_whatever_stands_below_the_source() -> None:
    side = Side({"t": SaidTopic("a", 1)})
    side.wait(10)
    below = f"{TREE.source}/x"
    side.write(Create(below, b""), Create(f"{below}/y", b""), Create(f"{TREE.source}/z", b""))
    side.source.lost()
    side.options = TopicOptions(TopicSourceKind.ZOOKEEPER)
    side.lead()
    side.wait(OPTIONS.refresh_ms)
    assert TREE.source not in side.nodes
    assert side.records[-1].detail == {"event": "from ZooKeeper"}


def test_who_deletes_the_source_by_hand_has_it_looked_at_anew() -> None:
    """Where brokers came back to ZooKeeper it stays away, else it is there again."""
    side = auto("t")
    side.write(Delete("/brokers/ids/1"), Delete("/brokers/ids/2"))
    side.has_zookeeper = False
    side.wait(ASK_EVERY_MS + READ_EVERY_MS)
    assert side.source.is_complete
    side.write(Delete(TREE.source))
    side.wait(SEEN_EVERY_MS + ASK_EVERY_MS + 3 * OPTIONS.refresh_ms)
    assert TREE.source in side.nodes and side.source.is_complete
    for path in "/brokers/ids/1", "/brokers/ids/2":
        side.write(Create(path, b'{"host":"b1","port":9092}'))
    side.has_zookeeper = True
    side.write(Delete(TREE.source))
    side.wait(10 * SEEN_EVERY_MS)
    assert TREE.source not in side.nodes and not side.source.is_complete
