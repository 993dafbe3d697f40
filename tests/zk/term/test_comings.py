"""Who came and who went, as the journal is told it: of what is read, before the core knows it."""

from __future__ import annotations

from typing import Any

from zkcoord.core.coordinator import Coordinator
from zkcoord.core.events import Elected, GroupChanged, GroupDelta, Ready, Tick
from zkcoord.core.model import GroupMetadata, Malformed, Member, Subscription
from zkcoord.core.options import CoordinatorOptions
from zkcoord.zk.term.comings import NAMED_MAX, comings


def member(name: str, **more: Any) -> Member:
    return Member(name, 5, 9, Subscription({"t": 1}), ("sticky",), **more)


class Led:
    """A core that leads, with a group of one member that it has read whole."""

    def __init__(self) -> None:
        self.core = Coordinator(CoordinatorOptions())
        self.core.step(Elected(0, 7))
        self.core.step(Ready(0))
        self.first = self.told(GroupDelta(True, {"m1": member("m1")}, metadata=GroupMetadata()))

    def told(self, delta: GroupDelta, group: str = "g") -> list[dict[str, Any]]:
        """What is told of this reading, which the core is then fed."""
        event = GroupChanged(1, group, delta)
        found = [dict(record.detail) for record in comings(event, self.core.groups)]
        self.core.step(event)
        return found


def test_of_a_group_that_is_read_for_the_first_time_nothing_is_told() -> None:
    assert Led().first == []


def test_who_comes_and_who_goes() -> None:
    led = Led()
    came = member("m2", host="h", client="c", instance="i", ended="session 7")
    assert led.told(GroupDelta(members={"m2": came})) == [
        {
            "joined": [
                {
                    "member": "m2",
                    "host": "h",
                    "client": "c",
                    "instance": "i",
                    "ended": "session 7",
                }
            ],
            "left": [],
        }
    ]
    assert led.told(GroupDelta(members={"m2": came})) == [], "it was there"
    assert led.told(GroupDelta(members={"m1": None, "m3": member("m3")})) == [
        {"joined": [{"member": "m3"}], "left": ["m1"]}
    ]
    assert led.told(GroupDelta(members={"m1": None})) == []
    assert led.told(GroupDelta(channels={"m2": True})) == []


def test_a_whole_reading_says_who_went_meanwhile() -> None:
    led = Led()
    assert led.told(GroupDelta(True, {"m2": member("m2")}, metadata=GroupMetadata())) == [
        {"joined": [{"member": "m2"}], "left": ["m1"]}
    ]


def test_old_consumers_and_what_cannot_be_read_are_nobody() -> None:
    led = Led()
    bad = Malformed("registration", "x", "no JSON")
    assert led.told(GroupDelta(members={"x": bad, "old": member("old", legacy=True)})) == []


def test_of_many_some_are_named() -> None:
    led = Led()
    crowd = {f"c{n:03}": member(f"c{n:03}") for n in range(NAMED_MAX + 6)}
    (found,) = led.told(GroupDelta(members=crowd))
    assert (len(found["joined"]), found["more"]) == (NAMED_MAX, 6)
    (found,) = led.told(GroupDelta(members=dict.fromkeys(crowd)))
    assert (len(found["left"]), found["more"]) == (NAMED_MAX, 6)


def test_other_events_and_unknown_groups() -> None:
    led = Led()
    assert list(comings(Tick(1), led.core.groups)) == []
    event = GroupChanged(1, "other", GroupDelta(members={"m": member("m")}))
    assert list(comings(event, led.core.groups)) == []
