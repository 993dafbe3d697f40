"""Whether another query or source of this Spark application is in the same group: each is a member
of its own and reads a part, which is not what two queries on one DataFrame are meant for.

Known by an abstract Unix socket that the process of each source holds, named after the JVM.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket

log = logging.getLogger(__name__)


class OnlyMember:
    """Holds the name of group and application for as long as a source is a member. Spark's
    thread.
    """

    def __init__(self, group: str, zookeeper: str) -> None:
        text = hashlib.sha256(f"{zookeeper} {group}".encode()).hexdigest()[:32]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0zkcoord-spark-group/{os.getppid()}/{text}")
        except OSError:
            log.warning(
                "another query or source of this application is a member of group %s, too: they"
                " share its records, each reads a part. Two queries that shall read everything need"
                " a groupId each, and one query can write to several places in foreachBatch",
                group,
            )

    def close(self) -> None:
        """The next one may have the name."""
        self._socket.close()
