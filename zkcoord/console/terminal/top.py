"""`zkcoord top`: all groups in a terminal, the worst first, again and again."""

from __future__ import annotations

import argparse
import logging
import os
import queue
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from zkcoord.cli.brokers import brokers
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings
from zkcoord.console.asking import GroupAsker
from zkcoord.console.flags import add_watching_flags, folders, watching_settings
from zkcoord.console.happenings import Happenings
from zkcoord.console.picture import Picture
from zkcoord.console.terminal.state import (
    BACK,
    DOWN,
    END,
    ENTER,
    ERASE,
    HOME,
    PAGE_DOWN,
    PAGE_UP,
    SORTED,
    UP,
    TopState,
)
from zkcoord.console.troubles import Troubles
from zkcoord.console.views import group as group_view
from zkcoord.console.views.overview import WORST_FIRST, Wanted, ordered
from zkcoord.console.watching import Watcher
from zkcoord.errors import ConfigurationError, UnavailableError, ZkcoordError
from zkcoord.health.evidence_of import evidence_of
from zkcoord.health.trouble.rules import troubles_of
from zkcoord.terminal import printable
from zkcoord.zk.clock import wall_ms
from zkcoord.znodes.paths import layout_named

DRAW_S = 1.0
ESCAPE_S = 0.05
MISSING_EXTRA = "zkcoord top needs rich: install it with pip install 'zkcoord[cli]'"
SEQUENCES = {
    "[A": UP,
    "[B": DOWN,
    "OA": UP,
    "OB": DOWN,
    "[5~": PAGE_UP,
    "[6~": PAGE_DOWN,
    "[H": HOME,
    "[F": END,
    "[1~": HOME,
    "[4~": END,
}
KEYS = {"\r": ENTER, "\n": ENTER, "\x7f": ERASE, "\x08": ERASE, "\x03": "q", "\x04": "q"}

EPILOG = """\
examples:
  zkcoord top --zookeeper zk1:2181/kafka
  # what is behind longest first
  zkcoord top --zookeeper zk1:2181/kafka --sort seconds
  # once, where standard output is no terminal
  zkcoord top --zookeeper zk1:2181/kafka | head -20

Keys: arrows mark a group, enter shows it, esc goes back, s sorts by the next column, / finds, h
shows them all, q ends.
"""


def add_parser(subparsers: Any) -> None:
    """Add `top`."""
    parser = subparsers.add_parser(
        "top",
        help="all groups in a terminal, the worst first",
        description="All groups with verdict, lag and rebalances, drawn again and again.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--sort", choices=SORTED, default="verdict", help="the column to begin with (verdict)"
    )
    parser.add_argument("--find", default="", metavar="TEXT", help="only groups or topics with it")
    add_watching_flags(parser)


def run(args: argparse.Namespace) -> int:
    """0; what cannot be done is raised (`ZkcoordError`)."""
    try:
        import rich  # noqa: F401
    except ImportError:
        raise ConfigurationError(MISSING_EXTRA) from None
    return _watched(args, watching_settings(args))


def _watched(args: argparse.Namespace, settings: Settings) -> int:
    logging.getLogger("zkcoord").setLevel(logging.CRITICAL)  # the screen says what is wrong
    layout, options = layout_named(settings.text("layout")), zk_options(settings)
    news: queue.SimpleQueue[Picture] = queue.SimpleQueue()
    with ExitStack() as stack:

        def heard(groups: frozenset[str]) -> None:
            troubles.heard(groups)

        happenings = Happenings(folders(args), heard)
        troubles = Troubles(happenings, layout)
        watcher = Watcher(
            options,
            layout,
            partial(brokers, settings, layout=layout),
            args.interval_ms,
            news.put,
            troubles,
        )
        asker = GroupAsker(options, layout)
        stack.callback(asker.close)
        happenings.look()
        for thread in (happenings, watcher):
            stack.callback(thread.close)
            thread.start()
        wanted = Wanted(find=args.find, sort=args.sort, down=args.sort in WORST_FIRST)
        screen = _Screen(watcher, happenings, asker, TopState(wanted))
        first = news.get()
        if not first.at_ms:
            raise UnavailableError(first.problem)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            screen.once()
        else:
            screen.until_over()
    return 0


