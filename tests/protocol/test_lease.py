"""The lease: without a fresh proof that it is a member, a member hands out nothing; only a multi
with the check of its own registration is such a proof.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from consumer.core import messages as msg
from tests.harness.proxy import Op
from tests.harness.wait import wait_until
from tests.protocol.rig import GROUP, SHORT_SESSION_MS, WAIT_S, Member, Rig, tps
from tests.protocol.spy import renews, stores
from zkcoord.zk.clock import boot_ms
from zkcoord.zk.port import Check, GetData, ReadDone, ReadResult

ROOT = Path(__file__).parents[2]
T0, T1 = tps("t", 0, 1)


def fetching(rig: Rig, m: Member) -> Member:
    """Start both partitions at a member that the test commands."""
    rig.command(m.joined().member, 1, start=(T0, T1))
    return m.fetches(T0, T1)


@pytest.mark.parametrize(
    ("session_ms", "lease_max_ms", "lease_ms"),
    [(9_000, 60_000, 6_000), (30_000, 4_000, 4_000)],
    ids=["two thirds of the session", "lease_max"],
)
def test_a_lease_is_the_smaller_of_two_thirds_of_the_session_and_lease_max(
    rig: Rig, session_ms: int, lease_max_ms: int, lease_ms: int
) -> None:
    """Counted from when the newest successful multi with the check was queued, never from its
    answer.
    """
    rig.reign(lease_max_ms=lease_max_ms)
    m = fetching(rig, rig.member("m", "t", session_ms=session_ms))
    for value in (5, 6, 7):
        m.spy.before(
            stores("/offsets/"),
            lambda: wait_until(
                lambda: boot_ms() > m.driver.core.session.proof_ms, WAIT_S, "the next millisecond"
            ),
        )
        assert m.commit({T0: value}).outcome is msg.CommitOutcome.OK
        until, proofs = m.ask(
            lambda: (
                m.driver.lease_until_ms,
                [
                    s.at_ms
                    for s in m.spy.multis(lambda ops: isinstance(ops[0], Check))
                    if s.happened
                ],
            )
        )  # type: ignore[misc]
        assert until <= proofs[-1] + lease_ms
    assert m.driver.core.proofs.lease_ms == lease_ms


def test_without_proof_nothing_is_handed_out(rig: Rig) -> None:
    """Cut off, it stops by its own clock, while it still believes that it owns its partitions and
    nobody has told it anything.
    """
    rig.reign()
    proxy = rig.proxy()
    m = fetching(rig, rig.member("m", "t", session_ms=SHORT_SESSION_MS, proxy=proxy))
    m.wait(m.may_hand_out, "its lease")
    proxy.black_hole()
    m.wait(lambda: not m.may_hand_out(), "the end of its lease")
    assert m.said(msg.Lost) == [] and m.driver.core.session.held.keys() == {T0, T1}
    wait_until(lambda: rig.owners("t") == {}, WAIT_S, "the end of its session at the server")
    assert not m.may_hand_out()
    proxy.heal()
    proxy.cut()
    m.wait(lambda: m.said(msg.Lost), "the news that its session is over")
    assert not m.may_hand_out()


def test_a_lease_that_comes_back_in_time_lets_it_go_on(rig: Rig) -> None:
    """Cut off for longer than the lease and shorter than the session: nothing is lost, and the next
    proof opens the gate again.
    """
    rig.reign(lease_max_ms=600)
    proxy = rig.proxy()
    m = fetching(rig, rig.member("m", "t", proxy=proxy))
    proxy.refuse()
    proxy.cut()
    m.wait(
        lambda: m.notices(msg.NoticeKind.LEASE_LAPSED) and not m.may_hand_out(),
        "the end of its lease",
    )
    proxy.heal()
    m.wait(lambda: m.notices(msg.NoticeKind.LEASE_BACK) and m.may_hand_out(), "its next proof")
    assert m.said(msg.Lost) == [] and len(m.sessions) == 1 and m.fetching() == [T0, T1]


def test_reads_and_pings_never_renew_a_lease(rig: Rig) -> None:
    """They are answered (perhaps by a server that does not know better), the session lives, and the
    lease ends all the same.
    """
    rig.reign(lease_max_ms=1_500)
    m = fetching(rig, rig.member("m", "t"))
    m.spy.hold(renews)
    m.wait(m.spy.keeps, "a proof that does not arrive")
    until = m.driver.lease_until_ms
    answers: list[ReadResult] = []
    reads = [
        GetData(rig.layout.registration(GROUP, m.member)),
        GetData(rig.layout.owner(GROUP, T0)),
    ]

    def read_until_it_lapsed() -> bool:
        m.ask(lambda: m.driver.port.read(reads, answers.append))  # type: ignore[union-attr]
        m.ask(lambda: m.driver.port.sync(answers.append))  # type: ignore[union-attr]
        return not m.may_hand_out()

    wait_until(read_until_it_lapsed, WAIT_S, "the end of its lease")
    wait_until(
        lambda: sum(isinstance(a, ReadDone) for a in list(answers)) >= 2, WAIT_S, "the answers"
    )
    assert m.driver.lease_until_ms == until and not m.may_hand_out()
    assert m.driver.connected and m.said(msg.Lost) == []


def test_a_renewal_that_never_reaches_the_server_is_no_proof(rig: Rig) -> None:
    """Nor is one whose answer was lost, before the doubt is settled and a new one is answered."""
    rig.reign(lease_max_ms=1_500)
    proxy = rig.proxy()
    m = fetching(rig, rig.member("m", "t", proxy=proxy))
    m.spy.before(renews, lambda: (proxy.swallow_replies(1, {Op.MULTI}), proxy.refuse()))
    m.wait(lambda: not m.driver.connected, "the loss of its connection")
    m.wait(lambda: not m.may_hand_out(), "the end of its lease")
    proxy.heal()
    m.wait(m.may_hand_out, "its next proof")


def test_commits_and_acks_renew_it(rig: Rig) -> None:
    """Each is a multi with the check."""
    rig.reign(lease_max_ms=60_000)
    m = fetching(rig, rig.member("m", "t", session_ms=60_000))
    proof = m.driver.core.session.proof_ms
    assert proof is not None
    wait_until(lambda: boot_ms() > proof, WAIT_S, "the next millisecond")
    assert (
        m.commit({T0: 5}).outcome is msg.CommitOutcome.OK and m.driver.core.session.proof_ms > proof
    )
    proof = m.driver.core.session.proof_ms
    wait_until(lambda: boot_ms() > proof, WAIT_S, "the next millisecond")
    rig.command(m.member, 2, stop=(T1,))
    m.fetches(T0)
    assert (
        m.driver.core.session.proof_ms > proof
        and m.driver.lease_until_ms == m.driver.core.session.proof_ms + 40_000
        and m.spy.multis(renews) == []
    )


def test_an_idle_member_proves_itself_with_the_check_alone(rig: Rig) -> None:
    rig.reign(lease_max_ms=300)
    m = fetching(rig, rig.member("m", "t"))
    m.wait(lambda: len([s for s in m.spy.multis(renews) if s.happened]) >= 3, "three proofs")
    assert all(
        s.ops == (Check(rig.layout.registration(GROUP, m.member), 0),) for s in m.spy.multis(renews)
    )


class Lines:
    """What a child prints, read by a thread so that the child never waits for us."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.lines: list[list[str]] = []
        self.child = child
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line.split())

    def end(self) -> None:
        """Kill it, and read to the end before anybody closes the pipe."""
        self.child.kill()
        self._reader.join(WAIT_S)

    def of(self, word: str) -> list[list[str]]:
        """The lines that begin with this word."""
        return [line for line in list(self.lines) if line and line[0] == word]


