"""Requests as the broker counts them: its request log, switched on and off while it runs (brokers
since 2.4; the logger is `kafka.request.logger`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType

from tests.harness.kafka import admin

LOGGER = "kafka.request.logger"
MARK = "Completed request:"


class BrokerRequests:
    """What the log of a broker says since a place in it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.forget()

    def forget(self) -> None:
        """Count from here."""
        self._from = self._log.stat().st_size

    def counted(self) -> Counter[str]:
        """{name of the request: how many were answered since then}, without what switches the
        log.
        """
        with self._log.open("rb") as log:
            log.seek(self._from)
            lines = log.read().decode(errors="replace").split("\n")[:-1]
        names = (
            json.loads(line.split(MARK, 1)[1])["requestHeader"]["requestApiKeyName"]
            for line in lines
            if MARK in line
        )
        return Counter(name for name in names if name != "INCREMENTAL_ALTER_CONFIGS")


@contextmanager
def requests_logged(bootstrap: str, log: Path, broker_id: int = 0) -> Iterator[BrokerRequests]:
    """The broker at this address writes each request into its log inside the block."""
    _switch(bootstrap, broker_id, "DEBUG")
    try:
        yield BrokerRequests(log)
    finally:
        _switch(bootstrap, broker_id, "INFO")


def _switch(bootstrap: str, broker_id: int, level: str) -> None:
    with admin(bootstrap) as client:
        client.alter_configs(
            [ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker_id), {LOGGER: level})]
        )
