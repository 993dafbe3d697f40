"""What is shown while the demo runs. `LiveView` redraws one screen with rich: who owns what, the
steps and how long each took, rate and lag. `PlainView` prints lines, for logs and where rich is
missing. Both show something new at least every few seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from zkcoord.demo.state import ConsumerPhase, ConsumerView, GroupShown

if TYPE_CHECKING:
    from zkcoord.demo.cast import Cast

PLAIN_EVERY_S = 5.0
REFRESH_PER_S = 5
NOTES_SHOWN = 6
COLOURS = (
    "bright_blue",
    "yellow",
    "green",
    "magenta",
    "bright_yellow",
    "blue",
    "red",
    "cyan",
    "bright_magenta",
    "bright_green",
)
FULL_CELL, COMING_CELL, OTHER_CELL = "█", "▒", "·"


class View(Protocol):
    """What the demo needs of a view."""

    def say(self, text: str) -> None:
        """Show a sentence."""

    def watching(self, cast: Cast) -> Any:
        """A context manager: show the group inside of it."""


class PlainView:
    """Lines on standard output, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """One line."""
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    @contextmanager
    def watching(self, cast: Cast) -> Iterator[None]:
        """A line about the group every `PLAIN_EVERY_S`."""
        done = threading.Event()

        def report() -> None:
            while not done.wait(PLAIN_EVERY_S):
                with cast.children.lock:
                    text = plain_line(cast.state)
                self.say(text)

        thread = threading.Thread(target=report, name="plain-view", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def plain_line(state: GroupShown) -> str:
    """The group in one line."""
    owned = "  ".join(
        f"{view.name}:{len(view.owned)}"
        for view in state.consumers.values()
        if view.phase is ConsumerPhase.MEMBER
    )
    return (
        f"  {state.rate:,.0f} records/s, lag {state.lag:,}; {state.leader or 'nobody'} leads;"
        f" partitions  {owned or 'none owned'}"
    )


class LiveView:
    """One screen, redrawn. Before and after it (`watching`), lines."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console()
        self._began = time.monotonic()
        self._lines = PlainView()
        self._live: Any = None

    def say(self, text: str) -> None:
        """A line; while the screen is shown, among its notes (steps show themselves)."""
        if self._live is None:
            self._lines.say(text)

    @contextmanager
    def watching(self, cast: Cast) -> Iterator[None]:
        """The screen."""
        from rich.live import Live

        def screen() -> Any:
            with cast.children.lock:
                return self.screen(cast)

        self._live = Live(
            get_renderable=screen, console=self.console, refresh_per_second=REFRESH_PER_S
        )
        try:
            with self._live:
                yield
        finally:
            self._live = None

    def screen(self, cast: Cast) -> Any:
        """What is shown now. Called under the lock."""
        from rich.console import Group
        from rich.text import Text

        state = cast.state
        elapsed = time.monotonic() - self._began
        title = Text.assemble(
            ("zkcoord demo", "bold"),
            f"   {elapsed:5.0f} s   {state.rate:7,.0f} records/s   lag {state.lag:6,}   ",
            (
                f"{state.leader} leads" if state.leader else "nobody leads",
                "bold green" if state.leader else "bold red",
            ),
            f"   {state.commands} commands so far",
        )
        return Group(
            title,
            Text(),
            self._owners(state, cast.partitions),
            Text(),
            self._steps(cast),
            Text(),
            self._notes(state),
        )

    def _owners(self, state: GroupShown, partitions: int) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(5):
            table.add_column(no_wrap=True)
        for view in state.consumers.values():
            bar = Text.assemble(*[cell(view, number) for number in range(partitions)])
            table.add_row(
                Text(view.name, style="bold"),
                Text(view.phase.value, style="red" if view.phase is ConsumerPhase.KILLED else ""),
                bar,
                f"{len(view.owned):>3}",
                f"{view.delivered:>9,} records",
            )
        table.add_row(
            "all",
            "",
            Text.assemble(*[together(state, number) for number in range(partitions)]),
            "",
            "",
        )
        return table

    def _steps(self, cast: Cast) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        for step in cast.story.steps:
            if not step.done:
                table.add_row(Text("▶", style="yellow"), Text(step.name, style="yellow"), "")
            else:
                table.add_row(
                    Text("✓", style="green"),
                    step.name,
                    (
                        "nothing had to move"
                        if step.took_ms is None
                        else Text(f"{step.took_ms:.0f} ms", style="bold")
                    ),
                )
        return table

    def _notes(self, state: GroupShown) -> Any:
        from rich.text import Text

        shown = list(state.notes)[-NOTES_SHOWN:]
        return Text(
            "\n".join(
                f"{time.strftime('%H:%M:%S', time.localtime(t_ns / 1e9))}  {text}"
                for t_ns, text in shown
            ),
            style="dim",
        )


def cell(view: ConsumerView, number: int) -> tuple[str, str]:
    """One partition in a consumer's bar."""
    if number not in view.owned:
        return OTHER_CELL, "dim"
    return FULL_CELL if number in view.fetched else COMING_CELL, COLOURS[view.number % len(COLOURS)]


def together(state: GroupShown, number: int) -> tuple[str, str]:
    """One partition in the bar of all: its owner's colour, a blank for none, an exclamation mark
    for two.
    """
    owners = [view for view in state.consumers.values() if number in view.owned]
    if len(owners) > 1:
        return "!", "bold red"
    return cell(owners[0], number) if owners else (" ", "")


def view_for(live: bool) -> View:
    """The screen where there is a terminal and rich, else lines."""
    if not live or not sys.stdout.isatty():
        return PlainView()
    try:
        return LiveView()
    except ImportError:
        return PlainView()
