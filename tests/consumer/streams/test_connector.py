"""What is given wrongly to the old consumer's surface is one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.errors import ConsumerOptionError
from consumer.streams.connector import BlackList, WhiteList, ZookeeperConsumerConnector
from zkcoord.zk.fork_guard import CurrentProcess


@pytest.mark.parametrize("kind", [WhiteList, BlackList])
@pytest.mark.parametrize("wrong", [None, 3, ["a"], b"a"])
def test_a_filter_is_text(kind: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match="^a filter of topics is a regular expression as text"):
        kind(wrong)


@pytest.mark.parametrize("wrong", [["orders"], "orders", None, 3])
def test_streams_are_given_by_topic(wrong: Any) -> None:
    one = ZookeeperConsumerConnector.__new__(ZookeeperConsumerConnector)
    one._pid = CurrentProcess.pid
    with pytest.raises(TypeError, match=r"^streams are given as \{topic: how many\}, not as"):
        one.create_message_streams(wrong)


@pytest.mark.parametrize("wrong", [["zookeeper.connect"], "zookeeper.connect=h:1", 3])
def test_properties_are_given_by_name(wrong: Any) -> None:
    with pytest.raises(ConsumerOptionError, match="^properties are given as"):
        ZookeeperConsumerConnector(wrong)
