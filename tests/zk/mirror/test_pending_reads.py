"""What is marked to be read: groups in turn, each once, and how large a group is by its events."""

from __future__ import annotations

from zkcoord.zk.mirror.pending_reads import (
    PASSED_OVER_MAX,
    PendingReads,
    SizeLimits,
    Sizes,
    Want,
)


def test_groups_are_served_in_turn() -> None:
    """A large group gives what fits and goes to the end; the small ones behind it come next,
    together and whole.
    """
    wants = PendingReads()
    for number in range(25):
        wants.add(Want("registration", "large", f"m{number}"))
    for group in ("a", "b"):
        for number in range(4):
            wants.add(Want("registration", group, f"m{number}"))
    taken = [wants.take(10) for _ in range(4)]
    assert [(len(batch), {w.group for w in batch}) for batch in taken] == [
        (10, {"large"}),
        (8, {"a", "b"}),
        (10, {"large"}),
        (5, {"large"}),
    ]
    assert [w.member for batch in (taken[0], taken[2], taken[3]) for w in batch] == [
        f"m{n}" for n in range(25)
    ] and not wants


def test_who_is_held_back_waits_and_who_is_to_be_alone_comes_last() -> None:
    """But after it was passed over often enough it has its turn."""
    wants = PendingReads()
    for group in ("held", "heavy", "heavier"):
        wants.add(Want("registration", group, "m"))
    assert not wants.ready(lambda group: True) and wants.ready(lambda group: group == "held")

    def taken() -> list[str]:
        wants.add(Want("registration", "light", "m"))
        found = wants.take(10, lambda g: g == "held", lambda g: g.startswith("heav"))
        return [want.group for want in found]

    assert [taken() for _ in range(PASSED_OVER_MAX + 1)] == [
        *[["light"]] * PASSED_OVER_MAX,
        ["heavy"],
    ]
    wants.drop("light")
    found = wants.take(10, lambda g: g == "held", lambda g: g.startswith("heav"))
    assert [want.group for want in found] == ["heavier"]
    assert list(wants.groups) == ["held"]


def test_a_want_is_taken_once_and_a_dropped_group_not_at_all() -> None:
    wants = PendingReads()
    for _ in range(3):
        wants.add(Want("topic", node="t"))
        wants.add(Want("registration", "g", "m"))
    wants.drop("g")
    assert wants.take(10) == [Want("topic", node="t")] and not wants and wants.take(10) == []


def test_a_group_has_grown_too_large_by_either_count() -> None:
    """What was read counts, and every node made since; a node that goes never makes it too
    large.
    """
    sizes = Sizes(SizeLimits(registrations_max=3, nodes_max=10))
    sizes.read("g", 2, 4)
    assert not sizes.grew("g", 1, registration=True) and sizes.grew("g", 1, registration=True)
    assert not sizes.grew("g", -1, registration=True) and not sizes.grew("g", 1, registration=False)
    assert [sizes.grew("g", 1, registration=False) for _ in range(5)] == [False] * 4 + [True]
    sizes.drop("g")
    assert not sizes.grew("g", 1, registration=True)


def test_what_was_counted_while_a_group_was_read_is_added_to_what_was_read() -> None:
    """Never taken off: what was deleted may have been deleted before it was read."""
    sizes = Sizes(SizeLimits(registrations_max=3, nodes_max=10))
    assert not sizes.grew("g", 1, registration=True) and not sizes.read("g", 2, 2)
    assert sizes.grew("g", 1, registration=True)
    sizes.drop("g")
    assert not sizes.grew("g", 1, registration=True) and sizes.read("g", 3, 3)
    sizes.drop("g")
    assert not sizes.grew("g", -1, registration=True) and not sizes.read("g", 3, 10)
    assert sizes.grew("g", 1, registration=False)
