"""The sink's steps in every order: thousands of stories of members that die, stand still and lose
answers between any two of them; and with one rule taken out, which must be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest

from consumer.spark.sink import manifest as docs
from consumer.spark.sink import publication as steps
from consumer.spark.sink.errors import DamagedSinkError, SinkError
from consumer.spark.sink.fence import Batch
from tests.spark.sink.model import GROUP, LAYOUT, PARTITIONS, PLACE, Member, World
from zkcoord.zk.port import (
    Check,
    Create,
    GetChildren,
    GetData,
    Missing,
    Node,
    Op,
    Rejected,
    SetData,
    ZkError,
)
from zkcoord.znodes.publication import decode_publication, incarnation_of
from zkcoord.znodes.stat import Stat

SEEDS = 200
SEEDS_OF_VARIANTS = 100

commit_ops, _finish, recover, _registered = (
    steps.commit_ops,
    steps._finish,
    steps.recover,
    steps._registered,
)
Steps = Generator[steps.Effect, Any, Any]


def commits(effect: steps.Effect) -> bool:
    """Is it the multi of a batch?"""
    return isinstance(effect, steps.Transact) and any(isinstance(op, SetData) for op in effect.ops)


def two(world: World) -> tuple[Member, Member]:
    """One that owns everything and has published a batch, and one that owns nothing."""
    world.unreliable = False
    first, second = world.join(), world.join()
    for tp in PARTITIONS:
        world.claim(first, tp)
    world.publishes(first)
    world.goes_on(first)
    return first, second


def overtaken(world: World) -> None:
    """A partition is taken from a member that is registered, and another reads it, while the member
    is about to commit a batch of it.
    """
    first, second = two(world)
    world.publishes(first)
    world.goes_on(first, commits)
    world.usurp(first)
    world.claim(second, next(tp for tp in PARTITIONS if tp not in first.owned))
    world.publishes(second)
    world.goes_on(second)
    world.goes_on(first)


def cleaned_away(world: World) -> None:
    """A member's session ends while it is about to commit, and before anybody claims, somebody
    cleans.
    """
    first, second = two(world)
    world.publishes(first)
    world.goes_on(first, commits)
    world.end_session(first)
    world.recovers(second)
    world.goes_on(second)
    world.goes_on(first)


def commits_at_last(world: World) -> None:
    """A member commits and leaves while somebody looks who is there."""
    first, second = two(world)
    world.publishes(first)
    world.goes_on(first, commits)
    world.recovers(second)
    world.goes_on(
        second,
        lambda effect: (
            isinstance(effect, steps.Look) and effect.reads == (GetChildren(LAYOUT.ids(GROUP)),)
        ),
    )
    world.goes_on(first, lambda effect: isinstance(effect, steps.Move))
    world.end_session(first)
    world.members.remove(first)
    world.goes_on(second)


def comes_between(world: World) -> None:
    """A member registers and stages after somebody has read who is registered."""
    world.unreliable = False
    second = world.join()
    world.recovers(second)
    world.goes_on(
        second,
        lambda effect: (
            isinstance(effect, steps.Look)
            and effect.reads == (GetChildren(LAYOUT.publications(GROUP)),)
            and second.answer is not None
        ),
    )
    first = world.join()
    for tp in PARTITIONS:
        world.claim(first, tp)
    world.publishes(first)
    world.goes_on(first, commits)
    world.goes_on(second)
    world.goes_on(first)


STORIES = (overtaken, cleaned_away, commits_at_last, comes_between)


@pytest.mark.parametrize("story", STORIES)
def test_a_story(story: Callable[[World], None]) -> None:
    world = World(0)
    story(world)
    assert world.ends() == []


def test_every_record_is_visible_once() -> None:
    fenced = records = 0
    for seed in range(SEEDS):
        world = World(seed)
        assert world.run() == [], f"seed {seed}"
        fenced += world.fenced
        records += sum(world.visible().values())
    assert fenced > SEEDS / 10 and records > SEEDS, "the stories are too quiet"


def without_versions(*given: Any) -> list[Op]:
    return [replace(op, version=-1) if isinstance(op, SetData) else op for op in commit_ops(*given)]


def without_registration(*given: Any) -> list[Op]:
    return [op for op in commit_ops(*given) if not isinstance(op, Check)]


def without_either(*given: Any) -> list[Op]:
    return [op for op in without_versions(*given) if not isinstance(op, Check)]


def without_intent(*given: Any) -> list[Op]:
    return [op for op in commit_ops(*given) if not isinstance(op, Create)]


def without_finishing(place: steps.SinkPlace, own: int) -> Steps:
    """Recovery only cleans."""
    living = {own, *(yield from _registered(place))}
    for name in (yield steps.Folders(docs.staging(place.group))):
        if int(name) not in living:
            yield steps.Remove(f"{docs.staging(place.group)}/{name}")


def without_recovery(place: steps.SinkPlace, own: int) -> Steps:
    return
    yield


def everybody_departed(place: steps.SinkPlace) -> Steps:
    """Who is registered is not asked: what living members stage is taken away."""
    return set()
    yield


def registered_first(place: steps.SinkPlace, own: int) -> Steps:
    """Who is registered is asked before it is known who has staged: who comes in between seems to
    be gone.
    """
    living = {own, *(yield from _registered(place))}
    intents = yield from steps._intents(place)
    for node in sorted(intents):
        if incarnation_of(node) not in living:
            yield from _finish(place, node, intents[node])
    for name in (yield steps.Folders(docs.staging(place.group))):
        if int(name) not in living:
            yield steps.Remove(f"{docs.staging(place.group)}/{name}")


def intents_first(place: steps.SinkPlace, own: int) -> Steps:
    """Intents are not read again once it is known who is gone."""
    folders = yield steps.Folders(docs.staging(place.group))
    intents = yield from steps._intents(place)
    living = {own, *(yield from _registered(place))}
    for node in sorted(intents):
        if incarnation_of(node) not in living:
            yield from _finish(place, node, intents[node])
    for name in folders:
        if int(name) not in living:
            yield steps.Remove(f"{docs.staging(place.group)}/{name}")


def intent_deleted_first(place: steps.SinkPlace, node: str, data: bytes) -> Steps:
    """The intent goes before the files are moved."""
    yield from steps._delete(place.layout.publication(place.group, node))
    intent = decode_publication(node, data)
    found = yield steps.Fetch(intent.manifest)
    for source, target in docs.decode_manifest(node, found).files if found else ():
        yield steps.Move(source, target)
    return True


VARIANTS = [
    ("commit_ops", without_either),
    ("commit_ops", without_versions),
    ("commit_ops", without_registration),
    ("commit_ops", without_intent),
    ("recover", without_finishing),
    ("recover", without_recovery),
    ("recover", registered_first),
    ("recover", intents_first),
    ("_registered", everybody_departed),
    ("_finish", intent_deleted_first),
]


@pytest.mark.parametrize(("name", "weak"), VARIANTS, ids=[weak.__name__ for _, weak in VARIANTS])
def test_a_weakened_variant_is_noticed(
    name: str, weak: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, name, weak)
    assert any(
        map(
            is_noticed,
            (*STORIES, *([None] * SEEDS_OF_VARIANTS)),
            range(len(STORIES) + SEEDS_OF_VARIANTS),
        )
    )


def is_noticed(story: Callable[[World], None] | None, seed: int) -> bool:
    """Is anything wrong in this story, or in that of the seed?"""
    world = World(seed)
    try:
        if story is None:
            return bool(world.run())
        story(world)
        return bool(world.ends())
    except (DamagedSinkError, AssertionError):
        return True


def test_a_parent_that_only_the_coordinator_may_make_is_looked_for() -> None:
    """With roles ZooKeeper refuses to make what is there by now, too, and says the same."""
    batch = Batch(LAYOUT, GROUP, "m", 1, 1, (), "query")
    for there in (True, False):
        way = steps._make_way(PLACE, batch, Create("/x", b""), ZkError.NO_NODE)
        assert isinstance(next(way), steps.Transact)
        look = way.send(Rejected(0, ZkError.NO_AUTH))
        assert look == steps.Look((GetData(LAYOUT.publications(GROUP)),))
        with pytest.raises(StopIteration if there else SinkError):
            way.send((Node(b"", Stat(1, 1, 0, 0, 0, 0)) if there else Missing(),))
