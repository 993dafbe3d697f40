"""A rolling upgrade: every coordinator and every consumer is replaced by one of the next release,
one at a time, while records flow. In either order, so that coordinators of the next release serve
consumers of this one, and the reverse.

Each is asked to leave, its successor starts in its place, and the next one's turn comes when the
successor does its work and records of every partition are handed out. What everybody wrote down is
judged as a run of faults is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.figures import BROKEN_OFF
from tests.chaos.checker import Found, check
from tests.chaos.rig import TOPICS, EarlierRelease, Rig, Shape
from tests.chaos.run import finish
from tests.chaos.schedule import COORDINATORS
from tests.harness.kafka import CHROOT
from tests.harness.zookeeper import connect, disconnect
from zkcoord.stack.java import Java
from zkcoord.znodes import codec
from zkcoord.znodes.codec import EpochData
from zkcoord.znodes.paths import Layout

COORDINATORS_FIRST, CONSUMERS_FIRST = "coordinators-first", "consumers-first"
ORDERS = (COORDINATORS_FIRST, CONSUMERS_FIRST)


@dataclass
class Upgraded:
    """What an upgrade showed. `versions`: after each replacement, the version that the coordinator
    which leads has announced and those of all registrations; `moved_ms`: how long each took, to
    records of every partition.
    """

    order: str
    found: Found = field(default_factory=Found)
    versions: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    moved_ms: list[float] = field(default_factory=list)


def announced(rig: Rig) -> tuple[int, tuple[int, ...]]:
    """(the version in the epoch node, those in the registrations, sorted)."""
    client = connect(rig.ensemble.hosts + CHROOT)
    try:
        client.sync("/")
        epoch = codec.decode_epoch(client.get(Layout.DRAFT.epoch)[0])
        assert isinstance(epoch, EpochData), epoch
        found = [
            client.get(Layout.DRAFT.registration(group, name))[0]
            for group in TOPICS
            for name in client.get_children(Layout.DRAFT.ids(group))
        ]
    finally:
        disconnect(client)
    return epoch.protocol, tuple(sorted(int(json.loads(data)["zkcoord"]) for data in found))


def replace(rig: Rig, slot: str, upgraded: Upgraded) -> list[str]:
    """One process leaves, its successor of the next release takes its place; a sentence where the
    first did not end cleanly.
    """
    began_ns = time.time_ns()
    rig.leave(slot)
    wrong = rig.await_left()
    rig.newer.add(slot)
    name = rig.start_process(slot).name
    if slot in COORDINATORS:
        rig.wait(
            lambda: (
                rig.runs(slot)
                and rig.seen.leader in [rig.running[other].name for other in COORDINATORS]
            ),
            "a coordinator that leads",
        )
    else:
        rig.wait(lambda: rig.seen.delivered_ns.get(name, 0) > 0, f"records for {name}")
    at_ns = time.time_ns()
    rig.wait(lambda: rig.fetched_since(at_ns), "records of every partition")
    upgraded.moved_ms.append((time.time_ns() - began_ns) / 1e6)
    upgraded.versions.append(announced(rig))
    return wrong


def play_upgrade(
    order: str,
    folder: Path,
    java: Java,
    say: Callable[[str], None],
    shape: Shape = Shape(),
    before: EarlierRelease | None = None,
) -> Upgraded:
    """The whole upgrade in `folder`, which keeps everything. From the present release to the next,
    or from `before` to the present one.
    """
    upgraded = Upgraded(order)
    wrong: list[tuple[str, str]] = []
    with Rig(folder, java, shape, before=before) as rig:
        slots = (
            [*COORDINATORS, *rig.consumers]
            if order == COORDINATORS_FIRST
            else [*rig.consumers, *COORDINATORS]
        )
        try:
            rig.start()
            for slot in slots:
                wrong += [("end", text) for text in replace(rig, slot, upgraded)]
                say(
                    f"  {order}: {slot} replaced in {upgraded.moved_ms[-1]:.0f} ms; coordinator:"
                    f" version {upgraded.versions[-1][0]}, consumers:"
                    f" {', '.join(map(str, upgraded.versions[-1][1]))}"
                )
            wrong += [("end", text) for text in finish(rig)]
        except BROKEN_OFF as error:
            wrong.append(("scenario", str(error)))
    upgraded.found = check(folder)
    for kind, text in wrong:
        upgraded.found.add(kind, 1, text)
    return upgraded
