"""A guarded process that goes round and round through all it can be killed in: connect, register,
hold, fork, change of session, clean close.

    python -m tests.guardian.nemesis_app HOSTS SESSION_TIMEOUT_MS REPORT SEED

Its nodes are `/members/<pid>-<number>`. Standard output has one word per phase entered; the last
one says in which it died. Order as in production: the session is handed over BEFORE the first node
is created with it, and forgotten after it was closed.
"""

from __future__ import annotations

import os
import random
import sys
import time

from kazoo.client import KazooClient

from zkcoord.guardian.client import Guardian

HOLD_S_MAX = 0.05
CHILD_LIFE_S = 3.0
FORK_SHARE = 0.3
CHANGE_SHARE = 0.5


def phase(name: str) -> None:
    """Say what begins now."""
    os.write(1, name.encode() + b"\n")


class Nemesis:
    """The rounds of one process."""

    def __init__(self, hosts: str, timeout_ms: int, report: str, seed: int) -> None:
        self.hosts = hosts
        self.timeout_ms = timeout_ms
        self.random = random.Random(seed)
        self.count = 0
        phase("guardian")
        self.guardian = Guardian.start(report_path=report)

    def begin(self) -> KazooClient:
        """A session, handed over and registered."""
        self.count += 1
        phase("connect")
        client = KazooClient(self.hosts, timeout=self.timeout_ms / 1000)
        client.start()
        session_id, password = client.client_id
        host, _, port = self.hosts.partition("/")[0].rpartition(":")
        phase("hand-over")
        self.guardian.watch(session_id, password, client._session_timeout, [(host, int(port))])
        phase("register")
        client.create(f"/members/{os.getpid()}-{self.count}", b"", ephemeral=True)
        phase("hold")
        return client

    def fork(self) -> None:
        """A child with all descriptors but standard output."""
        phase("fork")
        if os.fork() == 0:
            os.close(1)
            time.sleep(CHILD_LIFE_S)
            os._exit(0)

    def run(self) -> None:
        """Until somebody kills us."""
        client = self.begin()
        while True:
            time.sleep(self.random.uniform(0, HOLD_S_MAX))
            if self.random.random() < FORK_SHARE:
                self.fork()
            if self.random.random() < CHANGE_SHARE:
                old, client = client, self.begin()
                phase("change")
                old.stop()
            else:
                phase("close")
                client.stop()
                self.guardian.forget()
                client = self.begin()


if __name__ == "__main__":
    Nemesis(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])).run()
