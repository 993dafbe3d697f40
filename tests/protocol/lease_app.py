"""A consumer process that hands out as fast as its lease lets it, for tests that stop and continue it.

It prints `handed <ms of the look at the clock> <era>` for each hand-out, and `assigned <era>`, `lost <era>` when it takes such a message. The clock is looked at before the lease, as a fetching side does.
"""

from __future__ import annotations

import queue
import sys
import time

from consumer.core import messages as msg
from consumer.core.options import AgentOptions
from consumer.driver import AgentDriver
from zkcoord.core.model import Subscription, TopicPartition
from zkcoord.zk.clock import boot_ms, wall_ms
from zkcoord.zk.loop import Loop
from zkcoord.zk.options import ZkOptions
from zkcoord.zk.session import KazooEnsemble
from zkcoord.znodes.names import consumer_id
from zkcoord.znodes.paths import Layout

HAND_OUT_EVERY_S = 0.002


def main(hosts: str, group: str, topic: str, session_ms: int) -> None:
    """Run until killed."""
    loop = Loop("app")
    inbox: queue.SimpleQueue[msg.ToFetcher] = queue.SimpleQueue()
    ensemble = KazooEnsemble(ZkOptions(hosts, session_timeout_ms=session_ms), loop.post)
    names = iter(range(10**8))
    driver = AgentDriver(ensemble, Layout.DRAFT, AgentOptions(group=group), boot_ms, wall_ms, lambda: consumer_id(group, "app", wall_ms(), f"{next(names):08x}"), inbox.put, lambda record: None)
    loop.attach(driver)
    loop.start()
    loop.post(lambda: driver.tell(msg.Subscribe(Subscription({topic: 1}))))
    held: set[TopicPartition] = set()
    era = 0
    while not loop.stopped.is_set():
        while not inbox.empty():
            message = inbox.get()
            if isinstance(message, msg.Assigned):
                held |= set(message.offsets)
                era = message.era
                print("assigned", era, flush=True)
            elif isinstance(message, msg.Lost):
                held -= set(message.partitions)
                era = message.era
                print("lost", era, flush=True)
            elif isinstance(message, msg.Resolve):
                _tell(loop, driver, msg.Resolved(message.token, dict.fromkeys(message.partitions, 0)))
            elif isinstance(message, msg.Revoke):
                held -= set(message.partitions)
                _tell(loop, driver, msg.Revoked(message.token, {}))
        now = boot_ms()
        if held and now < driver.lease_until(era):
            print("handed", now, era, flush=True)
        time.sleep(HAND_OUT_EVERY_S)


def _tell(loop: Loop, driver: AgentDriver, message: msg.FromFetcher) -> None:
    loop.post(lambda: driver.tell(message))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
