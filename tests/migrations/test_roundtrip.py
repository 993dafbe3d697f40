"""The journey of a group, with few records: `make migration-roundtrip` is the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.figures import Section, missed_of
from tests.migrations.roundtrip import play
from zkcoord.stack.java import Java

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]


def test_there_and_back_under_load(tmp_path: Path, java: Java) -> None:
    sections: list[Section] = []
    play(tmp_path, java, 30_000, 2_000, True, sections)
    assert len(sections[0].rows) == 6 and missed_of(sections) == []
