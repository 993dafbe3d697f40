"""The example of the documentation: that it is what the documentation shows, and what it does, in a
process of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.assignors.conftest import Asker
from zkcoord.core.assignment import Assignment, AssignmentInput
from zkcoord.core.model import TopicPartition

DOCS = Path(__file__).parents[2] / "docs" / "assignors.md"
EXAMPLE = Path(__file__).parent / "example" / "rack_aware.py"
REPLICAS = {"orders": {"east": [0, 1, 2, 5], "west": [3, 4, 5]}}


def rack(name: str, **more: object) -> str:
    """A member's user data."""
    return json.dumps({"rack": name, **more})


@pytest.fixture
def balance(asker: Callable[..., Asker]) -> Callable[[AssignmentInput], Assignment]:
    """The example, asked through a pool."""
    asking = asker()

    def ask(given: AssignmentInput) -> Assignment:
        answer, failure = asking.ask("rack-aware", given)
        assert answer is not None, failure
        return answer

    return ask


def test_the_documentation_shows_this_very_file() -> None:
    assert EXAMPLE.read_text(encoding="utf-8").partition('"""\n\n')[2] in DOCS.read_text(
        encoding="utf-8"
    )


def test_each_partition_goes_to_its_rack_and_each_member_hears_so(
    balance: Callable[[AssignmentInput], Assignment],
) -> None:
    wanted = {"orders": 1}
    found = balance(
        AssignmentInput(
            {"a": wanted, "b": wanted},
            {"orders": tuple(range(6))},
            user_data={"a": rack("west", replicas=REPLICAS), "b": rack("east")},
        )
    )
    assert {tp.partition: thread.member for tp, thread in found.targets.items()} == {
        0: "b",
        1: "b",
        2: "b",
        3: "a",
        4: "a",
        5: "a",
    }
    assert json.loads(found.user_data["a"]) == {"rack": "west", "local": 3, "remote": 0}
    assert json.loads(found.user_data["b"]) == {"rack": "east", "local": 3, "remote": 0}


def test_balance_comes_before_racks_and_owners_after_them(
    balance: Callable[[AssignmentInput], Assignment],
) -> None:
    wanted = {"orders": 1}
    said = {"a": rack("east", replicas={"orders": {"east": [0, 1, 2, 3]}}), "b": rack("west")}
    first = balance(
        AssignmentInput({"a": wanted, "b": wanted}, {"orders": (0, 1, 2, 3)}, user_data=said)
    )
    assert Counter(thread.member for thread in first.targets.values()) == {"a": 2, "b": 2}
    assert json.loads(first.user_data["b"])["remote"] == 2
    none = balance(
        AssignmentInput(
            {"a": wanted, "b": wanted},
            {"orders": (0, 1, 2, 3)},
            {tp: first.targets[TopicPartition("orders", 3 - tp.partition)] for tp in first.targets},
        )
    )
    assert none.targets == {
        tp: first.targets[TopicPartition("orders", 3 - tp.partition)] for tp in first.targets
    }, "without racks, owners keep what is theirs"


def test_what_fits_under_nobodys_cap_is_reported(
    balance: Callable[[AssignmentInput], Assignment],
) -> None:
    found = balance(
        AssignmentInput(
            {"a": {"orders": 1}}, {"orders": (0, 1), "none": (0,)}, owner_path_bytes_max=100
        )
    )
    assert (len(found.targets), len(found.unassigned)) == (1, 1)
