"""Whose offsets a transaction may store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from consumer.gateway import frames
from consumer.gateway.frames import ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT
from consumer.gateway.kafka_offsets import transactions
from consumer.gateway.kafka_offsets.transactions import Transactions
from consumer.gateway.operation.figures import RelayFigures
from tests.consumer.gateway.kafka_offsets.connections import KeptConnection, run_here
from tests.consumer.gateway.kafka_offsets.test_commits import OLD, Members, Scene, recorded
from zkcoord.core.error_codes import WireCode

DENIED = WireCode.GROUP_AUTHORIZATION_FAILED
LINES_MAX = 3


def serve(keeps: bool, key: int, served: Transactions | None = None) -> Any:
    """What is said of a request about group "g"."""
    frame = recorded(key, frames.MAX_VERSIONS[key])[4:]
    head = frames.decode_head(frame)
    one = served or Transactions(Members([]), run_here, lambda group: keeps, RelayFigures())
    connection = cast("Any", KeptConnection())
    connection.hold_up(head)
    return one.serve(connection, head, frames.decode(head, frame))


def test_the_coordinator_of_the_transaction_is_asked_to_add_offsets() -> None:
    assert serve(True, ADD_OFFSETS_TO_TXN) is False


def test_its_commit_is_checked_first() -> None:
    scene = Scene(recorded(TXN_OFFSET_COMMIT, frames.MAX_VERSIONS[TXN_OFFSET_COMMIT]), OLD)
    one = Transactions(scene.members, run_here, lambda group: True, RelayFigures())

    async def served() -> None:
        work = one.serve(cast("Any", scene.client), scene.head, scene.body)
        assert isinstance(work, Coroutine)
        await work

    asyncio.run(served())
    assert scene.codes() == {OLD}


@pytest.mark.parametrize("key", frames.TRANSACTIONS)
def test_what_zookeeper_has_is_no_transactions_to_store(key: int) -> None:
    frame = recorded(key, frames.MAX_VERSIONS[key])[4:]
    answer, _ = frames.decode_answer(frames.decode_head(frame), serve(False, key))
    codes = (
        {answer.error_code}
        if key == ADD_OFFSETS_TO_TXN
        else {part.error_code for topic in answer.topics for part in topic.partitions}
    )
    assert codes == {DENIED}


def test_the_log_says_now_and_then_which_setting_to_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = Transactions(Members([]), run_here, lambda group: False, RelayFigures())
    with caplog.at_level(logging.WARNING, transactions.__name__):
        for _ in range(LINES_MAX):
            serve(False, TXN_OFFSET_COMMIT, one)
    assert caplog.text.count("--offsets-in-kafka") == 1
