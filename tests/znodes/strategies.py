"""Values as the codec's encoders take them, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from zkcoord.core.model import (
    Cause,
    Command,
    Departed,
    GroupMetadata,
    GroupState,
    Option,
    Pattern,
    PatternKind,
    Subscription,
    Thread,
    TopicPartition,
)
from zkcoord.znodes.codec import EPOCH_MAX, EpochData, LeaderData
from zkcoord.znodes.stat import Stat

INT64 = 2**63 - 1
WORD = "ABCXYZabcxyz0189._-"
counters = st.integers(0, INT64)
printable = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs", "Cf", "Cn", "Co", "Zl", "Zp", "Zs")
    ),
    max_size=40,
)
words = st.text(WORD, min_size=1, max_size=30)
topics = st.text(WORD, min_size=1, max_size=249).filter(lambda t: t not in (".", ".."))
short_topics = st.text("ab-.9_", min_size=1, max_size=8).filter(lambda t: t not in (".", ".."))
members = st.text("abz09._-:", min_size=1, max_size=60).filter(lambda m: m not in (".", ".."))
numbers = st.integers(0, 999_999_999)
partitions = st.builds(TopicPartition, topics, numbers)
regexes = st.sampled_from(
    ["orders", r"orders\..*", "a|b", "(a+)+$", '"quoted"', "ünïcode.*", "[a-z]{1,3}"]
)
patterns = st.builds(
    Pattern,
    st.sampled_from([PatternKind.WHITE_LIST, PatternKind.BLACK_LIST]),
    regexes,
    st.booleans(),
)
static = st.builds(Subscription, topics=st.dictionaries(topics, st.integers(1, 10_000), max_size=5))
wild = st.builds(Subscription, pattern=patterns, streams=st.integers(1, 10_000))
subscriptions = static | wild
stats = st.builds(
    Stat,
    czxid=counters,
    mzxid=counters,
    version=st.integers(0, 100),
    cversion=st.just(0),
    ephemeral_owner=st.integers(1, INT64),
    num_children=st.just(0),
)
epochs = st.builds(
    EpochData,
    st.integers(1, EPOCH_MAX),
    st.integers(1, 1_000),
    st.integers(1, 2**31 - 1),
    st.integers(0, 2**31 - 1),
)
leaders = st.builds(
    LeaderData, printable, printable, st.integers(0, 65_535), st.integers(1, INT64), counters
)


@st.composite
def departures(draw: st.DrawFn) -> Departed:
    """A static instance, with threads and topics of its own."""
    partitions = sorted(
        draw(
            st.frozensets(st.builds(TopicPartition, short_topics, st.integers(0, 50)), max_size=20)
        )
    )
    threads = {tp: draw(st.integers(0, 3)) for tp in partitions}
    streams = draw(st.dictionaries(short_topics, st.integers(1, 9), max_size=3))
    return Departed(
        draw(printable),
        tuple(partitions),
        draw(counters),
        draw(counters),
        {tp: n for tp, n in threads.items() if n},
        streams,
    )


departed = departures()
metadata = st.builds(
    GroupMetadata,
    generation=counters,
    state=st.sampled_from(GroupState),
    assignor=printable,
    protocol=printable,
    topics=st.lists(topics, max_size=4).map(tuple),
    members=counters,
    configuration=st.dictionaries(words, printable | st.integers(-5, 5), max_size=3),
    departed=st.lists(departed, max_size=3).map(tuple),
    cause=st.builds(Cause, printable, printable),
    since_ms=counters,
    ownership=printable,
)


@st.composite
def commands(draw: st.DrawFn) -> Command:
    """A command of any kind."""
    member = draw(members)
    option = draw(st.sampled_from(Option))
    start = (
        draw(st.dictionaries(partitions, st.builds(Thread, st.just(member), numbers), max_size=5))
        if option is Option.START
        else {}
    )
    stop = (
        tuple(draw(st.lists(partitions, max_size=5, unique=True))) if option is Option.STOP else ()
    )
    rejecting = option is Option.REJECT
    return Command(
        member=member,
        incarnation=draw(counters),
        option=option,
        epoch=draw(counters),
        seq=draw(counters),
        generation=draw(counters),
        start=start,
        stop=stop,
        more=option in (Option.START, Option.STOP) and draw(st.booleans()),
        code=draw(words) if rejecting else "",
        fatal=draw(st.booleans()) if rejecting else False,
        message=draw(printable) if rejecting else "",
        node=draw(words),
    )
