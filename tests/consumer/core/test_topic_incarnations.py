"""Where nobody says which topic is meant, or whose offsets are beside it."""

from __future__ import annotations

from consumer.core.topic_incarnations import (
    ExpectedNote,
    TopicNote,
    expected,
    found_again,
    is_meant,
)

NOTE = TopicNote("70", False, 3, 60)


def test_a_topic_is_the_one_that_is_meant_where_nobody_says_otherwise() -> None:
    """A command of an earlier coordinator names no incarnation."""
    assert is_meant(None, "90") and is_meant("90", None) and is_meant("90", "90")
    assert not is_meant("70", "90") and not is_meant("70", "")


def test_nothing_is_expected_of_a_topic_that_the_command_does_not_name() -> None:
    assert expected(None, NOTE) is None
    assert expected("70", NOTE) == ExpectedNote("70", 3)
    assert expected("90", NOTE) == ExpectedNote("90", 4), "the start writes it"


def test_a_note_that_says_nothing_any_more_is_not_found_again() -> None:
    assert found_again(ExpectedNote("70", 3), TopicNote("", False, 0, 80)) is None
    assert found_again(ExpectedNote("70", 3), TopicNote("70", False, 5, 80)) == ExpectedNote(
        "70", 5
    )
