"""The lease as other threads read it while the member's thread gains partitions, loses them, loses
its session and comes back: every answer is one that the member published, and whoever has not heard
of a loss has no lease from the moment in which the loss is told.

The interpreter changes threads as often as it can, and whoever asks may stand still between any two
instructions of the product while the member goes on for some steps. So a lease that is made of two
readings is seen.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, cast

import pytest

from consumer.core.group_member import GroupMember
from consumer.core.lease import Lease
from consumer.core.options import MemberOptions
from consumer.member.driver import MemberDriver
from tests.consumer.core.script import World
from zkcoord.znodes.paths import Layout

ROUNDS = 100
ROUNDS_MAX = 20_000
READERS = 3
EPOCHS_AROUND = 2
STANDS_STILL = 0.03
STEPS_MAX = 16
# One life: gain, lose one to somebody else, renew, lose the session. The clock moves before each
# proof, so that no two leases end at the same time.
LIFE = """opened m|tick 7|registered 1|channel|command 5-{a} start t-0,t-1|
read t-0=free:100@1 t-1=free:200@1|tick 7|ok t-0@2 t-1@2|suspended|tick 7|resumed|
read t-0=mine:100@2 t-1=foreign:200@2|tick 3000|tick 2000|ok|over"""


class Published:
    """A member's thread, what it published, and what others must not see."""

    def __init__(self) -> None:
        self.world = World()
        self.world.run("subscribe t")
        self.driver = MemberDriver(
            cast(Any, None),
            Layout.DRAFT,
            MemberOptions(group="g"),
            lambda: 0,
            lambda: 0,
            lambda: "m",
            lambda message: None,
            lambda record: None,
        )
        self.driver.core = self.world.member
        self.leases: set[tuple[int, int]] = {(0, 0)}
        self.told_lost = 0
        self.steps = 0
        self.ended = False
        self.wrong: list[str] = []

    def live(self, rounds: int, enough: Callable[[], bool]) -> None:
        """So many lives, or fewer."""
        lines = LIFE.replace("\n", "").split("|")
        for number in range(rounds):
            for line in lines:
                answers = self.world.run(line.format(a=number + 1))
                self.steps += 1
                lease = self.world.member.lease
                self.leases.add((lease.until_ms, lease.lost_epoch))
                # the driver takes the actions of the step: from here on the loss may be heard
                if any(answer.startswith("tell lost") for answer in answers):
                    self.told_lost = self.world.member.state.lost_epoch
                    if self.driver.lease_until(self.told_lost - 1):
                        self.wrong.append(f"the loss {self.told_lost} was told too early")
            if enough():
                return


class Reader:
    """A thread that asks for the lease all the time, and what it was answered."""

    def __init__(self, member: Published, seed: int) -> None:
        self.member = member
        self.random = random.Random(seed)
        self.answers: set[tuple[int, int]] = set()
        self.leases: set[tuple[int, int]] = set()
        self.wrong: list[str] = []
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        sys.settrace(self.stand_still)
        try:
            while not self.member.ended:
                self.read()
        except Exception as error:  # reported by the test's own thread
            self.wrong.append(repr(error))

    def stand_still(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace: at some instructions of the product, wait until the member has gone on."""
        if not frame.f_globals["__name__"].startswith("consumer."):
            return None
        frame.f_trace_opcodes = True
        if self.random.random() < STANDS_STILL:
            until = self.member.steps + self.random.randint(1, STEPS_MAX)
            while self.member.steps < until and not self.member.ended:
                time.sleep(0)
        return self.stand_still

    def read(self) -> None:
        """One look at everything that another thread may ask for."""
        driver, lost = self.member.driver, self.member.told_lost
        if lost and driver.lease_until(lost - 1):
            self.wrong.append(f"a lease in spite of the loss {lost}")
        lease = driver.core.lease
        self.leases.add((lease.until_ms, lease.lost_epoch))
        if driver.lease_until(lease.lost_epoch - 1):
            self.wrong.append(f"a lease in epoch {lease.lost_epoch - 1} of {lease}")
        for epoch in range(lease.lost_epoch - EPOCHS_AROUND, lease.lost_epoch + EPOCHS_AROUND):
            until_ms = driver.lease_until(epoch)
            if until_ms:
                self.answers.add((epoch, until_ms))

    def torn(self) -> Iterator[str]:
        """What it saw that was never published together."""
        yield from self.wrong
        yield from (f"{seen} was never assigned" for seen in set(self.leases) - self.member.leases)
        lost_at = {until_ms: lost for until_ms, lost in sorted(self.member.leases, reverse=True)}
        for epoch, until_ms in set(self.answers):
            if until_ms not in lost_at:
                yield f"no lease ended at {until_ms}"
            elif epoch < lost_at[until_ms]:
                yield f"until {until_ms} for epoch {epoch}, which lost in {lost_at[until_ms]}"


@pytest.fixture
def often() -> Iterator[None]:
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def findings(rounds: int, until_found: bool = False) -> list[str]:
    """What the readers saw wrong in so many lives, or until they did."""
    member = Published()
    readers = [Reader(member, seed) for seed in range(READERS)]
    for reader in readers:
        reader.thread.start()
    try:
        member.live(rounds, lambda: until_found and any(True for r in readers for _ in r.torn()))
    finally:
        member.ended = True
        for reader in readers:
            reader.thread.join()
    return member.wrong + [wrong for reader in readers for wrong in reader.torn()]


@pytest.mark.usefixtures("often")
def test_every_answer_was_published() -> None:
    assert findings(ROUNDS) == []


@pytest.mark.usefixtures("often")
def test_a_lease_of_two_readings_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attributes of what the member knows now, read one after the other."""

    def two_readings(member: GroupMember) -> Lease:
        return Lease(member.proofs.until_ms, member.state.lost_epoch)

    lease = property(two_readings, lambda member, published: None)
    monkeypatch.setattr(GroupMember, "lease", lease, raising=False)
    assert findings(ROUNDS_MAX, until_found=True) != []
