"""Through the console as an operator walks: real groups in trouble, a real browser, only clicks.

    python -m tests.console.walk [--out FOLDER] [--docs]

`tests/console/walk_stage.py` has what is looked at: ZooKeeper, a broker, a coordinator, the console
and four groups. Each question begins at the list of groups; what is clicked is
on the page, and counted. The words of the answer have to be on the page that was reached. A picture
of each step goes to FOLDER (build/walk), with `--docs` those of docs/console.md to docs/img.

Exit status: 0; 1 with a sentence where an answer is not there or takes too many clicks; 4 where
there is no browser.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.console.browser import MISSING, Browser
from tests.console.walk_stage import PARTITIONS, READER, TOKEN, Stage, staged
from tests.harness.command import PATIENCE_S, ROOT
from tests.harness.wait import wait_until
from zkcoord.console.views.texts import iso
from zkcoord.demo.run import uninterrupted
from zkcoord.errors import ZkcoordError

NO_BROWSER = 4
OUT = Path("build/walk")
IMAGES = ROOT / "docs" / "img"
IMAGE_BYTES_MAX = 150_000
COLOURS = 256
WIDTH, HEIGHT_MIN, HEIGHT_MAX = 1_200, 300, 1_300
CLICKS_MAX = 3
ACTION_CLICKS_MAX = 5
"""To the group, to the action, signing in, seeing it, doing it."""

TEXT = "document.querySelector('main').innerText"
BOTTOM = "document.querySelector('footer').getBoundingClientRect().bottom + window.scrollY + 16"
FIRST = "(document.querySelector('#part-groups tbody th a') || {}).textContent"


@dataclass
class Asked:
    """A question, and what it took."""

    question: str
    bar: int = CLICKS_MAX
    clicks: int = 0
    answers: list[str] = field(default_factory=list)


class Walk:
    """The operator: what was asked so far, and a picture of each page that was reached."""

    def __init__(self, browser: Browser, address: str, out: Path) -> None:
        self.browser = browser
        self.address = address
        self.out = out
        self.asked: list[Asked] = []
        self.pictures: dict[str, Path] = {}

    def ask(self, question: str, bar: int = CLICKS_MAX) -> None:
        """Another question, from the list of groups on."""
        self.asked.append(Asked(question, bar))
        self.browser.open(self.address, WIDTH)
        self.browser.shows("#connection", "live")

    def click(self, path: str) -> None:
        """What is on the page at this XPath, as with a mouse."""
        from selenium.common.exceptions import (
            ElementClickInterceptedException,
            NoSuchElementException,
            StaleElementReferenceException,
        )

        def is_clicked() -> bool:
            # a part that is just being shown anew is looked for again
            try:
                self.browser.driver.find_element("xpath", path).click()
            except (
                ElementClickInterceptedException,
                NoSuchElementException,
                StaleElementReferenceException,
            ):
                return False
            return True

        wait_until(is_clicked, PATIENCE_S, f"{path} on {self.browser.driver.current_url}")
        self.asked[-1].clicks += 1

    def reads(self, name: str, *words: str) -> None:
        """The page that was reached has these, each as one reads it; its picture is taken."""

        def missing() -> list[str]:
            text = str(self.browser.js(TEXT))
            return [one for one in words if one not in text]

        try:
            wait_until(lambda: not missing(), PATIENCE_S, "the answer")
        except AssertionError:
            self.picture(name)
            what = f"{self.asked[-1].question} {missing()} is not on the page {name}"
            raise AssertionError(what) from None
        self.asked[-1].answers += words
        self.picture(name)

    def picture(self, name: str) -> None:
        """Of the page from its top, into the folder."""
        height = int(self.browser.js(BOTTOM))
        shown = max(HEIGHT_MIN, min(height, HEIGHT_MAX))
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": shown, "scale": 1}
        told = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        got = self.browser.driver.execute_cdp_cmd("Page.captureScreenshot", told)
        path = self.out / f"{len(self.pictures) + 1:02}-{name}.png"
        path.write_bytes(base64.b64decode(got["data"]))
        self.pictures[name] = path

    def write_token(self) -> None:
        """As one pastes it."""
        self.browser.driver.find_element("id", "token").send_keys(TOKEN)


def group(name: str) -> str:
    """A group's name in the list."""
    return f"//div[@id='part-groups']//th/a[normalize-space()='{name}']"


