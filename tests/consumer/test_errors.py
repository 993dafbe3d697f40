"""Errors as text."""

from __future__ import annotations

import kafka.errors
import pytest

from consumer.errors import ConsumerRebalanceFailedException, described


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
