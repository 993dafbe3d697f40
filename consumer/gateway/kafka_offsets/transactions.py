"""AddOffsetsToTxn and TxnOffsetCommit of coordinated groups: refused where ZooKeeper has the
group's offsets, for in Kafka nobody would read them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from consumer.gateway import frames
from consumer.gateway.frames import Head
from consumer.gateway.kafka_offsets.commits import AsksMembers, KafkaCommits
from consumer.gateway.operation.codes import REFUSED
from consumer.gateway.operation.figures import RelayFigures
from consumer.gateway.operation.seldom import Seldom
from consumer.gateway.relay.connection import ClientConnection
from consumer.gateway.tooling.tool_requests import OnThread
from zkcoord.znodes.names import shown

log = logging.getLogger(__name__)

SAID_AGAIN_S = 60.0
GROUPS_MAX = 1_000


class Transactions:
    """See the module. `is_kept`: Kafka has a group's offsets."""

    def __init__(
        self,
        members: AsksMembers,
        run: OnThread,
        is_kept: Callable[[str], bool],
        figures: RelayFigures,
    ) -> None:
        self.commits = KafkaCommits(members, run)
        self._is_kept = is_kept
        self._figures = figures
        self._refusals = Seldom(SAID_AGAIN_S, GROUPS_MAX)

    def serve(
        self, connection: ClientConnection, head: Head, body: Any
    ) -> bytes | bool | Coroutine[Any, Any, None]:
        """The answer, or what gives it later; False: it is the broker's to answer, which is the
        coordinator of the transaction.
        """
        group = frames.text_of(body.group_id)
        if self._is_kept(group):
            return head.key != frames.ADD_OFFSETS_TO_TXN and self.commits.serve(
                connection, head, body
            )
        if self._refusals.is_due(group):
            log.warning(
                "offsets of group %s within a transaction of client %s are refused: the group is"
                " coordinated here, and its offsets are in ZooKeeper; name it in"
                " --offsets-in-kafka, after what docs/gateway.md says of that, to have them in"
                " Kafka",
                shown(group),
                shown(head.client_id),
            )
        self._figures.answered(head.key, REFUSED, 0.0)
        return frames.refused_transaction(head, body)
