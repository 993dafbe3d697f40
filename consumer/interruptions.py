"""What a signal handler raised, where the standard library says an error of its own in its place.

A handler runs at any instruction of the main thread: also while that waits for a condition, whose
lock it has given away for so long, and while a class is made. What is raised there comes out as a
`RuntimeError`: of a lock that is not held (`threading.Condition.wait`, in which every start of a
thread waits), or of `__set_name__` (before Python 3.12).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

OF_A_LOCK = frozenset(("release unlocked lock", "cannot release un-acquired lock"))
OF_A_CLASS = "Error calling __set_name__ on "


def say_interruption(error: BaseException) -> None:
    """Raises what `error` stands for; returns where it is an error like any other. To be called
    where it is caught, before it is raised on.
    """
    raised = _stands_for(error)
    if raised is not None:
        raise raised from raised.__cause__


def says_interruptions(method: Method) -> Method:
    """What a signal handler raises leaves this method as it is."""

    @functools.wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except RuntimeError as e:
            say_interruption(e)
            raise

    return call  # type: ignore[return-value]  # as `method`


def _stands_for(error: BaseException) -> BaseException | None:
    if type(error) is not RuntimeError:
        return None
    text = str(error)
    if text.startswith(OF_A_CLASS):
        return error.__cause__
    if text in OF_A_LOCK and _raised_in(error.__traceback__) == threading.__file__:
        return error.__context__
    return None


def _raised_in(traceback: TracebackType | None) -> str:
    """The file of the innermost frame."""
    file = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        traceback = traceback.tb_next
    return file
