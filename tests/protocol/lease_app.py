"""A consumer process that hands out as fast as its lease lets it, for tests that stop and continue
it.

It prints `handed <ms of the look at the clock> <epoch>` for each hand-out, `assigned <epoch>`,
`lost <epoch>` when it takes such a message (the epoch is the assignment's), and `notice <kind>`.
The clock is looked at before the lease, as a fetching side does.
With `late` it stands still once, after its first ack was sent and before
it looks at the clock for the answer: it prints `acked` and goes on with the next line of its
standard input.
"""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable

from consumer.core import messages as msg
from consumer.core.in_progress import InFlightKind
from consumer.core.options import MemberOptions
from consumer.member.driver import MemberDriver
from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.kazoo_port.session import KazooEnsemble
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions
from zkcoord.znodes.names import consumer_id
from zkcoord.znodes.paths import Layout

HAND_OUT_EVERY_S = 0.002


class StandStill:
    """A clock. `due()`: whether an ack is under way; the first look then is that of its sending,
    the second has its answer, or waits for it.
    """

    def __init__(self, due: Callable[[], bool]) -> None:
        self.due = due
        self.looks = 0

    def __call__(self) -> int:
        if self.looks < 2 and self.due():
            self.looks += 1
            if self.looks == 2:
                print("acked", flush=True)
                sys.stdin.readline()
        return boot_ms()


def main(hosts: str, group: str, topic: str, session_ms: int, late: bool = False) -> None:
    """Run until killed."""
    loop = Loop("app")
    inbox: queue.SimpleQueue[msg.ToFetcher] = queue.SimpleQueue()
    ensemble = KazooEnsemble(ZkOptions(hosts, session_timeout_ms=session_ms), loop.post)
    names = iter(range(10**8))
    driver: MemberDriver
    clock = (
        StandStill(lambda: driver.core.session.is_in_flight(InFlightKind.ACK)) if late else boot_ms
    )
    driver = MemberDriver(
        ensemble,
        Layout.DRAFT,
        MemberOptions(group=group),
        clock,
        wall_ms,
        lambda: consumer_id(group, "app", wall_ms(), f"{next(names):08x}"),
        inbox.put,
        lambda record: None,
    )
    loop.attach(driver)
    loop.start()
    loop.post(lambda: driver.receive(msg.Subscribe(Subscription({topic: 1}))))
    held: set[TopicPartition] = set()
    assignment_epoch = 0
    while not loop.stopped.is_set():
        while not inbox.empty():
            message = inbox.get()
            if isinstance(message, msg.Assigned):
                held |= set(message.offsets)
                assignment_epoch = message.assignment_epoch
                print("assigned", assignment_epoch, flush=True)
            elif isinstance(message, msg.Lost):
                held -= set(message.partitions)
                assignment_epoch = message.assignment_epoch
                print("lost", assignment_epoch, flush=True)
            elif isinstance(message, msg.Resolve):
                _tell(
                    loop, driver, msg.Resolved(message.token, dict.fromkeys(message.partitions, 0))
                )
            elif isinstance(message, msg.Revoke):
                held -= set(message.partitions)
                _tell(loop, driver, msg.Revoked(message.token, {}))
            elif isinstance(message, msg.Notice):
                print("notice", message.kind.name, flush=True)
        now = boot_ms()
        if held and now < driver.lease_until(assignment_epoch):
            print("handed", now, assignment_epoch, flush=True)
        time.sleep(HAND_OUT_EVERY_S)


def _tell(loop: Loop, driver: MemberDriver, message: msg.FromFetcher) -> None:
    loop.post(lambda: driver.receive(message))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), "late" in sys.argv[5:])
