"""The pages in a real browser: what its policy refuses, what is told live, and the keyboard."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.console.browser import NIGHTLY, Browser
from tests.console.http.served import PATIENCE_S, Served, served
from tests.console.pictures import (
    HOSTILE,
    ToldPages,
    journal_file,
    line,
    picture,
    rebalance,
    snapshot,
)
from tests.harness.wait import wait_until
from zkcoord.core.model import GroupState
from zkcoord.health.rules import HealthVerdict
from zkcoord.zk.clock import wall_ms

pytestmark = NIGHTLY
PAGES = ("", "group?name=billing", "topic?name=orders", "coordinator", "none", "group?name=nobody")
HOP = frozenset({"connection", "transfer-encoding", "keep-alive"})


@pytest.fixture
def here(browser: Browser, tmp_path: Path) -> Iterator[Served]:
    journal_file(tmp_path)
    now = wall_ms()
    records = [
        rebalance(now - 60_000 * n, {f"m{n % 3}": {"orders": "0-3"}}, generation=50 - n)
        for n in range(40, 0, -1)
    ]
    lines = [line("billing", HealthVerdict.STALL, lag=7), line("audit", state=GroupState.EMPTY)]
    lines += [line(f"group-{n:03}", lag=n, topics=("clicks",)) for n in range(230)]
    group = snapshot("billing", {"m0": {"orders": [0, 1]}, "m1": {"orders": [2, 3]}})
    told = ToldPages(lines, [group], records, tmp_path)
    with served(told) as found:
        browser.complaints()
        yield found
        browser.driver.get("about:blank")


def address(here: Served, page: str = "") -> str:
    return f"http://127.0.0.1:{here.port}/{page}"


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_no_page_breaks_its_own_policy_or_is_too_wide(
    browser: Browser, here: Served, page: str, dark: bool
) -> None:
    for width in (390, 1200):
        browser.open(address(here, page), width, dark)
        if browser.js("!!document.body.dataset.live"):
            browser.shows("#connection", "live")
        assert browser.js("document.documentElement.scrollWidth") <= width, (page, width)
        back = browser.js("getComputedStyle(document.body).backgroundColor")
        assert back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert browser.complaints() == []


def test_a_rebalances_page(browser: Browser, here: Served) -> None:
    browser.open(address(here, "group?name=billing"), 390)
    (last,) = here.told.happenings.of("billing")[-1:]
    browser.open(address(here, f"rebalance?name=billing&at={last['t']}-{last['generation']}"), 390)
    browser.shows("h1", "Rebalance 49 of billing")
    assert browser.js("document.documentElement.scrollWidth") <= 390
    assert browser.complaints() == []


def change(here: Served, owner: str) -> None:
    """A rebalance, after which this member has all."""
    here.told.asker.groups["billing"] = snapshot("billing", {owner: {"orders": [0, 1, 2, 3]}})
    here.told.happenings.take([rebalance(wall_ms(), {owner: {"orders": "0-3"}}, trigger=owner)])
    here.newsroom.tell()


def test_a_page_is_told_and_the_focus_stays(browser: Browser, here: Served) -> None:
    browser.open(address(here, "group?name=billing"))
    browser.shows("#connection", "live")
    link = "document.querySelectorAll('#part-partitions a')[2]"
    browser.js(f"{link}.focus()")
    change(here, "newcomer")
    browser.shows("#part-partitions", "newcomer")
    browser.shows("#part-events", "newcomer")
    browser.shows("#part-chart title", "newcomer")
    assert browser.js(f"document.activeElement === {link}"), "where the reader was"
    assert browser.js("document.querySelector('#part-events time').title").endswith("UTC")
    assert browser.complaints() == []


def test_updates_wait_while_they_are_paused(browser: Browser, here: Served) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(address(here, "group?name=billing"))
    browser.shows("#connection", "live")
    browser.js("document.getElementById('pause').focus()")
    browser.keys(Keys.SPACE)
    assert browser.js("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    browser.js(
        "(window.told = 0, new EventSource(document.body.dataset.live).onmessage = (e) =>"
        " { if (e.data.includes('latecomer')) window.told += 1; })"
    )
    change(here, "latecomer")
    wait_until(lambda: browser.js("window.told"), PATIENCE_S, "that the news have come")
    assert "latecomer" not in browser.js("document.body.textContent")
    browser.keys(Keys.SPACE)
    browser.shows("#part-partitions", "latecomer")
    assert browser.complaints() == []


def first_group(browser: Browser) -> str:
    return str(browser.js("document.querySelector('#part-groups tbody a').textContent"))


def test_sort_filter_search_and_pages_by_keyboard(browser: Browser, here: Served) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(address(here))
    assert first_group(browser) == "billing", "the worst"
    browser.js("[...document.querySelectorAll('thead a')].find((a) => a.text === 'Group').focus()")
    browser.keys(Keys.ENTER)
    wait_until(lambda: first_group(browser) == "audit", PATIENCE_S, "the list by name")
    assert (
        browser.js("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
    )
    browser.js("document.querySelector('a[rel=next]').focus()")
    browser.keys(Keys.ENTER)
    browser.shows("#part-groups p", "page 2 of 3")
    assert first_group(browser) == "group-098"
    browser.js("document.getElementById('find').focus()")
    browser.keys("BILL", Keys.ENTER)
    browser.shows("#part-groups p", '1 group, with "BILL"')
    browser.open(address(here))
    browser.js("document.querySelector('select[name=state]').focus()")
    browser.keys("Empty", Keys.TAB, Keys.ENTER)
    browser.shows("#part-groups p", "1 group.")
    assert first_group(browser) == "audit" and "state=Empty" in browser.js("location.search")
    browser.open(address(here))
    browser.keys(Keys.TAB)
    assert browser.js("document.activeElement.className") == "skip"
    assert browser.complaints() == []


def test_a_list_that_is_being_chosen_from_is_left_alone(browser: Browser, here: Served) -> None:
    browser.open(address(here))
    browser.shows("#connection", "live")
    browser.js("document.querySelector('select[name=state]').focus()")
    shown = browser.js("document.getElementById('part-status').dataset.shown")
    here.told.picture = picture([line("audit", lag=99)])
    here.newsroom.tell()
    wait_until(
        lambda: browser.js("document.getElementById('part-status').dataset.shown") != shown,
        PATIENCE_S,
        "another part's news",
    )
    assert browser.js("document.activeElement.name") == "state"
    assert first_group(browser) == "billing"
    browser.js("document.activeElement.blur()")
    wait_until(lambda: first_group(browser) == "audit", PATIENCE_S, "what has waited")


@pytest.mark.parametrize(
    "name", [name for name in HOSTILE if "/" not in name] + ["<svg onload=x()>"]
)
def test_what_somebody_has_named_does_not_run(browser: Browser, name: str, tmp_path: Path) -> None:
    journal_file(tmp_path)
    told = ToldPages(
        [line(name, HealthVerdict.STALL, topics=(name,))],
        [snapshot(name, {name: {"orders": [0]}}, host=name)],
        [rebalance(wall_ms() - 5, {name: {name: "0"}}, group=name, trigger=name, cause=name)],
        tmp_path,
    )
    with served(told) as here:
        browser.open(address(here))
        browser.js("document.querySelector('#part-groups tbody a').click()")
        browser.shows("h1", name)
        browser.shows("#connection", "live")
        here.told.asker.groups[name] = snapshot(name, {name + "2": {"orders": [0]}}, host=name)
        here.newsroom.tell()
        browser.shows("#part-members", name + "2")
        assert browser.js("document.scripts.length") == 1
        assert browser.js("document.querySelectorAll('img, [onload], [onerror]').length") == 0
        browser.driver.get("about:blank")
    assert browser.complaints() == []


@contextlib.contextmanager
def stripping_proxy(port: int, prefix: str) -> Iterator[int]:
    """What a proxy does that has the console below a path; its port."""

    class Passing(BaseHTTPRequestHandler):
        """One request there, and its answer back as it comes."""

        def do_GET(self) -> None:
            if not self.path.startswith(prefix):
                self.send_error(404)
                return
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            with contextlib.closing(asked), contextlib.suppress(ConnectionError):
                asked.request("GET", "/" + self.path.removeprefix(prefix))
                answer = asked.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                self.end_headers()
                while part := answer.read1(65_536):
                    self.wfile.write(part)
                    self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy.server_address[1]
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(PATIENCE_S)


def test_below_a_path_of_a_proxy(browser: Browser, here: Served) -> None:
    with stripping_proxy(here.port, "/x/") as port:
        base = f"http://127.0.0.1:{port}/x/"
        browser.open(base)
        browser.shows("#connection", "live")
        browser.js("document.querySelector('#part-groups tbody a').click()")
        browser.shows("h1", "billing")
        browser.shows("#connection", "live")
        change(here, "newcomer")
        browser.shows("#part-members", "newcomer")
        browser.js("document.querySelector('#part-events a').click()")
        browser.shows("h1", "Rebalance")
        browser.js("document.querySelector('.brand').click()")
        browser.shows("h1", "Groups")
        assert browser.js("location.href") == base
        browser.open(base + "no/such/page")
        browser.js("document.querySelector('main a').click()")
        browser.shows("h1", "Groups")
        assert browser.js("location.href") == base
        browser.driver.get("about:blank")
    assert browser.complaints() == []