class _Screen:
    def __init__(
        self, watcher: Watcher, happenings: Happenings, asker: GroupAsker, state: TopState
    ) -> None:
        self._watcher = watcher
        self._happenings = happenings
        self._asker = asker
        self._state = state

    def once(self) -> None:
        """All groups, whatever the size of what it is printed to."""
        from rich.console import Console

        from zkcoord.terminal import out

        console = Console(width=200, no_color=True, highlight=False)
        with console.capture() as printed:
            console.print(self._list(len(self._watcher.picture.lines), console.width))
        out("\n".join(line.rstrip() for line in printed.get().splitlines()) + "\n")

    def until_over(self) -> None:
        """Draw, and do what keys say."""
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
            while not self._state.is_over:
                width, height = console.size
                live.update(self._drawn(width, height), refresh=True)
                key = pressed(DRAW_S)
                if key:
                    names = [line.name for line, _ in self._rows()]
                    self._state = self._state.pressed(key, names, self._room(height))

    def _rows(self) -> list[Any]:
        asked = self._state.wanted
        return ordered(self._watcher.picture, asked, self._happenings.per_hour)

    def _room(self, height: int) -> int:
        from zkcoord.console.terminal.text import HEAD_LINES

        return max(1, height - HEAD_LINES)

    def _drawn(self, width: int, height: int) -> Any:
        from zkcoord.console.terminal.text import keys_text

        if self._state.helps:
            return keys_text()
        if self._state.group:
            return self._of_group(width, height)
        return self._list(self._room(height), width)

    def _list(self, room: int, width: int) -> Any:
        from rich.console import Group

        from zkcoord.console.terminal.text import groups_table, head

        rows = self._rows()
        self._state = self._state.within(len(rows))
        begin = max(0, min(self._state.at - room // 2, len(rows) - room))
        shown = rows[begin : begin + room]
        rates = [self._happenings.rates(line.name) for line, _ in shown]
        return Group(
            head(self._watcher.picture, len(rows), self._state),
            groups_table(shown, rates, self._state.at - begin, width),
        )

    def _of_group(self, width: int, height: int) -> Any:
        from rich.text import Text

        from zkcoord.console.terminal.text import BAD, group_text

        name = self._state.group
        try:
            found = self._asker.group(name)
        except ZkcoordError as error:
            return Text(printable(f"{name}: {error} (esc goes back)"), style=BAD)
        line, records = self._watcher.picture.lines.get(name), self._happenings.of(name)
        rows = group_view.partition_rows(found, line)
        health = line.health if line is not None else None
        return group_text(
            name,
            list(group_view.blockers(found, wall_ms())),
            group_view.unowned(rows, found),
            troubles_of(evidence_of(name, records, found, health)),
            rows,
            records[::-1],
            (width, height),
        )


@contextmanager
def _keys() -> Iterator[Any]:
    """Keys of the terminal one by one, without waiting for a line's end. Gives a function that
    waits for one so many seconds; "": none came.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    left: list[str] = []

    def waiting(seconds: float) -> bool:
        return bool(left) or bool(select.select([descriptor], [], [], seconds)[0])

    def one() -> str:
        if not left:
            left.extend(os.read(descriptor, 1024).decode("utf-8", "replace"))
        return left.pop(0) if left else "\x04"  # the terminal has gone

    def pressed(seconds: float) -> str:
        if not waiting(seconds):
            return ""
        key = one()
        if key != "\x1b":
            return KEYS.get(key, key)
        if not waiting(ESCAPE_S):
            return BACK
        sequence = one()
        while len(sequence) < 4 and sequence not in SEQUENCES and waiting(ESCAPE_S):
            sequence += one()
        return SEQUENCES.get(sequence, "")

    try:
        tty.setcbreak(descriptor)
        attributes = termios.tcgetattr(descriptor)
        attributes[3] &= ~termios.ISIG  # Ctrl-C is a key that ends it
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
