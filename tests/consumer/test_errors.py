"""Errors as text."""

from __future__ import annotations

import pickle

import kafka.errors
import pytest

from consumer.errors import (
    ConsumerRebalanceFailedException,
    NotOwnedError,
    OffsetResetError,
    UnreadableOffsetError,
    described,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (kafka.errors.CommitFailedError("live members"), "CommitFailedError: live members"),
        (kafka.errors.NotCoordinatorError(), "[Error 16] NotCoordinatorError"),
        (OSError("gone"), "OSError: gone"),
        (OSError(), "OSError"),
        (
            ConsumerRebalanceFailedException("ConsumerRebalanceFailedException: 5 failures"),
            "ConsumerRebalanceFailedException: 5 failures",
        ),
    ],
)
def test_an_error_is_called_by_its_name_once(error: Exception, text: str) -> None:
    assert described(error) == text


@pytest.mark.parametrize(
    "error",
    [
        NotOwnedError([("t", 1), ("t", 0)], "it was given away"),
        OffsetResetError([("t", 0)]),
        UnreadableOffsetError(("t", 0), "/a/b", "it is empty"),
        ConsumerRebalanceFailedException("5 failures"),
    ],
)
def test_another_process_can_be_sent_an_error(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert again.__dict__ == error.__dict__
