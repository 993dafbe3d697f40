"""What brokers say becomes nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.topics.cluster_side import EPOCH, OPTIONS, TREE, Side
from zkcoord.topics.asking import PARTITIONS_MAX, SaidBroker
from zkcoord.topics.fenced_port import FencedPort
from zkcoord.topics.judging import KnownTopic, SaidTopic
from zkcoord.topics.keeper import (
    ABSENT_TIMES,
    ALL_EVERY_MS,
    ALL_SOON_MS,
    AT_ONCE_MS,
    HELD_MS,
    PAUSE_PER_ALL,
    PAUSE_PER_WAIT,
    PAUSE_PER_WORK,
    REFUSED,
    SEEN_EVERY_MS,
    SOON_MS,
    WORK_AHEAD_MS,
)
from zkcoord.topics.own_nodes import encode_known_topic
from zkcoord.zk.overlay import OverlaidPort
from zkcoord.zk.port import (
    MULTI_BYTES_MAX,
    Create,
    Delete,
    GetData,
    Node,
    Op,
    ReadDone,
    ReadResult,
    SetData,
)
from zkcoord.znodes.cluster_identity import decode_source, encode_source
from zkcoord.znodes.kafka import CLUSTER_ID
from zkcoord.znodes.names import BROKER_ID_MAX


def test_all_topics_are_there_before_they_count() -> None:
    side = Side({"t": SaidTopic("a", 3), "other": SaidTopic("b", 3)})
    side.wait(10)
    assert side.topic() == KnownTopic("a", 3, found=True) and side.source.is_complete
    assert decode_source(side.zk.tree.nodes[TREE.source].data) == "c"
    assert side.topic("other") == KnownTopic("b", 3, found=True), "tools may ask for it"
    assert [one.detail["event"] for one in side.records] == ["from Kafka"]
    assert TREE.broker(1) in side.nodes and TREE.broker(2) in side.nodes
    made = [side.zk.tree.nodes[path].czxid for path in (TREE.topic("t"), TREE.source)]
    assert made == sorted(made)


def test_it_does_not_count_while_brokers_do_not_answer() -> None:
    side = Side(begins=False)
    side.answers = False
    side.lead()
    side.wait(5 * OPTIONS.refresh_ms)
    assert not side.source.is_complete and TREE.source not in side.nodes
    assert len(side.asked) >= 5


def test_changes_are_written_as_they_are_believed() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(OPTIONS.refresh_ms)
    made = side.zk.tree.nodes[TREE.topic("t")].czxid
    side.topics["t"] = SaidTopic("a", 5)
    side.wait(OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("a", 5)
    assert side.zk.tree.nodes[TREE.topic("t")].czxid == made, "it is the same topic"
    side.topics["t"] = SaidTopic("b", 2)
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("b", 2, ("a",))
    assert side.zk.tree.nodes[TREE.topic("t")].czxid > made, "another one"
    del side.topics["t"]
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() is None
    side.topics["t"] = SaidTopic("c", 1)
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("c", 1, ("a", "b"))


def test_the_next_coordinator_knows_what_the_one_before_has_found_out() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(OPTIONS.refresh_ms)
    side.topics["t"] = SaidTopic("b", 1)
    side.wait(3 * OPTIONS.refresh_ms)
    side.source.lost()
    before = side.nodes, {path: side.zk.tree.nodes[path].mzxid for path in side.nodes}
    side.topics["t"] = SaidTopic("a", 3)
    side.lead()
    assert side.source.is_complete
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("b", 1, ("a",)), "a broker that is behind is not believed"
    after = side.nodes, {path: side.zk.tree.nodes[path].mzxid for path in side.nodes}
    assert after == before, "nothing is written"


def test_with_a_pattern_all_topics_are_asked_for() -> None:
    side = Side({f"t{n}": SaidTopic(str(n), 1) for n in range(250)}, begins=False)
    side.wanted = None
    side.lead()
    side.wait(10)
    assert len([path for path in side.nodes if path.startswith(f"{TREE.topics}/")]) == 250
    assert side.source.is_complete and side.asked[0][1] is None


def test_a_topic_that_somebody_names_is_asked_for_at_once() -> None:
    side = Side()
    side.topics.update(t=SaidTopic("a", 1), u=SaidTopic("b", 1))
    side.wait(OPTIONS.refresh_ms + 10)
    side.wanted = frozenset({"t", "u"})
    side.source.groups_changed()
    side.wait(AT_ONCE_MS + 1)
    assert side.topic("u") == KnownTopic("b", 1)


def test_what_nobody_names_is_there_soon_since_tools_may_ask_for_it() -> None:
    """All are asked for as often as that is little work, and more seldom the more it is."""
    side = Side({"t": SaidTopic("a", 1)})
    side.wait(10)
    side.topics["new"] = SaidTopic("b", 1)
    side.wait(ALL_SOON_MS + OPTIONS.refresh_ms)
    assert side.topic("new") == KnownTopic("b", 1)
    side.source.lost()
    side.topics["newer"] = SaidTopic("c", 1)
    side.lead()
    side.wait(ALL_SOON_MS + OPTIONS.refresh_ms)
    assert side.topic("newer") == KnownTopic("c", 1), "also by the next coordinator"
    side.work_ms = 100
    side.wait(ALL_EVERY_MS)
    before = [names for _, names in side.asked].count(None)
    side.wait(5 * ALL_EVERY_MS)
    all_asked = [names for _, names in side.asked].count(None) - before
    assert all_asked <= 5 * ALL_EVERY_MS // (side.work_ms * PAUSE_PER_ALL) + 1


def test_a_broker_that_goes_is_gone_when_that_was_said_again() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 1)
    side.wait(OPTIONS.refresh_ms)
    gone = side.brokers.pop(2)
    side.wait((ABSENT_TIMES - 2) * OPTIONS.refresh_ms)
    assert TREE.broker(2) in side.nodes
    side.wait(3 * OPTIONS.refresh_ms)
    assert TREE.broker(2) not in side.nodes and TREE.broker(1) in side.nodes
    side.brokers[2] = gone
    side.brokers[1] = SaidBroker(1, "moved", 9093)
    side.wait(2 * OPTIONS.refresh_ms)
    assert TREE.broker(2) in side.nodes and b"moved" in side.zk.tree.nodes[TREE.broker(1)].data


def test_another_cluster_is_not_believed_and_told_once() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(OPTIONS.refresh_ms)
    side.cluster, side.topics["t"] = "another", SaidTopic("z", 9)
    side.wait(10 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("a", 3)
    assert [one.detail.get("event") for one in side.records] == ["from Kafka", "another cluster"]


def test_who_leads_no_more_writes_nothing() -> None:
    side = Side()
    side.write(SetData(EPOCH, b"later", -1))
    side.topics["t"] = SaidTopic("a", 3)
    side.wait(2 * OPTIONS.refresh_ms)
    assert side.topic() is None and side.ends


def test_what_somebody_else_writes_there_is_put_right() -> None:
    side = Side()
    side.topics["t"] = SaidTopic("a", 3)
    side.write(Create(TREE.topic("t"), b"nonsense"))
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("a", 3)


def test_who_reads_kafkas_nodes_reads_these() -> None:
    side = Side({"t": SaidTopic("a", 3)}, begins=False)
    side.write(Create("/brokers", b""), Create("/brokers/topics", b""))
    side.write(Create("/brokers/topics/t", b"frozen"))
    answers: list[ReadResult] = []
    overlaid = OverlaidPort(TREE, lambda event: None)
    overlaid.port = side.port
    overlaid.read([GetData("/brokers/topics/t")], answers.append)
    side.lead()
    side.wait(10)
    overlaid.read([GetData("/brokers/topics/t")], answers.append)
    side.settle()
    before, after = (done.answers[0] for done in answers if isinstance(done, ReadDone))
    assert isinstance(before, Node) and before.data == b"frozen"
    assert isinstance(after, Node) and b'"topic_id":"a"' in after.data


def test_topics_that_are_there_from_the_start_are_older_than_their_nodes() -> None:
    side = Side({"t": SaidTopic("a", 3)})
    side.wait(10)
    side.topics["u"] = SaidTopic("b", 1)
    side.wanted = frozenset({"t", "u"})
    side.wait(2 * OPTIONS.refresh_ms)
    assert side.created("t") == 0
    assert side.created("u") == side.zk.tree.nodes[TREE.topic("u")].czxid > 0
    side.topics["t"] = SaidTopic("a", 4)
    side.wait(2 * OPTIONS.refresh_ms)
    assert side.created("t") == 0, "it is still that one"
    side.topics["t"] = SaidTopic("c", 4)
    side.wait(4 * OPTIONS.refresh_ms)
    assert side.created("t") == side.zk.tree.nodes[TREE.topic("t")].czxid > 0


@pytest.mark.parametrize("pattern", [True, False])
def test_topics_that_are_not_among_all_are_asked_for_by_name(pattern: bool) -> None:
    side = Side({"t": SaidTopic("a", 1), "hidden": SaidTopic("b", 1), "gone": SaidTopic("c", 1)})
    side.wanted = None if pattern else frozenset({"t"})
    side.wait(10)
    side.hidden.add("hidden")
    del side.topics["gone"]
    side.wait(ALL_EVERY_MS + 10 * OPTIONS.refresh_ms)
    assert side.topic("gone") is None, "it was said by name, and again"
    assert side.topic("hidden") == KnownTopic("b", 1, found=True), "whom nobody may see is there"
    by_name = [names for _, names in side.asked if names is not None and "hidden" in names]
    assert by_name == [frozenset({"gone", "hidden"})], "who is silent of one is asked once"


def test_asking_takes_its_share_of_the_time_only() -> None:
    side = Side({"t": SaidTopic("a", 1)})
    side.work_ms = 500
    side.wait(10)
    before = len(side.asked)
    side.wait(60_000)
    ahead = WORK_AHEAD_MS // 500
    assert 3 <= len(side.asked) - before <= 60_000 // (500 * PAUSE_PER_WORK) + ahead + 1


def test_brokers_that_take_long_are_asked_less_often() -> None:
    side = Side({"t": SaidTopic("a", 1)})
    side.took_ms = 2 * OPTIONS.refresh_ms
    for _ in range(400):
        side.wait(side.took_ms // 20)
    apart = [b - a for (a, _), (b, _) in pairwise(side.asked)]
    assert apart[1] <= side.took_ms + 3 * SOON_MS, "one may be slow"
    del apart[:2]
    assert min(apart) >= (1 + PAUSE_PER_WAIT) * side.took_ms and len(apart) >= 3


def test_the_ensembles_own_cluster_is_expected() -> None:
    side = Side({"t": SaidTopic("a", 1)}, begins=False)
    side.write(Create("/cluster", b""), Create(CLUSTER_ID, b'{"version":"1","id":"mine"}'))
    side.lead()
    side.wait(3 * OPTIONS.refresh_ms)
    assert not side.source.is_complete
    assert [one.detail for one in side.records] == [
        {"event": "another cluster", "cluster": "c", "expected": "mine"}
    ]


def test_while_something_is_doubted_new_topics_are_found_in_time() -> None:
    side = Side({f"t{n}": SaidTopic(str(n), 1) for n in range(20)})
    side.wanted = None
    side.wait(10)
    for n in range(20):
        del side.topics[f"t{n}"]
        side.topics[f"new{n}"] = SaidTopic(f"n{n}", 1)
        side.wait(OPTIONS.refresh_ms + 20)
        assert side.topic(f"new{n}") == KnownTopic(f"n{n}", 1)
    whole = [at for at, names in side.asked if names is None]
    assert max(b - a for a, b in pairwise(whole)) <= OPTIONS.refresh_ms + 2 * SOON_MS // 10
    assert len(side.asked) > 2 * len(whole), "and what is doubted is asked for between"


def test_what_does_not_fit_into_one_write_takes_several() -> None:
    many = {f"t{n}": SaidTopic(str(n), 10_000) for n in range(20)}
    side = Side({**many, "huge": SaidTopic("h", PARTITIONS_MAX)})
    side.wait(10)
    assert side.source.is_complete
    data = side.zk.tree.nodes[TREE.topic("huge")].data
    assert 20 * len(side.zk.tree.nodes[TREE.topic("t0")].data) > MULTI_BYTES_MAX > len(data)


def test_what_was_left_unfinished_long_ago_is_not_what_counts() -> None:
    """Nodes that do not count may be of any time (simulator, sources 433)."""
    side = Side({"t": SaidTopic("b", 2), "new": SaidTopic("n", 1)}, begins=False)
    side.theirs("t", brokers=(1, 2))
    for path in TREE.above()[1:]:
        side.write(Create(path, b""))
    side.write(Create(TREE.topic("t"), encode_known_topic(KnownTopic("a", 5, found=True))))
    side.write(Create(TREE.topic("gone"), encode_known_topic(KnownTopic("g", 1))))
    side.lead()
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.source.is_complete
    assert side.topic() == side.found("b", 2), "of Kafka's node, with the id by now"
    assert TREE.topic("gone") not in side.nodes and TREE.topic("new") in side.nodes


def test_a_broker_that_is_behind_takes_nobody_back_when_ours_begin_to_count() -> None:
    side = Side({"t": SaidTopic("former", 1)}, begins=False)
    side.theirs(brokers=(1, 2))
    data = b'{"version":3,"topic_id":"latter","partitions":{"0":[1]}}'
    side.write(Create("/brokers/topics/t", data))
    side.lead()
    side.wait(OPTIONS.refresh_ms // 2)
    assert not side.source.is_complete
    side.topics["t"] = SaidTopic("latter", 1)
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.source.is_complete and side.topic() == side.found("latter", 1)


def test_what_changes_while_ours_are_written_is_looked_at_anew() -> None:
    side = Side({"t": SaidTopic("a", 1)}, begins=False)
    side.theirs("t", brokers=(1, 2))
    side.answers = False
    side.lead()
    side.answers, side.hidden = True, {"late"}  # the brokers that are asked have not heard of it
    side.topics["late"] = SaidTopic("l", 1)
    side.write(Create("/brokers/topics/late", b'{"version":1,"partitions":{"0":[1]}}'))
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.source.is_complete and side.topic("late") == side.found("", 1, "late")


def test_an_owner_of_the_topic_before_is_one_when_ours_count_too() -> None:
    """Or members would begin the topic that was made again while it still consumes the one before,
    and its last commit would count (simulator, sources 1984).
    """
    side = Side({"t": SaidTopic("latter", 1)}, begins=False)
    side.theirs("t", brokers=(1, 2))
    side.write(Create("/owner", b""))
    made_again(side, "latter")
    side.lead()
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.source.is_complete
    nodes = side.zk.tree.nodes
    assert nodes["/owner"].czxid < side.created("t") == nodes["/brokers/topics/t"].czxid


def made_again(side: Side, topic_id: str) -> None:
    """Kafka does it."""
    data = f'{{"version":3,"topic_id":"{topic_id}","partitions":{{"0":[1]}}}}'.encode()
    side.write(Delete("/brokers/topics/t"), Create("/brokers/topics/t", data))


def test_what_is_made_again_while_ours_begin_to_count_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everybody has read it (simulator, sources 651 and 867)."""
    side = Side({"t": SaidTopic("former", 1)}, begins=False)
    side.theirs(brokers=(1, 2))
    made_again_at_first = b'{"version":3,"topic_id":"former","partitions":{"0":[1]}}'
    side.write(Create("/brokers/topics/t", made_again_at_first))
    write = FencedPort.write

    def late(port: FencedPort, ops: Sequence[Op], done: Callable[..., None]) -> None:
        if ops[0].path == TREE.source:
            made_again(side, "latter")
        write(port, ops, done)

    monkeypatch.setattr(FencedPort, "write", late)
    side.lead()
    side.wait(OPTIONS.refresh_ms // 2)
    assert side.source.is_complete
    latter = side.topic()
    assert latter == replace(side.found("latter", 1), former=("former",)), "the brokers are behind"
    side.topics["t"] = SaidTopic("latter", 1)
    side.wait(3 * OPTIONS.refresh_ms)
    assert side.topic() == latter


def test_what_stands_below_a_topic_keeps_nobody_from_hearing_of_others() -> None:
    side = Side({name: SaidTopic(name, 1) for name in ("t", "u", "old")})
    side.wait(10)
    side.write(Create(f"{TREE.topic('t')}/below", b""), Create(f"{TREE.topic('t')}/below/it", b""))
    side.topics |= {"t": SaidTopic("t2", 2), "u": SaidTopic("u2", 2)}
    del side.topics["old"]
    side.wait(ALL_SOON_MS + 5 * OPTIONS.refresh_ms)
    assert side.topic("u") == KnownTopic("u2", 2, ("u",)) and side.topic("old") is None
    side.wait(HELD_MS + 5 * OPTIONS.refresh_ms)
    assert side.topic() == KnownTopic("t2", 2, ("t",)), "it was deleted, what was below it, too"


def test_what_cannot_be_written_is_left_alone_and_told_once() -> None:
    side = Side({name: SaidTopic(name, 1) for name in ("t", "u")})
    side.wait(10)
    side.source._port.clear = lambda *told: None  # type: ignore[method-assign]  # may not do it
    side.write(Create(f"{TREE.topic('t')}/below", b""), Create(f"{TREE.broker(2)}/below", b""))
    del side.topics["t"], side.brokers[2]
    for n in range(2, 30):
        side.topics["u"] = SaidTopic(f"u{n}", 1)
        side.wait(15 * OPTIONS.refresh_ms)
        found = side.topic("u")
        assert found is not None and found.topic_id == f"u{n}"
    told = [one.detail for one in side.records if one.detail["event"] == REFUSED]
    assert sorted(str(one["path"]) for one in told) == [TREE.broker(2), TREE.topic("t")]
    assert {one["why"] for one in told} == {"NotEmpty"}


def test_nodes_left_from_before_that_have_some_below_keep_nothing_from_counting() -> None:
    side = Side({"t": SaidTopic("a", 1)}, begins=False)
    for path in (*TREE.above()[1:], TREE.topic("gone"), f"{TREE.topic('gone')}/below"):
        side.write(Create(path, b""))
    side.lead()
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.source.is_complete and TREE.topic("gone") not in side.nodes


def test_a_broker_may_have_any_id_that_kafka_takes() -> None:
    """The next one to lead made its node again and again."""
    side = Side({"t": SaidTopic("a", 1)})
    side.brokers[BROKER_ID_MAX] = SaidBroker(BROKER_ID_MAX, "b", 9092)
    side.wait(2 * OPTIONS.refresh_ms)
    side.source.lost()
    side.lead()
    del side.topics["t"]
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.topic() is None and TREE.broker(BROKER_ID_MAX) in side.nodes


@pytest.mark.parametrize("path", [TREE.source, TREE.topic("t"), TREE.broker(1)])
def test_what_somebody_deletes_is_there_again(path: str) -> None:
    side = Side({"t": SaidTopic("a", 1), "u": SaidTopic("b", 1)})
    side.wait(10)
    side.topics["new"] = SaidTopic("n", 1)
    side.wait(SEEN_EVERY_MS)
    made = side.zk.tree.nodes[TREE.topic("u")].czxid
    side.write(Delete(path))
    side.wait(SEEN_EVERY_MS + 3 * OPTIONS.refresh_ms)
    assert path in side.nodes and side.source.is_complete
    assert side.zk.tree.nodes[TREE.topic("u")].czxid == made


def test_nodes_that_are_none_of_ours_are_looked_at_once_and_again() -> None:
    side = Side({"t": SaidTopic("a", 1)})
    side.wait(10)
    side.write(Create(f"{TREE.topics}/no topic", b""))
    side.wait(10 * SEEN_EVERY_MS)
    del side.topics["t"]
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.topic() is None


def test_who_is_late_to_say_that_ours_count_knows_it() -> None:
    side = Side({"t": SaidTopic("a", 1)}, begins=False)
    side.answers = False
    side.lead()
    side.write(Create(TREE.source, encode_source("c")))
    side.answers = True
    side.wait(5 * OPTIONS.refresh_ms)
    assert side.source.is_complete
    side.topics["new"] = SaidTopic("n", 1)
    side.wait(ALL_SOON_MS + 2 * OPTIONS.refresh_ms)
    assert side.topic("new") == KnownTopic("n", 1)
