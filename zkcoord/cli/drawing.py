"""What a command draws again and again (`--watch`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from zkcoord.terminal import lines, out

INTERVAL_MS_MIN = 100
INTERVAL_MS_MAX = 86_400_000


def draw_again(draw: Callable[[], str], interval_s: float, times: int, json_lines: bool) -> None:
    """Draw until Ctrl-C (or `times` times): in place on a terminal, one after the other
    elsewhere.
    """
    show, done = _screen(json_lines)
    drawn = 0
    try:
        while True:
            show(draw())
            drawn += 1
            if drawn == times:
                return
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return
    finally:
        done()


def _screen(json_lines: bool) -> tuple[Callable[[str], None], Callable[[], None]]:
    """How to show a drawing, and what to do in the end. rich is used where it is installed (the
    extra `cli`).
    """
    if json_lines or not sys.stdout.isatty():
        return _plain, lambda: None
    try:
        from rich.live import Live
        from rich.text import Text
    except ModuleNotFoundError:
        return lambda text: _plain(text, clear=True), lambda: None
    live = Live(auto_refresh=False, vertical_overflow="crop")
    live.start()
    return lambda text: live.update(Text(lines(text), overflow="fold"), refresh=True), live.stop


def _plain(text: str, clear: bool = False) -> None:
    out(text, clear=clear)