def trouble(name: str) -> str:
    """How many troubles it has, in the list."""
    return f"//div[@id='part-groups']//tr[th/a[normalize-space()='{name}']]//a[@class='bad']"


def rebalanced_at(at_ms: int) -> str:
    """A rebalance among what happened, by its time."""
    return f"//div[@id='part-events']//tr[td/time[@datetime='{iso(at_ms)}']]/td/a"


def button(text: str) -> str:
    """By what it says."""
    return f"//main//button[normalize-space()='{text}']"


def which_is_worst(walk: Walk, stage: Stage) -> None:
    """The list is sorted so."""
    walk.ask("Which group is worst?")
    wait_until(lambda: walk.browser.js(FIRST) == "ingest", PATIENCE_S, "ingest as the first group")
    walk.reads("list", "ingest", "ERROR", "trouble")
    assert walk.browser.js(FIRST) == "ingest", "another group is first now"


def what_to_do(walk: Walk, stage: Stage) -> None:
    """Of the worst, and of the one that is restless."""
    walk.ask("What must I do about the worst, ingest?")
    walk.click(trouble("ingest"))
    walk.reads("ingest", "What to do", "commit-stands-still", f"Look at what {stage.silent} does")
    walk.ask("What must I do about search?")
    walk.click(trouble("search"))
    walk.reads("search", "What to do", "flapping-member", "Its own log says why it ends")


def who_blocks(walk: Walk, stage: Stage) -> None:
    """Of the three, one has not answered."""
    walk.ask("Which member blocks billing?")
    walk.click(group("billing"))
    walk.reads("billing", "Who blocks", f"{stage.stuck} was told to give up", "has not answered")
    blockers = str(walk.browser.js("document.querySelector('.blockers').innerText"))
    assert stage.first not in blockers, f"who blocks names one that does not: {blockers}"


def why_rebalanced(walk: Walk, stage: Stage) -> None:
    """By its time; then by what the coordinator was told."""
    (at,) = [one for one in stage.rebalances("billing") if one["trigger"] == stage.stuck]
    clock = iso(at["t"])[11:19]
    walk.ask(f"Why did billing rebalance at {clock}?")
    walk.click(group("billing"))
    walk.click(rebalanced_at(at["t"]))
    walk.reads("rebalance", f"It began because a member joined: {stage.stuck}", "Who held it up")
    walk.ask(f"What was decided at {clock}, and because of what?")
    walk.click(group("billing"))
    walk.click(rebalanced_at(at["t"]))
    walk.click("//main//a[normalize-space()='Why it was decided so']")
    walk.reads("why", f"{stage.stuck} joined", "stop ", "start ")


def an_action(walk: Walk, stage: Stage) -> None:
    """Shown first, then done, by who has signed in."""
    walk.ask("Rebalance audit: sign in, see what is done, do it", ACTION_CLICKS_MAX)
    walk.click(group("audit"))
    walk.click("//p[@class='actions']/a[normalize-space()='Rebalance']")
    walk.reads("sign-in", "Your token")
    walk.write_token()
    walk.click(button("Sign in"))
    walk.reads("action", f"You are {READER}", "What it is to do")
    walk.click(button("Show what it would do"))
    walk.reads("action-shown", "This would be done:", "zkcoord groups rebalance -- audit")
    table = str(walk.browser.js("document.querySelector('main pre').innerText"))
    assert len(table.splitlines()) > PARTITIONS["orders"], f"it is no table: {table}"
    assert not stage.done(), "it is done before it was said so"
    walk.click(button("Rebalance now"))
    walk.reads("action-done", "Done.", "0 partitions moved; audit is Stable")
    (done,) = stage.done()
    assert (done["who"], done["group"], done["status"]) == (READER, "audit", 0), done


QUESTIONS = (which_is_worst, what_to_do, who_blocks, why_rebalanced, an_action)
IN_DOCS = ("list", "billing", "rebalance", "action-shown")


