"""The pool with real child processes: what a bad assignor does to itself, and that it does nothing
to anybody else.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.assignors.conftest import PATIENCE_S, PATIENT, Asker
from tests.harness.wait import wait_until
from zkcoord.assignors import pool
from zkcoord.assignors.child import NICE
from zkcoord.assignors.frames import ANSWER_BYTES_MAX
from zkcoord.assignors.pool import AssignorOptions
from zkcoord.core.assignment import Assignment, AssignmentInput, assign_range
from zkcoord.core.model import Thread, TopicPartition

Make = Callable[..., Asker]
GIVEN = AssignmentInput(
    {"a": {"t": 2}, "b": {"t": 1, "u": 1}},
    {"t": (0, 1, 2, 3), "u": (0, 1)},
    {TopicPartition("t", 1): Thread("b", 0)},
    user_data={"a": "x"},
)
HURRIED = replace(PATIENT, deadline_ms=1_000)


def said(text: str) -> AssignmentInput:
    """The input with this user data."""
    return replace(GIVEN, user_data={"a": text})


def test_a_good_answer_comes_back_whole_and_its_process_is_kept(asker: Make) -> None:
    asking = asker()
    first, none = asking.ask("good", GIVEN)
    assert first is not None and none == ""
    assert first.targets == assign_range(GIVEN).targets
    second, _ = asking.ask("good", GIVEN, group="other")
    assert second is not None
    pid = first.user_data["a"].split()[0]
    assert (first.user_data["a"], second.user_data["a"]) == (
        f"{pid} 1",
        f"{pid} 2",
    ), "the same process, warm"
    assert asking.pool.processes() == (int(pid),), "and only as many as are needed"
    assert psutil.Process(int(pid)).nice() == min(19, psutil.Process().nice() + NICE), (
        "behind the coordinator, where a processor is short"
    )


def test_a_process_is_replaced_after_many_calls(
    asker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an assignor leaks does not add up for ever."""
    monkeypatch.setattr(pool, "CALLS_PER_CHILD_MAX", 2)
    asking = asker()
    answers = [asking.ask("good", GIVEN)[0] for _ in range(3)]
    assert [answer.user_data["a"].split()[1] for answer in answers if answer is not None] == [
        "1",
        "2",
        "1",
    ]


def test_an_object_with_assign_is_an_assignor(asker: Make) -> None:
    assert asker().ask("polite", GIVEN) == (assign_range(GIVEN), "")


@pytest.mark.parametrize(
    ("assignor", "words"),
    [
        ("raises", "it raised ValueError: no such thing [31m"),
        ("exits_politely", "it raised SystemExit: enough"),
        ("exits", "it ended its process with status 3: last words"),
        ("crashes", "it was ended by SIGSEGV"),
        ("floods", "it printed more than 1048576 bytes"),
        ("scribbles", "it broke the way to the coordinator"),
        ("swells", f"more than the {ANSWER_BYTES_MAX} allowed"),
        ("lists", "it returned a value of the type list instead of an Assignment"),
        (
            "names_numbers",
            "the number of a partition in targets is a value of the type str instead of a number",
        ),
        ("missing", "it raised ModuleNotFoundError: No module named 'no_such_module'"),
        ("broken", "it raised AttributeError"),
        (
            "odd",
            (
                "it raised TypeError: nasty_assignors:CALLS is neither callable nor has a method"
                " assign"
            ),
        ),
        ("unknown", "it raised LookupError: 0 installed packages offer the assignor unknown"),
    ],
)
def test_a_bad_one_is_a_sentence_and_the_next_call_is_served(
    asker: Make, assignor: str, words: str
) -> None:
    asking = asker()
    answer, failure = asking.ask(assignor, GIVEN)
    assert answer is None and words in failure and "\n" not in failure
    after, failure = asking.ask("good", GIVEN)
    assert after is not None and after.targets == assign_range(GIVEN).targets, failure


