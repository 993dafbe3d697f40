"""What Kafka's console consumer prints, as the lines of `consumer.verifiable`. Pure.

Its records are lines of `Partition:3<tab>Offset:17`. Its log goes to the same stream, each line
after a `MARK`, so that what it hands out and what it is told are in the order in which they
happened on its one thread. The log has the times, in the clock of the machine. Records have none:
they are handed out at the line of the log before them, with which the client's `poll` gives them
out, and so never later than what is told after them.

Of the log these lines count (Kafka 3.9's ConsumerCoordinator, ConsumerUtils, SubscriptionState and
ConsumerRebalanceListenerInvoker):

    (Re-)joining group                                             the first: registered
    Adding newly assigned partitions: T-0, T-1                     assigned, told of as soon as one
    Setting offset for partition T-0 to the committed offset           of these says where each
        FetchPosition{offset=17,                                       begins
    Resetting offset for partition T-1 to position
        FetchPosition{offset=0,
    Revoke previously assigned partitions T-0                      revoked
    Lost previously assigned partitions T-0                        lost
    Committed offset 17 for partition T-0                          committed
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

MARK = "##"
LEVELS = {
    "ConsumerCoordinator": "DEBUG",
    "ConsumerUtils": "INFO",
    "ConsumerRebalanceListenerInvoker": "INFO",
    "SubscriptionState": "INFO",
    "FetchCollector": "TRACE",
}
LOGGER = '  <Logger name="org.apache.kafka.clients.consumer.internals.{}" level="{}"/>\n'
LOGGING = """\
<Configuration status="ERROR" shutdownHook="disable">
 <Appenders>
  <Console name="out" target="SYSTEM_OUT">
   <PatternLayout charset="UTF-8" pattern="%s%%d{yyyy-MM-dd'T'HH:mm:ss.nnnnnnnnn}{UTC} \
%%replace{%%m}{[\\r\\n]+}{ }%%ex{none}%%n"/>
  </Console>
 </Appenders>
 <Loggers>
%s  <Root level="WARN"><AppenderRef ref="out"/></Root>
 </Loggers>
</Configuration>
"""
TIME_CHARS, SECONDS_CHARS = len("2026-11-28T03:19:05.786498667"), len("2026-11-28T03:19:05")

_RECORD = re.compile(r"Partition:(\d+)\tOffset:(\d+)")
_BEGINS = re.compile(r"etting offset for partition (\S+) to .*?FetchPosition\{offset=(\d+),")
_COMMITTED = re.compile(r"Committed offset (\d+) for partition (\S+)")
_CHANGE = re.compile(r"(Adding newly|Revoke previously|Lost previously) assigned partitions:? (.+)")

Event = dict[str, Any]


def logging_xml() -> str:
    """The configuration of log4j 2 that prints what is read here."""
    return LOGGING % (MARK, "".join(LOGGER.format(*level) for level in LEVELS.items()))


def time_ns(text: str) -> int:
    """Nanoseconds of a UTC time that is written with nine digits after the second. Raises
    `ValueError`.
    """
    whole = datetime.fromisoformat(text[:SECONDS_CHARS]).replace(tzinfo=timezone.utc)
    return int(whole.timestamp()) * 1_000_000_000 + int(text[SECONDS_CHARS + 1 : TIME_CHARS])


class ConsoleOutput:
    """A fold over what one console consumer of `topic` prints. `others`: lines that are neither
    records nor its log.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.others: list[str] = []
        self._rest = b""
        self._begun = ""
        self._now_ns = 0
        self._joined = False
        self._coming: dict[str, int] = {}
        self._ranges: dict[str, list[list[int]]] = {}

    def feed(self, data: bytes) -> Iterator[Event]:
        """What these bytes tell, in order; a line without its end waits for more."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for raw in whole:
            yield from self._line(raw.decode("utf-8", "replace"))
        yield from self._records()

    def _line(self, line: str) -> Iterator[Event]:
        before, mark, log = line.partition(MARK)
        # another thread's line may stand within a record's
        self._begun += before
        if mark:
            yield from self._records()
            yield from self._logged(log)
            return
        text, self._begun = self._begun, ""
        found = _RECORD.fullmatch(text)
        if found is None:
            self.others.append(text)
            return
        ranges = self._ranges.setdefault(f"{self.topic}-{found[1]}", [])
        offset = int(found[2])
        if ranges and offset == ranges[-1][1] + 1:
            ranges[-1][1], ranges[-1][2] = offset, ranges[-1][2] + 1
        else:
            ranges.append([offset, offset, 1, 0])

    def _records(self) -> Iterator[Event]:
        if self._ranges:
            count = sum(found[2] for ranges in self._ranges.values() for found in ranges)
            yield self._event("records", ranges=self._ranges, count=count)
            self._ranges = {}

    def _logged(self, log: str) -> Iterator[Event]:
        self._now_ns = time_ns(log)
        if begins := _BEGINS.search(log):
            since_ns = self._coming.pop(begins[1], None)
            if since_ns is not None:
                yield {"event": "assigned", "t": since_ns, "offsets": {begins[1]: int(begins[2])}}
        elif committed := _COMMITTED.search(log):
            yield self._event("committed", offsets={committed[2]: int(committed[1])})
        elif change := _CHANGE.search(log):
            yield from self._changed(change[1], change[2].split(", "))
        elif "(Re-)joining group" in log and not self._joined:
            self._joined = True
            yield self._event("registered", name="console consumer")

    def _changed(self, what: str, partitions: list[str]) -> Iterator[Event]:
        if what.startswith("Adding"):
            self._coming.update(dict.fromkeys(partitions, self._now_ns))
            return
        for partition in partitions:
            self._coming.pop(partition, None)
        if what.startswith("Revoke"):
            yield self._event("revoked", positions=dict.fromkeys(partitions, -1))
        else:
            yield self._event("lost", partitions=partitions, reason="it says so")

    def _event(self, event: str, **fields: Any) -> Event:
        return {"event": event, "t": self._now_ns, **fields}
