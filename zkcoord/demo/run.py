"""One run from the servers to the verdict. Whatever happens, everything that was started is ended:
in order where there is time, by its watcher where this process is killed.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from zkcoord.demo import picture, summary, timeline
from zkcoord.demo.cast import Addresses, Cast
from zkcoord.demo.console import console_on, until_interrupted
from zkcoord.demo.live import View
from zkcoord.demo.options import COORDINATOR_NAMES, DemoOptions
from zkcoord.demo.story import ScenarioJournal
from zkcoord.errors import ScenarioError
from zkcoord.stack.java import find_java
from zkcoord.stack.stack import Stack, running_stack
from zkcoord.verdict import engine
from zkcoord.verdict.outcome import Verdict
from zkcoord.verdict.rules import Rule


def run(options: DemoOptions, view: View, play: Callable[[Cast], None]) -> int:
    """The exit status: 0 only for a clean verdict, which is also the last line. `play` is the
    story, which raises `ScenarioError`. Raises `StackError` when the servers cannot be had.
    """
    began = time.monotonic()
    failure: str | None = None
    with running_stack(options.folder / "stack", progress=view.say, kind=options.kafka) as stack:
        story = ScenarioJournal(options.folder / "run" / engine.SCENARIO / "steps.jsonl", view.say)
        cast: Cast | None = None
        try:
            cast = Cast(options, _addresses(stack), story, view.say)
            cast.create_topic()
            with _console(options, cast, view) as address:
                with view.watching(cast):
                    play(cast)
                if address:
                    until_interrupted(address, view.say)
        except ScenarioError as error:
            failure = str(error)
        finally:
            with uninterrupted():
                if cast is not None:
                    cast.close()
                story.close()
    view.say("Everything is stopped; reading what was written down ...")
    verdict = engine.judge_folder(options.folder / "run")
    if failure is not None:
        verdict.failures.append(failure)
    if not verdict.clean and not options.keep_folder:
        keep(options, view)
    _reports(options, verdict, story, time.monotonic() - began, view)
    for line in summary.table(verdict, story.measured()):
        print(line)
    print(verdict.sentence, flush=True)
    return 0 if verdict.clean else 1


@contextmanager
def _console(options: DemoOptions, cast: Cast, view: View) -> Iterator[str]:
    """The address of a console, where one is wanted; else ""."""
    if not options.console:
        yield ""
        return
    journals = [cast.journal_of(name) for name in COORDINATOR_NAMES]
    with console_on(cast.addresses.zookeeper, cast.addresses.kafka, journals, view.say) as address:
        yield address


def _addresses(stack: Stack) -> Addresses:
    assert stack.zookeeper is not None and stack.kafka is not None, "both run inside the block"
    return Addresses(stack.zookeeper.address, stack.kafka.address)


def _reports(
    options: DemoOptions,
    verdict: Verdict,
    story: ScenarioJournal,
    duration_s: float,
    view: View,
) -> None:
    java = find_java()
    report, image = (options.reports / f"{options.name}{end}" for end in (".json", "-timeline.png"))
    summary.write(
        report,
        summary.report(options, verdict, story, duration_s, f"{java.major}"),
    )
    drawn: list[Path] = [report]
    try:
        line = timeline.read(options.folder / "run", verdict.steps)
        picture.draw(line, image, subtitle(options, line, verdict))
        drawn.append(image)
    except ScenarioError as error:
        view.say(str(error))
    view.say(f"Written: {', '.join(str(path) for path in drawn)}")


def keep(options: DemoOptions, view: View) -> None:
    """Copy what a bad run wrote down to where it stays."""
    kept = options.reports / f"{options.name}-journals"
    shutil.rmtree(kept, ignore_errors=True)
    for name in ("run", "logs"):
        if (options.folder / name).is_dir():
            shutil.copytree(options.folder / name, kept / name)
    view.say(f"Journals and logs of this run are in {kept}")


def subtitle(options: DemoOptions, line: timeline.Timeline, verdict: Verdict) -> str:
    """What the picture's second line says."""
    wrong = (
        f"{verdict.amount(Rule.LOST)} lost, {verdict.amount(Rule.DUPLICATED)} duplicated,"
        f" {verdict.amount(Rule.OWNED_TWICE)} owned twice"
    )
    return (
        "colour: the owner    white: nobody    ms: until the last partition that moved was fetched"
        f" again    {line.records:,} records at {options.pace.rate:,}/s: {wrong}"
    )


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Tidying up is not interrupted by a second Ctrl-C or SIGTERM."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
