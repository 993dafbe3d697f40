"""What is committed at the interpreter's exit by a consumer that nobody closed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from consumer.api.lifetime import open_consumers

class Consumer:
    def close(self, autocommit=True, timeout_ms=None):
        print("commits" if autocommit else "commits nothing")

consumer = Consumer()
open_consumers.add(consumer)
"""


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("", "commits"),
        ("raise SystemExit(0)", "commits"),
        ("raise ValueError('a record that is not got over')", "commits nothing"),
        ("raise KeyboardInterrupt", "commits nothing"),
    ],
)
def test_the_record_in_hand_is_not_done_where_an_error_ends_the_program(
    ends: str, says: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM + ends],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.strip() == says