def test_an_endless_loop_is_killed_at_its_deadline(asker: Make) -> None:
    asking = asker(HURRIED)
    assert asking.ask("loops", GIVEN) == (None, "it did not answer within 1000 ms and was killed")
    assert asking.pool.processes() == ()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="there is no such thing here")
def test_who_computes_on_goes_on_in_the_background(asker: Make) -> None:
    """A call that is quick, or waits, is not sent there, and the process after the one that was
    killed begins as any other.
    """
    asking = asker()
    assert asking.ask("sleeps_once", said("1"))[1] == ""
    (pid,) = asking.pool.processes()
    assert os.sched_getscheduler(pid) == os.SCHED_OTHER
    asking.submit("g", "loops", GIVEN)
    wait_until(lambda: os.sched_getscheduler(pid) == os.SCHED_IDLE, PATIENCE_S, "the background")
    assert asking.ask("good", GIVEN, group="other")[1] == ""
    assert {os.sched_getscheduler(other) for other in asking.pool.processes() if other != pid} == {
        os.SCHED_OTHER
    }


def test_a_memory_bomb_meets_its_limit(asker: Make) -> None:
    asking = asker(replace(PATIENT, memory_mb=200))
    answer, failure = asking.ask("hoards", GIVEN)
    found = re.search(r"it raised MemoryError: after (\d+) MiB", failure)
    assert answer is None and found is not None and int(found[1]) < 200, failure


def test_what_is_printed_is_logged_and_no_answer(
    asker: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "zkcoord.assignors.pool")
    answer, failure = asker().ask("prints", GIVEN)
    assert answer is not None, failure
    (text,) = [
        record.fields["text"] for record in caplog.records if record.msg == "an assignor printed"
    ]  # type: ignore[attr-defined]
    assert text == "hello from the assignor\nand from its descriptor 1"


def test_what_only_the_core_can_judge_passes(asker: Make) -> None:
    assert asker().ask("invents", GIVEN)[0] == Assignment(
        {TopicPartition("nowhere", 7): Thread("nobody", 3)}
    )


def test_passwords_of_the_environment_are_not_handed_on(
    asker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCOORD_ZOOKEEPER_PASSWORD", "secret")
    answer, _ = asker().ask("remembers_secrets", GIVEN)
    assert answer is not None and set(answer.user_data.values()) == {"nothing"}


def test_a_process_that_died_between_two_calls_is_nobodys_failure(asker: Make) -> None:
    asking = asker()
    assert asking.ask("good", GIVEN)[1] == ""
    (pid,) = asking.pool.processes()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, PATIENCE_S, "its end")
    assert asking.ask("good", GIVEN)[1] == ""
    assert pid not in asking.pool.processes()


