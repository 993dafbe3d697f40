"""What each step would write, from what the stores hold: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from migrations.model import Choices, GroupNow, KafkaOffset, MigrationPlan, ZkNote, ZkOffset
from migrations.steps import STEPS, step_named
from zkcoord.admin.offsets.reset_plan import Log
from zkcoord.admin.offsets.stored import OffsetsParent, StoredOffset
from zkcoord.core.model import Malformed, Topic, TopicPartition
from zkcoord.errors import ConfigurationError
from zkcoord.znodes.codec import OffsetsOf, Vacant

CREATED, WRITTEN, MARKED = 100, 200, 150
INCARNATION = f"{CREATED}.id"
TOPIC = Topic("orders", INCARNATION, (0, 1, 2), CREATED)
MARK = OffsetsParent(OffsetsOf(INCARNATION), 3, MARKED)
NO_MARK = OffsetsParent(Vacant(), 0, CREATED)
OTHER = OffsetsParent(OffsetsOf("50.old"), 3, 60)
STEP_1, STEP_2 = STEPS
Values = Mapping[int, "int | None"]


def tp(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def now(
    zookeeper: Values,
    kafka: Mapping[int, int] | None = None,
    beside: OffsetsParent = MARK,
    written: Mapping[int, int] | None = None,
    end: int = 1_000,
    **more: object,
) -> GroupNow:
    """The group g with these offsets, partition -> offset (None: what is stored is none)."""
    stored = {
        tp(n): StoredOffset(offset, 7, (written or {}).get(n, WRITTEN), None, False, beside)
        for n, offset in zookeeper.items()
    }
    known = {tp(n): Log(0, end) for n in range(3)}
    return GroupNow(
        **{
            "name": "g",
            "stored": stored,
            "beside": {"orders": beside} if beside.version is not None else {},
            "kafka": {tp(n): o for n, o in (kafka or {}).items()},
            "topics": {"orders": TOPIC},
            "logs": known,
            **more,
        }
    )


def changes(plan: MigrationPlan) -> list[object]:
    assert not plan.reasons, plan.reasons
    return list(plan.changes)


CHOSEN = Choices()


def test_names_of_steps() -> None:
    assert [step_named(text) for text in ("1", "0002", "coordinated-to-kafka")] == [
        STEP_1,
        STEP_2,
        STEP_2,
    ]
    with pytest.raises(
        ConfigurationError, match=r"no migration 'x': write 1 \(zookeeper-to-coordinated\) or 2"
    ):
        step_named("x")


# step 1


def test_step_1_marks_whose_the_offsets_are() -> None:
    found = now({0: 5, 1: 6}, beside=NO_MARK)
    assert changes(STEP_1.forward(found, CHOSEN)) == [ZkNote("orders", "", INCARNATION, 0)]
    assert changes(STEP_1.forward(now({0: 5, 1: 6}), CHOSEN)) == []


def test_step_1_needs_nobody_to_stop() -> None:
    assert not STEP_1.forward(now({0: 5}, beside=NO_MARK, old=("a",), owned=1), CHOSEN).reasons
    assert (
        "Kafka's own protocol hold the group id (x on h)"
        in STEP_1.forward(now({0: 5}, theirs=("x on h",)), CHOSEN).live[0]
    )


def test_step_1_offsets_from_before_the_topic_do_not_count() -> None:
    """They stay, and are said not to; the others are written once more in the same transaction, so
    that they are not older than what says so. Nobody may live then.
    """
    found = now({0: 5, 1: 6}, beside=NO_MARK, written={0: CREATED - 1})
    plan = STEP_1.forward(found, CHOSEN)
    assert changes(plan) == [ZkNote("orders", "", INCARNATION + "+", 0), ZkOffset(tp(1), 6, 6, 7)]
    assert (
        "orders was made after these offsets were stored, so they do not count: orders-0"
        in plan.warnings
    )
    assert STEP_1.forward(
        now({0: 5, 1: 6}, beside=NO_MARK, written={0: CREATED - 1}, old=("a",)), CHOSEN
    ).live
    marked = OffsetsParent(OffsetsOf(INCARNATION, newer_only=True), 1, WRITTEN)
    assert (
        changes(STEP_1.forward(now({0: 5, 1: 6}, beside=marked, written={0: CREATED - 1}), CHOSEN))
        == []
    )
    assert changes(STEP_1.forward(now({0: 5, 1: 6}, beside=OTHER), CHOSEN)) == [
        ZkNote("orders", "50.old", INCARNATION + "+", 3)
    ], "all of them are of the topic before"


def test_step_1_offsets_that_only_kafka_has() -> None:
    """Old consumers with offsets.storage=kafka."""
    found = now({0: 5, 1: 6}, {0: 9, 2: 4})
    assert (
        "Kafka has committed offsets that ZooKeeper does not have (orders-0, orders-2, 4 records"
        " together)" in STEP_1.forward(found, CHOSEN).refusals[0]
    )
    assert changes(STEP_1.forward(found, Choices(highest=True))) == [
        ZkOffset(tp(0), 5, 9, 7),
        ZkOffset(tp(2), None, 4, None),
    ]
    assert (
        "old consumers are registered"
        in STEP_1.forward(now({0: 5}, {0: 9}, old=("a",)), Choices(highest=True)).live[0]
    )
    assert changes(
        STEP_1.forward(
            now({}, {0: 9}, beside=OffsetsParent(Vacant(), None, 0)), Choices(highest=True)
        )
    ) == [ZkOffset(tp(0), None, 9, None), ZkNote("orders", "", INCARNATION, None)]


def test_step_1_names_what_a_tool_for_go_wrote() -> None:
    plan = STEP_1.forward(now({0: 5, 1: 6}, {0: 4, 1: 5}), CHOSEN)
    assert changes(plan) == [] and any("one behind" in warning for warning in plan.warnings)
    assert not STEP_1.forward(now({0: 5, 1: 6}, {0: 4, 1: 6}), CHOSEN).warnings
    assert not STEP_1.forward(now({0: 5}, {0: 4}), CHOSEN).warnings, "one partition proves nothing"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("rollback", [False, True])
def test_what_is_no_offset_and_two_layouts_are_refused_everywhere(
    step: object, rollback: bool
) -> None:
    planner = step.plan(rollback)  # type: ignore[attr-defined]
    assert (
        "holds for orders-1 is no offset"
        in planner(now({0: 5, 1: None}, {0: 5}), CHOSEN).refusals[0]
    )
    assert (
        "both of zkcoord's layouts"
        in planner(now({0: 5}, {0: 5}, both_layouts=True), CHOSEN).refusals[0]
    )
    assert (
        "let this client read /x"
        in planner(now({0: 5}, {0: 5}, unreadable=("/x",)), CHOSEN).refusals[0]
    )


def test_step_1_back() -> None:
    assert changes(STEP_1.back(now({0: 5}), CHOSEN)) == [ZkNote("orders", INCARNATION, "", 3)]
    assert changes(STEP_1.back(now({0: 5}, beside=NO_MARK), CHOSEN)) == []
    assert not STEP_1.back(now({0: 5}, old=("a",), owned=1), CHOSEN).reasons, (
        "old consumers never look at it"
    )
    assert "members of zkcoord" in STEP_1.back(now({0: 5}, ours=("a",)), CHOSEN).live[0]
    assert "roll step 2 back first" in STEP_1.back(now({0: 5}, {0: 6}), CHOSEN).refusals[0]
    stale = now({0: 5, 1: 6}, beside=OTHER)
    assert changes(STEP_1.back(stale, CHOSEN)) == [
        ZkOffset(tp(0), 5, 0, 7),
        ZkOffset(tp(1), 6, 0, 7),
        ZkNote("orders", "50.old", "", 3),
    ], "an old consumer would take them for this topic's"
    assert (
        "logs of orders-0, orders-1"
        in STEP_1.back(now({0: 5, 1: 6}, beside=OTHER, logs={}), CHOSEN).refusals[0]
    )
    assert STEP_1.back(now({0: 5, 1: 6}, beside=OTHER, old=("a",)), CHOSEN).live


# step 2


def test_step_2_copies_what_differs() -> None:
    plan = STEP_2.forward(now({0: 5, 1: 6, 2: 7}, {0: 5, 1: 2}), CHOSEN)
    assert (
        changes(plan) == [KafkaOffset(tp(1), 2, 6), KafkaOffset(tp(2), None, 7)] and plan.same == 1
    )


@pytest.mark.parametrize(
    "who",
    [{"old": ("a",)}, {"ours": ("a",)}, {"theirs": ("a on h",)}, {"owned": 1}, {"led": "by a"}],
)
@pytest.mark.parametrize("rollback", [False, True])
def test_step_2_needs_everybody_to_stop(who: dict[str, object], rollback: bool) -> None:
    plan = STEP_2.plan(rollback)(now({0: 5}, {0: 5}, **who), CHOSEN)
    assert len(plan.live) == 1 and not plan.refusals
    assert ("1 partition has an owner node" if "owned" in who else "a") in plan.live[0]


def test_step_2_moves_no_store_back_in_silence() -> None:
    forward = now({0: 5, 1: 6}, {0: 9, 1: 6})
    assert (
        "Kafka is ahead of ZooKeeper (orders-0, 4 records together)"
        in STEP_2.forward(forward, CHOSEN).refusals[0]
    )
    assert changes(STEP_2.forward(forward, Choices(allow_rewind=True))) == [
        KafkaOffset(tp(0), 9, 5)
    ]
    back = now({0: 9, 1: 6}, {0: 5, 1: 6})
    assert (
        "ZooKeeper is ahead of Kafka (orders-0, 4 records together)"
        in STEP_2.back(back, CHOSEN).refusals[0]
    )
    assert changes(STEP_2.back(back, Choices(allow_rewind=True))) == [ZkOffset(tp(0), 9, 5, 7)]


def test_step_2_puts_right_what_a_tool_for_go_wrote() -> None:
    plan = STEP_2.forward(now({0: 5, 1: 6}, {0: 4, 1: 5}), CHOSEN)
    assert (
        changes(plan) == [KafkaOffset(tp(0), 4, 5), KafkaOffset(tp(1), 5, 6)]
        and "one behind everywhere" in plan.warnings[0]
    )
    back = now({0: 5, 1: 6}, {0: 4, 1: 5})
    assert (
        len(STEP_2.back(back, CHOSEN).refusals) == 1
        and "one behind ZooKeeper's everywhere" in STEP_2.back(back, CHOSEN).refusals[0]
    )
    assert changes(STEP_2.back(back, Choices(off_by_one="correct"))) == [
        KafkaOffset(tp(0), 4, 5),
        KafkaOffset(tp(1), 5, 6),
    ]
    assert changes(STEP_2.back(back, Choices(off_by_one="keep"))) == [
        ZkOffset(tp(0), 5, 4, 7),
        ZkOffset(tp(1), 6, 5, 7),
    ]


def test_step_2_asks_where_every_partition_lacks_its_last_record() -> None:
    found = now({0: 9, 1: 9, 2: 9}, end=10)
    assert (
        "every partition lacks exactly its last record" in STEP_2.forward(found, CHOSEN).refusals[0]
    )
    assert changes(STEP_2.forward(found, Choices(off_by_one="keep"))) == [
        KafkaOffset(tp(n), None, 9) for n in range(3)
    ]
    corrected = changes(STEP_2.forward(found, Choices(off_by_one="correct")))
    assert corrected == [ZkOffset(tp(n), 9, 10, 7) for n in range(3)] + [
        KafkaOffset(tp(n), None, 10) for n in range(3)
    ]
    assert (
        changes(STEP_2.forward(now({0: 9, 1: 9, 2: 9}, {0: 9, 1: 9, 2: 9}, end=10), CHOSEN)) == []
    ), "they agree"
    assert not STEP_2.forward(now({0: 9, 1: 9}, end=10), CHOSEN).refusals, "two are a chance"
    assert not STEP_2.forward(now({0: 9, 1: 9, 2: 10}, end=10), CHOSEN).refusals
    assert (
        "every partition lacks"
        in STEP_2.back(now({}, {0: 9, 1: 9, 2: 9}, end=10), CHOSEN).refusals[0]
    )


def test_step_2_offsets_of_an_earlier_topic_become_its_first_record() -> None:
    plan = STEP_2.forward(now({0: 5, 1: 6}, beside=OTHER), CHOSEN)
    assert (
        changes(plan) == [KafkaOffset(tp(0), None, 0), KafkaOffset(tp(1), None, 0)]
        and "earlier topic" in plan.warnings[0]
    )
    assert "are not known" in STEP_2.forward(now({0: 5}, beside=OTHER, logs={}), CHOSEN).refusals[0]


def test_step_2_back_makes_what_is_missing() -> None:
    assert changes(
        STEP_2.back(now({}, {0: 5}, beside=OffsetsParent(Vacant(), None, 0)), CHOSEN)
    ) == [
        ZkNote("orders", "", INCARNATION, None),
        ZkOffset(tp(0), None, 5, None),
    ]
    assert changes(STEP_2.back(now({0: 3}, {0: 5, 1: 6}), CHOSEN)) == [
        ZkOffset(tp(0), 3, 5, 7),
        ZkOffset(tp(1), None, 6, None),
    ]
    assert changes(STEP_2.back(now({0: 5}, {0: 5}, beside=OTHER), CHOSEN)) == [
        ZkNote("orders", "50.old", INCARNATION + "+", 3),
        ZkOffset(tp(0), 5, 5, 7),
    ], "written anew, so that it counts"
    plan = STEP_2.back(replace(now({0: 5}), kafka={tp(0): 5, TopicPartition("gone", 0): 1}), CHOSEN)
    assert changes(plan) == [] and "do not exist" in plan.warnings[0]


def test_an_unreadable_mark_is_left_alone() -> None:
    beside = OffsetsParent(Malformed("offsets", "orders", "x"), 3, MARKED)
    assert changes(STEP_2.back(now({0: 5}, {0: 6}, beside=beside), CHOSEN)) == [
        ZkOffset(tp(0), 5, 6, 7)
    ]
    assert changes(STEP_1.back(now({0: 5}, beside=beside), CHOSEN)) == []
    plan = STEP_1.forward(now({0: 5}, beside=beside), CHOSEN)
    assert changes(plan) == [] and "cannot be read" in plan.warnings[0]