def in_trouble(stage: Stage) -> None:
    """Until the console knows of all that is wrong."""
    for name, word in (
        ("ingest", "commit-stands-still"),
        ("search", "flapping-member"),
        ("billing", "has not answered yet"),
        ("billing", "commit-stands-still"),
    ):
        stage.console.shows(f"/group?name={name}", word)


def for_docs(walk: Walk) -> list[Path]:
    """The pictures of docs/console.md, small."""
    from PIL import Image

    written = []
    for name in IN_DOCS:
        small = io.BytesIO()
        with Image.open(walk.pictures[name]) as found:
            # a few pixels of a colour are words, too: as many of the colours as there are
            few = found.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
            few.save(small, "PNG", optimize=True)
        size = len(small.getvalue())
        assert size <= IMAGE_BYTES_MAX, f"{name} has {size:,} bytes, {IMAGE_BYTES_MAX:,} at most"
        written.append(IMAGES / f"console-{name}.png")
        written[-1].write_bytes(small.getvalue())
    return written


def table(asked: Sequence[Asked]) -> list[str]:
    """What each question took."""
    wide = max(len(one.question) for one in asked)
    head = f"{'QUESTION'.ljust(wide)}  CLICKS  AT MOST  READ THERE"
    return [
        head,
        *(
            f"{one.question.ljust(wide)}  {one.clicks:6}  {one.bar:7}  {' | '.join(one.answers)}"
            for one in asked
        ),
    ]


def too_many(asked: Sequence[Asked]) -> list[str]:
    """Sentences: what takes more clicks than it may."""
    return [
        f"{one.question} It takes {one.clicks} clicks, {one.bar} are allowed."
        for one in asked
        if one.clicks > one.bar
    ]


@contextlib.contextmanager
def a_browser() -> Iterator[Browser]:
    """Within the block."""
    found = Browser()
    try:
        yield found
    finally:
        with uninterrupted():
            found.driver.quit()


def walked(stage: Stage, out: Path, docs: bool, say: Callable[[str], None]) -> list[str]:
    """What is wrong."""
    say("Until the console has seen it all ...")
    in_trouble(stage)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("[0-9][0-9]-*.png"):
        old.unlink()
    with a_browser() as browser:
        walk = Walk(browser, f"http://127.0.0.1:{stage.console.port}/", out)
        try:
            for question in QUESTIONS:
                question(walk, stage)
            complaints = [f"The browser complains: {one}" for one in browser.complaints()]
        except AssertionError as error:
            walk.picture("failed")
            complaints = [" ".join(str(error).split())]
        for line in table(walk.asked):
            say(line)
        say(f"Written: {out} ({len(walk.pictures)} pictures)")
        wrong = complaints + too_many(walk.asked)
        if docs and not wrong:
            say(f"Written: {', '.join(str(path) for path in for_docs(walk))}")
    return wrong


def run(out: Path, docs: bool, say: Callable[[str], None]) -> int:
    """The exit status."""
    if MISSING:
        print(
            f"There is no browser to walk with: {', '.join(MISSING)} missing (on Debian and Ubuntu:"
            " apt-get install chromium chromium-driver; pip install '.[test]').",
            file=sys.stderr,
        )
        return NO_BROWSER
    try:
        with tempfile.TemporaryDirectory(prefix="zkcoord-walk-") as name:
            with staged(Path(name), say) as stage:
                wrong = walked(stage, out, docs, say)
    except KeyboardInterrupt:
        print("Interrupted: everything is stopped.", file=sys.stderr)
        return 130
    except (ZkcoordError, OSError, AssertionError) as error:
        wrong = [f"It could not be walked: {' '.join(str(error).split())}"]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.console.walk",
        description="Walks through the console as an operator does, and counts the clicks.",
        epilog="example: python -m tests.console.walk --out build/walk",
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"for pictures (usual: {OUT})")
    parser.add_argument("--docs", action="store_true", help="those of docs/console.md anew, too")
    args = parser.parse_args(arguments)

    def say(text: Any) -> None:
        print(text, flush=True)

    return run(args.out.absolute(), args.docs, say)


if __name__ == "__main__":
    raise SystemExit(main())
