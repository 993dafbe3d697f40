"""Every transcript under tests/consumer/core/scripts says what the member's core answers, word for
word.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.consumer.core.script import replay

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_transcript(path: Path) -> None:
    """Replays one transcript; ZKCOORD_REWRITE=1 writes the answers anew."""
    text = path.read_text(encoding="utf-8")
    answered = replay(text)
    if os.environ.get("ZKCOORD_REWRITE"):
        path.write_text(answered, encoding="utf-8")
    else:
        assert answered == text, (
            f"{path.name} answers otherwise: if that is right, ZKCOORD_REWRITE=1 pytest"
            " tests/consumer/core, and read the difference"
        )


def test_there_are_transcripts() -> None:
    """An empty folder must not pass for a tested core."""
    assert len(SCRIPTS) >= 20
