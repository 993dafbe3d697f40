"""What can be chosen about a demo run. Durations between steps are in records consumed, not in
seconds: a step follows when the group has visibly done its work, however busy the machine is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from zkcoord.stack.stack import KafkaKind

TOPIC = "orders"
GROUP = "demo"
COORDINATOR_NAMES = "coordinator A", "coordinator B"


class Break(enum.Enum):
    """A fault that is injected for real and that the verdict must find; the values are the words of
    the command line.
    """

    LOST = "lost"
    DUPLICATE = "duplicate"
    TWO_OWNERS = "two-owners"
    OFFSET_BACK = "offset-back"


@dataclass(frozen=True)
class Pace:
    """How big and how long. `records_between_steps`: consumed by the whole group before the next
    step. `grown`: partitions after some were added. `every_step`: False leaves out all but a join
    and the fault.
    """

    partitions: int = 24
    grown: int = 30
    rate: int = 2_400
    records_between_steps: int = 26_000
    every_step: bool = True


FULL = Pace()
FAST = Pace(records_between_steps=5_000)
TINY = Pace(partitions=8, grown=10, rate=800, records_between_steps=1_000, every_step=False)


@dataclass(frozen=True)
class DemoOptions:
    """One run. `folder` gets everything that it writes, except the reports, which go to `reports`
    and whose names begin with `name`; with `keep_folder` False it is removed afterwards.
    `step_timeout_s` is the longest that a step may take to be balanced again. `assignor`: the only
    one that every member names; "": each what it has by itself. `kafka`: on which Kafka.
    `console`: with a web page, which stays open at the end.
    """

    folder: Path
    reports: Path
    pace: Pace = FULL
    fault: Break | None = None
    seed: int = 0
    keep_folder: bool = True
    name: str = "demo"
    with_spark: bool = False
    step_timeout_s: float = 60.0
    start_timeout_s: float = 120.0
    consumer_session_timeout_ms: int = 18_000
    coordinator_session_timeout_ms: int = 6_000
    commit_interval_ms: int = 1_000
    max_poll_records: int = 100
    batch_delay_ms: int = 20
    assignor: str = ""
    kafka: KafkaKind = KafkaKind.ZOOKEEPER
    console: bool = False
