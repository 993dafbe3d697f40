"""When a consumer is closed: at once where nobody is inside a call, else as that call ends."""

from __future__ import annotations

import dis
import gc
import sys
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from kafka.errors import IllegalStateError, KafkaError

from consumer.api import lifetime as module
from consumer.api.lifetime import CloseArguments, Lifetime, OpenConsumer, entry
from consumer.errors import ForkedConsumerError, GroupNameError
from tests.harness.wait import wait_until
from zkcoord.errors import InvalidGroupError
from zkcoord.zk.bell import Bell

PATIENCE_S = 30.0
WHERE_HANDLERS_RUN = {"RESUME", "CALL", "CALL_FUNCTION_EX", "CALL_FUNCTION", "JUMP_BACKWARD"}


class Consumer:
    """Has a lifetime, a call that may be interrupted, and a memory of how it ended."""

    def __init__(self, limit_ms: float = PATIENCE_S * 1000, shared: bool = False) -> None:
        self.busy = 0
        self.ends: list[tuple[CloseArguments, int, int]] = []
        self.woken = Bell()
        self._lifetime = Lifetime(self.end, self.woken.set, limit_ms, shared)

    def end(self, arguments: CloseArguments) -> None:
        self.ends.append((arguments, self.busy, threading.get_ident()))

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        self._lifetime.close(autocommit, timeout_ms)

    @entry
    def call(self, within: Callable[[], Any] = lambda: None) -> str:
        """Is busy meanwhile, and must not be closed then."""
        self.busy += 1
        try:
            within()
        finally:
            self.busy -= 1
        return "done"

    @property
    def over(self) -> bool:
        return self._lifetime.over


def test_it_is_closed_at_once_and_once() -> None:
    one = Consumer()
    assert one.call() == "done"
    one.close(False, 5)
    one.close()
    assert [end[0] for end in one.ends] == [CloseArguments(False, 5)]
    with pytest.raises(IllegalStateError):
        one.call()


@pytest.mark.parametrize("raises", [False, True])
def test_at_each_instruction_of_a_call_it_may_be_closed(raises: bool) -> None:
    """A handler may end the process (`sys.exit`): what it raises goes on behind the close."""
    seen, wanted, late, at = 0, 0, set(), ""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen, at
        if frame.f_code.co_filename not in (module.__file__, __file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == wanted:
                sys.settrace(None)
                at = dis.opname[frame.f_code.co_code[frame.f_lasti]]
                one.close()
                if raises:
                    raise SystemExit
        return trace

    def use() -> None:
        try:
            one.call()
        except IllegalStateError:
            assert one.ends, "it was closed before the call began"
        except SystemExit:
            assert raises

    while True:
        seen, wanted, one = 0, wanted + 1, Consumer()
        sys.settrace(trace)
        try:
            use()
        except SystemExit:  # before the call, or behind it
            assert raises
        finally:
            sys.settrace(None)
        if seen < wanted:
            break
        if not one.ends:
            late.add(at)
            one.close()
        assert len(one.ends) == 1, f"instruction {wanted}"
        assert raises or one.ends[0][1] == 0, f"instruction {wanted}: inside the call"
        assert one.over
    assert wanted > 50
    # between the last look and the return there is no place where Python runs signal handlers
    assert raises or late.isdisjoint(WHERE_HANDLERS_RUN), late


def test_at_each_instruction_of_a_close_it_may_be_closed_again() -> None:
    """By a second signal: nobody waits for an end that its own thread is at."""
    seen, wanted = 0, 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == wanted:
                sys.settrace(None)
                one.close()
        return trace

    while True:
        seen, wanted, one = 0, wanted + 1, Consumer()
        over = one._lifetime._over
        real = over.wait

        def wait(timeout_s: float) -> bool:
            assert over.is_set(), f"it waits for itself (instruction {wanted})"
            return real(timeout_s)

        over.wait = wait  # type: ignore[method-assign]
        sys.settrace(trace)
        try:
            one.close()
        finally:
            sys.settrace(None)
        if seen < wanted:
            break
        assert len(one.ends) == 1 and one.over, f"instruction {wanted}"
    assert wanted > 50


def test_a_callback_closes_as_the_call_ends_and_may_go_on_until_then() -> None:
    one = Consumer()
    said: list[str] = []

    def callback() -> None:
        one.close()
        assert not one.ends and one.woken.is_set()
        said.append(one.call())

    assert one.call(callback) == "done" and said == ["done"]
    assert len(one.ends) == 1 and one.ends[0][1] == 0


def test_what_ends_a_call_is_raised_behind_the_close() -> None:
    one = Consumer()

    def handler() -> None:
        one.close()
        raise KeyError

    with pytest.raises(KeyError):
        one.call(handler)
    assert len(one.ends) == 1


def test_a_call_of_another_thread_is_woken_and_waited_for() -> None:
    one = Consumer()
    inside = Bell()

    def within() -> None:
        inside.set()
        assert one.woken.wait(PATIENCE_S)

    other = threading.Thread(target=one.call, args=(within,))
    other.start()
    assert inside.wait(PATIENCE_S)
    one.close()
    other.join(PATIENCE_S)
    assert [end[1:] for end in one.ends] == [(0, threading.get_ident())]


def test_a_call_that_does_not_end_is_not_waited_for_longer_than_the_limit() -> None:
    one, inside, go_on = Consumer(limit_ms=50), Bell(), Bell()

    def within() -> None:
        inside.set()
        go_on.wait(PATIENCE_S)

    other = threading.Thread(target=one.call, args=(within,))
    other.start()
    assert inside.wait(PATIENCE_S)
    one.close()
    assert len(one.ends) == 1
    go_on.set()
    other.join(PATIENCE_S)


def test_two_threads_that_close_close_once_and_both_find_it_closed() -> None:
    one, begun, go_on = Consumer(), Bell(), Bell()

    def end(arguments: CloseArguments) -> None:
        one.ends.append((arguments, 0, 0))
        begun.set()
        go_on.wait(PATIENCE_S)

    one._lifetime._end = end
    threads = [threading.Thread(target=one.close) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE_S)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert one.over and len(one.ends) == 1


def test_errors_of_configuration_are_kafkas_and_what_they_were() -> None:
    def refuse() -> None:
        raise InvalidGroupError("no")

    with pytest.raises(KafkaError) as caught:
        Consumer().call(refuse)
    assert isinstance(caught.value, GroupNameError) and isinstance(caught.value, InvalidGroupError)


def test_in_a_forked_child_nothing_is_closed() -> None:
    one = Consumer()
    one._lifetime.pid += 1
    one.close()
    assert not one.ends and one.over
    with pytest.raises(ForkedConsumerError):
        one.call()


def test_a_forgotten_consumer_is_closed_elsewhere_and_nothing_is_committed() -> None:
    one = Consumer()
    handle = OpenConsumer()
    one._lifetime.watch(handle, one, "Consumer")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del handle
        gc.collect()
    # garbage of other tests may be warned of, too
    (warned,) = (w for w in caught if "Consumer" in str(w.message))
    assert warned.category is ResourceWarning
    wait_until(lambda: one.ends, PATIENCE_S, "the end")
    (arguments, _, thread), *_ = one.ends
    assert not arguments.autocommit and thread != threading.get_ident()


def test_a_closed_consumer_is_forgotten_without_a_word() -> None:
    one = Consumer()
    handle = OpenConsumer()
    one._lifetime.watch(handle, one, "Consumer")
    one.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del handle
        gc.collect()
    assert not [w for w in caught if "Consumer" in str(w.message)]
