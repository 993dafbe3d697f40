"""Paths: exactly the protocol's, and back again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.znodes import strategies
from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError
from zkcoord.znodes import places
from zkcoord.znodes.names import is_group
from zkcoord.znodes.paths import Layout, layout_named, parents

TP = TopicPartition("a-b", 3)
LAYOUTS = pytest.mark.parametrize(
    "layout", [Layout.DRAFT, Layout.ISOLATED], ids=lambda layout: layout.name
)
groups = st.text(strategies.WORD, min_size=1, max_size=249).filter(is_group)


def test_draft_paths_are_the_drafts() -> None:
    lay = Layout.DRAFT
    assert (lay.leader, lay.epoch, lay.group("g")) == (
        "/consumers/coordinator",
        "/consumers/groups",
        "/consumers/groups/g",
    )
    assert lay.registration("g", "c") == "/consumers/groups/g/ids/c"
    assert lay.command("g", "c", "1-2-0000000003") == "/consumers/groups/g/channel/c/1-2-0000000003"
    assert lay.owner("g", TP) == "/consumers/groups/g/owners/a-b/3"
    assert lay.offset("g", TP) == "/consumers/g/offsets/a-b/3"


def test_isolated_keeps_what_old_consumers_keep() -> None:
    lay = Layout.ISOLATED
    assert (lay.leader, lay.epoch, lay.group("g")) == (
        "/zkcoord/coordinator",
        "/zkcoord/groups",
        "/zkcoord/groups/g",
    )
    assert (lay.registration("g", "c"), lay.owner("g", TP), lay.offset("g", TP)) == (
        "/consumers/g/ids/c",
        "/consumers/g/owners/a-b/3",
        "/consumers/g/offsets/a-b/3",
    )
    assert lay.command_prefix("g", "c", 7, 12) == "/zkcoord/groups/g/channel/c/7-12-"


@LAYOUTS
@given(group=groups, member=strategies.members, topic=strategies.topics, number=strategies.numbers)
def test_locate_is_the_inverse(
    layout: Layout, group: str, member: str, topic: str, number: int
) -> None:
    tp = TopicPartition(topic, number)
    node = "7-12-0000000001"
    for path, where in [
        (layout.leader, places.LeaderAt()),
        (layout.epoch, places.EpochAt()),
        (layout.group(group), places.GroupAt(group)),
        (layout.ids(group), places.IdsAt(group)),
        (layout.registration(group, member), places.RegistrationAt(group, member)),
        (layout.channels(group), places.ChannelsAt(group)),
        (layout.channel(group, member), places.ChannelAt(group, member)),
        (layout.command(group, member, node), places.CommandAt(group, member, node)),
        (layout.mode(group), places.ModeAt(group)),
        (layout.request(group, "request-1"), places.RequestAt(group, "request-1")),
        (layout.publication(group, "8589934601-17"), places.PublicationAt(group, "8589934601-17")),
        (layout.publications(group), places.Elsewhere(layout.publications(group))),
        (layout.owners(group), places.OwnersAt(group)),
        (layout.owner_topic(group, topic), places.OwnerTopicAt(group, topic)),
        (layout.owner(group, tp), places.OwnerAt(group, tp)),
        (layout.topics_root, places.TopicsAt()),
        (layout.topic(topic), places.TopicAt(topic)),
        (layout.brokers_root, places.BrokersAt()),
        (layout.broker(number), places.BrokerAt(str(number))),
        (layout.offset(group, tp), places.Elsewhere(layout.offset(group, tp))),
    ]:
        assert layout.locate(path) == where
    assert layout.command_prefix(group, member, 7, 12) + "0000000001" == layout.command(
        group, member, node
    )


@LAYOUTS
@given(
    path=st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                "consumers",
                "zkcoord",
                "groups",
                "ids",
                "owners",
                "channel",
                "g",
                "t",
                "0",
                "00",
                "",
                "..",
                "brokers",
                "topics",
            ]
        ),
        max_size=8,
    ).map(lambda p: "/" + "/".join(p))
)
def test_locate_takes_any_path(layout: Layout, path: str) -> None:
    where = layout.locate(path)
    if isinstance(where, places.OwnerAt):
        assert layout.owner(where.group, where.partition) == path
    if isinstance(where, places.CommandAt):
        assert layout.command(where.group, where.member, where.node) == path


@LAYOUTS
@pytest.mark.parametrize(
    "tail",
    [
        "g/owners/t/00",
        "g/owners/t/-1",
        "g/owners/t/x",
        "g/owners/t/0/x",
        "g/owners/t t",
        "g/owners/t t/0",
        "ids/ids/c",
        "g/ids/c/d",
        "bad\tname",
        "..",
    ],
)
def test_names_that_cannot_be_are_elsewhere(layout: Layout, tail: str) -> None:
    path = f"{layout.home}/{tail}"
    assert layout.locate(path) == places.Elsewhere(path)


@LAYOUTS
def test_no_recursive_watch_sees_an_offset(layout: Layout) -> None:
    for root in layout.watch_roots() + layout.group_watch_roots("g"):
        assert not layout.offset("g", TP).startswith(f"{root}/")
        assert not layout.topics_root.startswith(root)


@LAYOUTS
def test_watches_see_what_a_coordinator_reads(layout: Layout) -> None:
    roots = layout.watch_roots() + layout.group_watch_roots("g")
    for path in [
        layout.group("g"),
        layout.registration("g", "c"),
        layout.owner("g", TP),
        layout.command("g", "c", "n"),
    ]:
        assert any(path.startswith(f"{root}/") for root in roots), path


def test_where_all_of_it_is() -> None:
    """Each node that somebody makes, above others first."""
    assert Layout.DRAFT.roots() == (
        "/consumers",
        "/consumers/groups",
        "/consumers/groups/coordinator",
        "/consumers/groups/coordinator/asks",
    )
    assert Layout.ISOLATED.roots() == (
        "/consumers",
        "/zkcoord",
        "/zkcoord/groups",
        "/zkcoord/groups/coordinator",
        "/zkcoord/groups/coordinator/asks",
    )
    assert Layout.DRAFT.group_roots("g") == ("/consumers/groups/g",)
    assert Layout.ISOLATED.group_roots("g") == ("/zkcoord/groups/g", "/consumers/g")
    assert Layout.DRAFT.above_parts("g") == ("/consumers/groups/g", "/consumers/g")
    assert Layout.ISOLATED.parts("g") == (
        "/zkcoord/groups/g",
        "/consumers/g",
        "/consumers/g/ids",
        "/consumers/g/owners",
        "/zkcoord/groups/g/channel",
        "/zkcoord/groups/g/publish",
        "/zkcoord/groups/g/plans",
        "/zkcoord/groups/g/clients",
        "/zkcoord/groups/g/requests",
        "/consumers/g/offsets",
        "/consumers/g/commit-metadata",
    )
    assert Layout.DRAFT.group_watch_roots("g") == ()
    assert Layout.ISOLATED.group_watch_roots("g") == ("/consumers/g/ids", "/consumers/g/owners")


def test_the_part_of_a_group_that_stands_below_the_other_root_is_elsewhere() -> None:
    """In the isolated layout a group has two roots."""
    lay = Layout.ISOLATED
    for below in ("ids", "ids/c", "owners", "owners/t", "owners/t/0"):
        path = f"/zkcoord/groups/g/{below}"
        assert lay.locate(path) == places.Elsewhere(path)
    for below in ("", "/channel", "/channel/c", "/mode", "/requests/r", "/publish/p"):
        path = f"/consumers/g{below}"
        assert lay.locate(path) == places.Elsewhere(path)


@LAYOUTS
@pytest.mark.parametrize(
    "tail",
    ["/channel/c/n/x", "/mode/x", "/requests", "/requests/r/x", "/publish/p/x", "/plans/5-1"],
)
def test_what_is_deeper_or_less_deep_than_a_node_of_ours(layout: Layout, tail: str) -> None:
    path = layout.group("g") + tail
    assert layout.locate(path) == places.Elsewhere(path)


@LAYOUTS
@pytest.mark.parametrize(
    "path",
    [
        "/brokers",
        "/brokers/topics/",
        "/brokers/topics/a b",
        "/brokers/topics/t/partitions",
        "/brokers/ids/",
        "/brokers/ids/01",
        "/brokers/ids/1/x",
        "/brokers/topicsx",
        "/brokers/idsx/1",
    ],
)
def test_what_is_no_node_of_kafkas(layout: Layout, path: str) -> None:
    assert layout.locate(path) == places.Elsewhere(path)


@LAYOUTS
def test_roots_that_hold_others(layout: Layout) -> None:
    assert layout.locate("/brokers/topics") == places.TopicsAt()
    assert layout.locate("/brokers/ids") == places.BrokersAt()
    assert layout.locate("/consumers") == places.Elsewhere("/consumers")


@LAYOUTS
def test_an_ask_is_of_a_group(layout: Layout) -> None:
    assert layout.locate(layout.ask("g")) == places.AskAt("g")
    assert not isinstance(layout.locate(layout.asks), places.AskAt)
    for bad in (layout.ask("ids"), layout.ask("g/x"), layout.ask("")):
        assert layout.locate(bad) == places.Elsewhere(bad)


def test_parents_go_down_from_the_root() -> None:
    assert parents("/a/b/c") == ("/a", "/a/b")
    assert parents("/a") == ()


@LAYOUTS
@given(group=groups, tp=strategies.partitions, chroot=st.sampled_from(["", "/kafka"]))
def test_owner_bytes_add_up(layout: Layout, group: str, tp: TopicPartition, chroot: str) -> None:
    assert layout.owner_fixed_bytes(group, chroot) + len(tp.topic) + len(str(tp.partition)) == len(
        chroot + layout.owner(group, tp)
    )


def test_layouts_by_name() -> None:
    assert layout_named("draft") is Layout.DRAFT
    assert layout_named("isolated").other_profile() is Layout.DRAFT
    assert Layout.DRAFT.other_profile() is Layout.ISOLATED
    with pytest.raises(ConfigurationError, match="write draft or isolated"):
        layout_named("legacy")


@LAYOUTS
@given(groups, strategies.members, strategies.topics, st.integers(0, 99))
def test_the_group_above_a_path(
    layout: Layout, group: str, member: str, topic: str, number: int
) -> None:
    below = [
        layout.registration(group, member),
        layout.channel(group, member),
        layout.command(group, member, "1-2-3"),
        layout.owner(group, TopicPartition(topic, number)),
        layout.ids(group),
    ]
    assert [layout.group_above(path) for path in below] == [group] * len(below)
    assert [
        layout.group_above(path)
        for path in (layout.group(group), layout.topic(topic), layout.leader, layout.groups_root)
    ] == [""] * 4