def test_a_process_that_was_stopped_and_continued_hands_out_nothing_first(rig: Rig) -> None:
    """A real process under SIGSTOP for longer than its session: its partitions are another's; after
    SIGCONT it hands out nothing of its old assignment, though nobody has told it yet.
    """
    rig.topic("t", 2)
    rig.coordinator()
    command = [
        sys.executable,
        "-m",
        "tests.protocol.lease_app",
        rig.hosts,
        GROUP,
        "t",
        str(SHORT_SESSION_MS),
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        out = Lines(child)
        try:
            wait_until(lambda: len(out.of("handed")) >= 20, WAIT_S, "hand-outs of the process")
            os.kill(child.pid, signal.SIGSTOP)
            other = rig.member("other", "t").fetches(T0, T1)
            lost, assigned = len(out.of("lost")), len(out.of("assigned"))
            continued_ms = boot_ms()
            os.kill(child.pid, signal.SIGCONT)
            wait_until(
                lambda: len(out.of("lost")) > lost,
                WAIT_S,
                "the process to hear that its session is over",
            )
            wait_until(lambda: len(out.of("assigned")) > assigned, WAIT_S, "its return")
            assignment_epoch = int(out.of("assigned")[assigned][1])
            late = [
                line
                for line in out.of("handed")
                if int(line[1]) >= continued_ms and int(line[2]) < assignment_epoch
            ]
        finally:
            out.end()
    assert late == [], "it handed out what was another's"
    assert other.said(msg.Lost) == []


def test_a_start_whose_answer_is_read_after_the_session_is_nobodys(rig: Rig) -> None:
    """A real process is stopped between its ack and the answer, for longer than its session (chaos
    seed 3041): what it took is another's by then, so it must not say first that it is its own, nor
    that it lost it.
    """
    rig.topic("t", 2)
    rig.coordinator()
    command = [
        sys.executable,
        "-m",
        "tests.protocol.lease_app",
        rig.hosts,
        GROUP,
        "t",
        str(SHORT_SESSION_MS),
        "late",
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        out = Lines(child)
        try:
            wait_until(
                lambda: out.of("acked") and rig.owners("t").keys() == {0, 1},
                WAIT_S,
                "the ack at the server",
            )
            os.kill(child.pid, signal.SIGSTOP)
            rig.member("other", "t").fetches(T0, T1)
            assert child.stdin is not None
            child.stdin.write("go on\n")
            child.stdin.flush()
            os.kill(child.pid, signal.SIGCONT)
            wait_until(
                lambda: ["notice", "SESSION_LOST"] in out.lines,
                WAIT_S,
                "the process to hear that its session is over",
            )
            wait_until(lambda: out.of("assigned"), WAIT_S, "its return")
        finally:
            out.end()
    assert (
        out.lines.index(["notice", "SESSION_LOST"]) < out.lines.index(out.of("assigned")[0])
        and out.of("lost") == []
    )
