"""Gateways that are begun again one after the other, under librdkafka's usual automatic commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway import handovers


@pytest.mark.kafka
@pytest.mark.nightly
def test_no_client_gives_its_session_up(tmp_path: Path) -> None:
    """Commits each 5 s make heartbeats come again, and be parked again, when a gateway goes."""
    assert handovers.run(tmp_path, 8, 5_000) == 0
