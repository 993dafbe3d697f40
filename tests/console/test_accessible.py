"""Every page by axe-core, light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from tests.console import axe
from tests.console.browser import NIGHTLY, Browser
from tests.console.http.acting_here import Here
from tests.console.http.served import PATIENCE_S, Served, served
from tests.console.pictures import ToldPages, journal_file, line, rebalance, snapshot
from tests.harness.wait import wait_until
from zkcoord.console.replaying import DecisionTold, ReplayTold
from zkcoord.core.model import GroupState
from zkcoord.health.rules import HealthVerdict
from zkcoord.zk.clock import wall_ms

pytestmark = [
    *NIGHTLY,
    pytest.mark.skipif(not axe.HAS_NPM, reason="npm is missing, which fetches axe-core"),
]
PAGES = (
    "",
    "?sort=lag&find=bil",
    "?find=nothing-has-this-name",
    "group?name=billing",
    "group?name=audit",
    "rebalance?name=billing&at=",
    "why?name=billing&at=",
    "topic?name=orders",
    "coordinator",
    "check",
    "legacy",
    "none",
    "sign-in?do=rebalance&name=billing",
    "act?do=rebalance&name=billing",
    "act?do=reset&name=billing",
    "act?do=step-down",
)
REPLAYED = ReplayTold(
    "it differs", "zkcoord replay", [DecisionTold(0, ["stop m1"], ["m2 joined"])], 3, "RECORDED"
)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    return axe.script(tmp_path_factory.mktemp("axe"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("console")
    journal_file(folder)
    now = wall_ms()
    records = [
        rebalance(now - 60_000 * n, {f"m{n % 3}": {"orders": "0-3"}}, generation=50 - n)
        for n in range(40, 0, -1)
    ]
    lines = [
        line(f"group-{verdict.value}", verdict, lag=n) for n, verdict in enumerate(HealthVerdict)
    ]
    lines += [line("billing", HealthVerdict.STALL, lag=7), line("audit", state=GroupState.EMPTY)]
    groups = [
        snapshot("billing", {"m0": {"orders": [0, 1]}, "m1": {"orders": [2, 3]}}),
        snapshot("audit", {}),
    ]
    found = Here(folder)
    replayer = SimpleNamespace(why=lambda *_: REPLAYED, what_if=lambda *_: REPLAYED)
    told = ToldPages(lines, groups, records, folder, may_act=True, replayer=replayer)
    with served(told, acting=found.acting) as found.served:
        yield found


def signed_in(browser: Browser, served: Served, token: str) -> None:
    """As a reader does it."""
    browser.open(f"http://127.0.0.1:{served.port}/sign-in?do=rebalance&name=billing")
    browser.js("document.getElementById('token').value = arguments[0]", token)
    browser.js("document.querySelector('form.say button').click()")
    browser.shows("h1", "Rebalance")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_keeps_nobody_out(browser: Browser, here: Here, script: str, page: str) -> None:
    if page.startswith("act"):
        signed_in(browser, here.served, here.token)
    if page.endswith("at="):
        (last,) = here.served.told.happenings.of("billing")[-1:]
        page += quote(f"{last['t']}-{last['generation']}")
    for width, dark in ((1200, False), (1200, True), (390, False)):
        browser.open(f"http://127.0.0.1:{here.served.port}/{page}", width, dark)
        if browser.js("!!document.body.dataset.live"):
            browser.shows("#connection", "live")
        assert axe.complaints(browser, script) == [], (page, width, dark)
    assert [one for one in browser.complaints() if "axe" not in one] == []


def test_a_readers_action_by_keyboard(browser: Browser, here: Here, script: str) -> None:
    """Shown, then done; each page by axe, too."""
    from selenium.webdriver.common.keys import Keys

    signed_in(browser, here.served, here.token)
    ran = len(here.told.ran)
    browser.js("document.getElementById('f-fresh').focus()")
    browser.keys(" ", Keys.TAB, Keys.ENTER)
    browser.shows("code", "zkcoord groups rebalance --fresh -- billing")
    assert axe.complaints(browser, script) == []
    browser.js("document.querySelector('.sure').focus()")
    browser.keys(Keys.ENTER)
    browser.shows(".notice", "Done.")
    assert axe.complaints(browser, script) == []
    wait_until(lambda: len(here.told.ran) == ran + 2, PATIENCE_S, "both commands")
    assert here.told.ran[-1] == ["ann", "groups", "rebalance", "--fresh", "--", "billing"]
    assert [one for one in browser.complaints() if "axe" not in one] == []
