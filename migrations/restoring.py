"""Putting back what a run found: in both stores, or not at all where that would leave one of them
ahead.

Old consumers with dual commit begin at the higher offset of both stores, so that a store that is
moved back alone is ignored without a word; whoever reads the other one begins somewhere else. Only
what the run knew or wrote is touched.
"""

from __future__ import annotations

from collections.abc import Callable

from migrations import judging
from migrations.journal import Began, JournalTold
from migrations.model import Change, Choices, GroupNow, KafkaOffset, MigrationPlan, ZkNote, ZkOffset
from zkcoord.admin.common import some
from zkcoord.znodes.codec import OffsetsOf, encode_incarnation

BOTH = ("zookeeper", "kafka")


def restorer(
    told: JournalTold, stores: tuple[str, ...] = BOTH
) -> Callable[[GroupNow, Choices], MigrationPlan]:
    """Plans the restoration of one group after the other. `stores`: which of `BOTH`."""

    def plan(now: GroupNow, choices: Choices) -> MigrationPlan:
        first, latest = told.first.get(now.name), told.latest.get(now.name)
        return (
            MigrationPlan(now.name)
            if first is None or latest is None
            else _plan(now, first, _added(first, latest), stores)
        )

    return plan


def _added(first: Began, latest: Began) -> tuple[Change, ...]:
    """All that the run meant to write."""
    return (*first.changes, *latest.changes)


def _plan(
    now: GroupNow, first: Began, changes: tuple[Change, ...], stores: tuple[str, ...]
) -> MigrationPlan:
    in_zookeeper = {
        **{change.tp: None for change in changes if isinstance(change, ZkOffset)},
        **first.zookeeper,
    }
    in_kafka = {
        **{change.tp: None for change in changes if isinstance(change, KafkaOffset)},
        **first.kafka,
    }
    notes = {
        **{change.topic: "" for change in changes if isinstance(change, ZkNote)},
        **first.notes,
    }
    wanted: list[Change] = []
    refusals: list[str] = []
    if "zookeeper" in stores:
        for topic, text in sorted(notes.items()):
            beside = now.beside.get(topic)
            change = ZkNote(
                topic, _said(now, topic), text, None if beside is None else beside.version
            )
            wanted += [change] if change.before != change.after else []
        for tp, value in sorted(in_zookeeper.items()):
            stored = now.stored.get(tp)
            if (None if stored is None else stored.offset) != value:
                wanted.append(
                    ZkOffset(
                        tp,
                        None if stored is None else stored.offset,
                        value,
                        None if stored is None else stored.version,
                    )
                )
    if "kafka" in stores:
        wanted += [
            KafkaOffset(tp, now.kafka.get(tp), value)
            for tp, value in sorted(in_kafka.items())
            if now.kafka.get(tp) != value
        ]
    if set(stores) != set(BOTH):
        refusals += _alone(now, wanted, stores[0])
    return MigrationPlan(
        now.name,
        tuple(wanted),
        tuple(refusals),
        (*judging.live_in_zookeeper(now), *judging.live_in_kafka(now)),
        (),
        len(in_zookeeper) * ("zookeeper" in stores)
        + len(in_kafka) * ("kafka" in stores)
        - sum(not isinstance(change, ZkNote) for change in wanted),
    )


def _alone(now: GroupNow, wanted: list[Change], store: str) -> list[str]:
    """Why one store cannot be moved back without the other."""
    other = (
        now.kafka
        if store == "zookeeper"
        else {tp: stored.offset for tp, stored in now.stored.items() if stored.offset is not None}
    )
    behind = sorted(
        change.tp
        for change in wanted
        if not isinstance(change, ZkNote)
        and change.before is not None
        and (change.after is None or change.after < change.before)
        and change.tp in other
        and (change.after is None or other[change.tp] > change.after)
    )
    if not behind:
        return []
    return [
        (
            f"{'ZooKeeper' if store == 'zookeeper' else 'Kafka'} would go back while the other"
            f" store stays ahead ({some(behind)}), and the higher one counts for whoever reads"
            " both: restore both stores"
        )
    ]


def _said(now: GroupNow, topic: str) -> str:
    beside = now.beside.get(topic)
    return (
        encode_incarnation(beside.value).decode()
        if beside is not None and isinstance(beside.value, OffsetsOf)
        else ""
    )
