"""What an ensemble's troubles cost the application, at the default session timeout: the longest
time without a record of a partition, for each trouble, in a group as it is by default and in one in
failsafe mode; and whether anything moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import BROKEN_OFF
from tests.chaos.checker import Found, check
from tests.chaos.nemesis import Nemesis
from tests.chaos.rig import TOPICS, Rig, Shape
from tests.chaos.run import concluded, finish, recover
from tests.chaos.schedule import ZOOKEEPER, Happening, Kind
from zkcoord.stack.java import Java

SESSION_MS = 18_000
FAILSAFE = "b"
TROUBLES = {
    "leader killed, back after 6 s": (Kind.LEADER_KILLED, 6_000),
    "leader stopped for 6 s": (Kind.LEADER_STOPPED, 6_000),
    "quorum lost for 6 s, half a lease": (Kind.QUORUM_LOST_BRIEFLY, 6_000),
    "quorum lost for 24 s, two leases": (Kind.QUORUM_LOST_LONG, 24_000),
}
UNNOTICED = (Kind.LEADER_KILLED, Kind.LEADER_STOPPED)
"""No session ends, and another leads before a lease does: nobody may be commanded anything, or lose
anything.
"""


@dataclass(frozen=True)
class Cost:
    """`gap_ms`: by group, the longest time without a record of each partition from the trouble on.
    `commands`, `lost`: commands that members saw meanwhile, and partitions that they lost.
    """

    name: str
    kind: Kind
    gap_ms: dict[str, list[float]]
    commands: int
    lost: int


def costs(folder: Path, java: Java, say: Callable[[str], None]) -> tuple[list[Cost], Found]:
    """Each trouble once, one after the other; then the judgement of the whole."""
    found: list[Cost] = []
    wrong: list[tuple[str, str]] = []
    with Rig(folder, java, Shape(session_ms=SESSION_MS, failsafe=(FAILSAFE,))) as rig:
        try:
            rig.start()
            for name, (kind, for_ms) in TROUBLES.items():
                rig.rest()
                with rig.children.lock:
                    rig.seen.gap_ms.clear()
                    commands, lost = sum(rig.seen.commands.values()), rig.seen.lost
                say(f"  {name}")
                Nemesis(rig, lambda _: None).play((Happening(0, ZOOKEEPER, kind, for_ms),))
                recover(rig)
                quiet_ns = time.time_ns()
                rig.wait(lambda: rig.fetched_since(quiet_ns), "records of every partition")
                with rig.children.lock:
                    gaps = {
                        group: [
                            round(ms, 1)
                            for at, ms in rig.seen.gap_ms.items()
                            if at.startswith(f"{topic}-")
                        ]
                        for group, topic in TOPICS.items()
                    }
                    found.append(
                        Cost(
                            name,
                            kind,
                            gaps,
                            sum(rig.seen.commands.values()) - commands,
                            rig.seen.lost - lost,
                        )
                    )
            wrong += [("end", text) for text in finish(rig)]
        except BROKEN_OFF as error:
            wrong.append(("scenario", str(error)))
    return found, concluded(check(folder), wrong)