def gone(pid: int) -> bool:
    """Whether a process ended (it may wait for somebody to collect it)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_close_kills_what_runs_with_all_that_it_started_and_answers_nothing(
    asker: Make, tmp_path: Path
) -> None:
    asking = asker()
    told = tmp_path / "told"
    asking.submit("g", "breeds", said(str(told)))
    wait_until(lambda: told.exists() and told.read_text(), PATIENCE_S, "the call to run")
    asking.submit("h", "loops", GIVEN)
    asking.submit("i", "loops", GIVEN)
    asking.pool.close()
    assert asking.pool.processes() == () and asking.thunks.empty()
    asking.submit("j", "good", GIVEN)
    assert asking.pool.processes() == ()
    for pid in map(int, told.read_text().split()):
        wait_until(lambda: gone(pid), PATIENCE_S, "its end")


PARENT = """
import sys, threading
from zkcoord.assignors.pool import AssignorOptions, AssignorPool
from zkcoord.core.assignment import AssignmentInput
pool = AssignorPool(AssignorOptions(deadline_ms=600_000), lambda thunk: None)
given = AssignmentInput({"a": {"t": 1}}, {"t": (0,)}, user_data={"a": sys.argv[1]})
pool.submit("g", "breeds", given, print)
threading.Event().wait()
"""


def test_an_endless_loop_does_not_outlive_a_coordinator_that_is_killed(
    packages: None, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(told)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        try:
            wait_until(lambda: told.exists() and told.read_text(), PATIENCE_S, "the call to run")
        finally:
            parent.kill()
    looping, left = map(int, told.read_text().split())
    try:
        wait_until(lambda: gone(looping), PATIENCE_S, "its end")
    finally:
        # what it started knows nothing of the coordinator
        for pid in (left, *(() if gone(looping) else (looping,))):
            psutil.Process(pid).kill()


# who is served when


def test_one_looping_group_delays_nobody(asker: Make) -> None:
    """Its call comes first and is not at its deadline when all twenty others, with the same
    assignor, have their answers; so it is when it is known to loop.
    """
    asking = asker(AssignorOptions(processes_max=2, deadline_ms=600_000, slice_ms=60_000))
    for _ in range(2):
        asking.submit("looping", "loops_where_told", said("loop"))
        for n in range(20):
            asking.submit(f"healthy-{n}", "loops_where_told", GIVEN)
        heard = asking.hear(20)
        assert {group for group, answer, _ in heard if answer is not None} == {
            f"healthy-{n}" for n in range(20)
        }


def test_more_looping_groups_than_processes_delay_the_others_by_their_slices_only(
    asker: Make,
) -> None:
    """Six that are not known to loop come first: each gives way after its slice. The second time
    all that is left for them is one of the two processes.
    """
    # a healthy one must not pass for slow because the machine paused
    asking = asker(AssignorOptions(processes_max=2, deadline_ms=600_000, slice_ms=1_000))
    for n in range(6):
        asking.submit(f"looping-{n}", "loops_where_told", said("loop"))
    for _ in range(2):
        for n in range(10):
            asking.submit(f"healthy-{n}", "loops_where_told", GIVEN)
        heard = asking.hear(10)
        assert {group for group, answer, _ in heard if answer is not None} == {
            f"healthy-{n}" for n in range(10)
        }
    assert len(asking.pool.processes()) == 2


def test_a_slow_one_that_gave_way_is_repeated_and_answered(asker: Make, tmp_path: Path) -> None:
    """Two hold both processes until a file appears, which is when those that waited have been
    served.
    """
    asking = asker(AssignorOptions(processes_max=2, deadline_ms=600_000, slice_ms=200))
    file = tmp_path / "go on"
    for n in range(2):
        asking.submit(f"slow-{n}", "sleeps_once", said(f"600 {file}"))
    asking.submit("quick", "good", GIVEN)
    assert [group for group, _, _ in asking.hear(1)] == ["quick"]
    file.touch()
    assert {(group, failure) for group, _, failure in asking.hear(2)} == {
        ("slow-0", ""),
        ("slow-1", ""),
    }


def test_a_group_that_failed_is_served_after_the_others(asker: Make, tmp_path: Path) -> None:
    """Both processes are held; when one is free, the group that failed before is served after one
    that asked later, and so was the order of answers.
    """
    asking = asker()
    files = [tmp_path / name for name in ("first", "second")]
    assert asking.ask("raises", GIVEN, group="failed")[0] is None
    for n, file in enumerate(files):
        asking.submit(f"holding-{n}", "sleeps_once", said(f"600 {file}"))
    asking.submit("failed", "good", GIVEN)
    asking.submit("fine", "good", GIVEN)
    files[0].touch()
    assert [group for group, _, _ in asking.hear(3)] == ["holding-0", "fine", "failed"]
    files[1].touch()
    assert asking.hear() == [("holding-1", asking.heard[-1][1], "")]


def test_a_newer_call_replaces_one_that_waits(asker: Make, tmp_path: Path) -> None:
    asking = asker()
    file = tmp_path / "go on"
    asking.submit("g", "sleeps_once", said(f"600 {file}"))
    asking.submit("g", "raises", GIVEN)
    asking.submit("g", "exits", GIVEN)
    asking.submit("g", "good", GIVEN)
    file.touch()
    assert [(group, failure) for group, _, failure in asking.hear(2)] == [("g", ""), ("g", "")]
    assert asking.thunks.empty()
