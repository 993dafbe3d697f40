"""What open pages of the console cost a coordinator, and how soon a browser shows what happens.

    python -m tests.bench.console [--quick] [--part joins|browser]

A real ZooKeeper with 10,000 groups, the coordinator's own program with `--console`, and members
that are the consumer's own driver (without Kafka). `joins`: joins of healthy groups in blocks, in
turn without and beside 20 open pages (10 of the list, 10 of groups). `browser`: a real Chromium
(where there is none, it says so, and the status is 4): the weight of the list and of a group's
page, from the request until the list can be used, how long an update takes in the page, and from
the end of a rebalance until its mark is in the open page of its group. Prints tables with the bars
beside the figures, writes build/reports/bench-console.json. 0: every bar is reached.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.figures import Bar, Row, Section
from tests.bench.hostile import WAIT_S, Coordinator, Healthy, healthy_topics
from tests.bench.running import Part, conclude, measure_all, measured_in_a_folder, report_named, say
from tests.bench.scale_rig import Rig
from tests.bench.scale_world import spread_evenly
from zkcoord.coordinator.journal import journal_files
from zkcoord.zk.clock import wall_ms

GROUPS, QUICK_GROUPS = 10_000, 500
PAGES = 20
BLOCKS, QUICK_BLOCKS, JOINS = 8, 2, 20
LOOKS, QUICK_LOOKS = 10, 3
SETTLE_S = 5.0
MORE_MAX = 1.10
BYTES_MAX = 200 * 1024
PARTS = ("joins", "browser")
NO_BROWSER = 4
MARKS = """
window.marks = [];
const part = document.getElementById('part-events');
new MutationObserver(() => window.marks.push([Date.now(), part.textContent]))
  .observe(part, {childList: true, subtree: true, characterData: true});
return 0;
"""
LONG = """
window.tasks = [];
new PerformanceObserver((list) => list.getEntries().forEach((e) => window.tasks.push(e.duration)))
  .observe({type: 'longtask', buffered: true});
return 0;
"""


@dataclass(frozen=True)
class Plan:
    """What to do."""

    only: tuple[str, ...] = PARTS
    groups: int = GROUPS
    blocks: int = BLOCKS
    looks: int = LOOKS


class Beside:
    """A coordinator with its console, among many groups."""

    def __init__(self, rig: Rig, plan: Plan, name: str) -> None:
        self.rig = rig
        self.plan = plan
        self.name = name

    @contextmanager
    def running(self) -> Iterator[tuple[Healthy, Coordinator, int]]:
        """Healthy groups, the coordinator, and the console's port."""
        with self.rig.hub() as (hub, seeder):
            seeder.topic("seeded", 1)
            seeder.groups(
                [
                    spread_evenly(f"seeded-{number:05d}", 1, "seeded", 1)
                    for number in range(self.plan.groups)
                ]
            )
            coordinator = Coordinator(
                self.rig.hosts(hub),
                self.rig.folder / f"coordinator-{self.name}",
                *("--console", "--console-listen", "127.0.0.1:0"),
            )
            try:
                hub.run_until(lambda: "ready" in coordinator.terms(), WAIT_S, "one that leads")
                hub.run_until(lambda: console_port(coordinator), WAIT_S, "a console")
                healthy = Healthy(hub, seeder)
                port = console_port(coordinator)
                hub.run_until(
                    lambda: (
                        f"{self.plan.groups + len(healthy_topics()):,} groups" in page(port)
                        or f"{self.plan.groups + len(healthy_topics())} groups" in page(port)
                    ),
                    WAIT_S,
                    "all groups on its page",
                )
                yield healthy, coordinator, port
            finally:
                coordinator.end()


def console_port(coordinator: Coordinator) -> int:
    """Where its console serves; 0 as long as it does not."""
    said = coordinator.log_path.read_text()
    found = re.search(r"zkcoord console: http://127\.0\.0\.1:(\d+)/", said)
    return int(found[1]) if found else 0


def page(port: int, path: str = "/") -> str:
    """A page's text; "" where there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as got:
            return str(got.read().decode())
    except OSError:
        return ""


@contextmanager
def open_pages(port: int) -> Iterator[None]:
    """So many, half of them the list, half groups."""
    groups = [f"/live/group?name=healthy-{number:03d}" for number in range(PAGES // 2)]
    paths = ["/live/overview"] * (PAGES - len(groups)) + groups
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.console_pages", str(port), *paths],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        yield
    finally:
        process.kill()
        process.wait()


def joins(rig: Rig, plan: Plan, sections: list[Section]) -> None:
    """Blocks of joins, in turn without and beside open pages."""
    section = Section("joins", f"Joins beside {PAGES} open pages and {plan.groups:,} groups")
    sections.append(section)
    alone, beside = Row("a join, no page open", "members", []), Row("beside", "members", [])
    more = Row("p95 beside by p95 alone", "", [], (Bar("max", MORE_MAX),), "x")
    section.rows += [alone, beside, more]
    with Beside(rig, plan, "joins").running() as (healthy, coordinator, port):
        healthy.joins(JOINS)
        for number in range(plan.blocks):
            for is_beside in (False, True) if number % 2 else (True, False):
                if is_beside:
                    with open_pages(port):
                        healthy.hub.run_for(SETTLE_S)
                        beside.values += healthy.joins(JOINS)
                else:
                    healthy.hub.run_for(SETTLE_S)
                    alone.values += healthy.joins(JOINS)
            say(f"  joins: block {number + 1} of {plan.blocks}")
        terms = coordinator.terms()
    more.values.append(p95(beside.values) / p95(alone.values))
    section.rows.append(
        Row("terms begun", "journal", [terms.count("elected")], (Bar("max", 1),), "terms")
    )


def p95(values: Sequence[float]) -> float:
    """As the tables have it."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


def browser(rig: Rig, plan: Plan, sections: list[Section]) -> None:
    """What a real browser shows, and when."""
    from tests.console.browser import Browser

    section = Section("browser", f"In Chromium, with {plan.groups:,} groups")
    sections.append(section)
    rows = {
        "list": Row("the list", "bytes", [], (Bar("max", BYTES_MAX),), "B"),
        "group": Row("a group's page", "bytes", [], (Bar("max", BYTES_MAX),), "B"),
        "usable": Row("request to usable", "browser", [], (Bar("max", 1_000),)),
        "update": Row("longest task of an update", "browser", [], (Bar("max", 100),)),
        "mark": Row("rebalance's end to its mark", "browser", [], (Bar("max", 1_000),)),
    }
    section.rows += rows.values()
    with Beside(rig, plan, "browser").running() as (healthy, coordinator, port):
        seen = Browser()
        try:
            _look(seen, healthy, coordinator, port, plan.looks, rows)
        finally:
            seen.driver.quit()


def _look(
    seen: Any,
    healthy: Healthy,
    coordinator: Coordinator,
    port: int,
    looks: int,
    rows: dict[str, Row],
) -> None:
    timing = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    for _ in range(looks):
        seen.open(f"http://127.0.0.1:{port}/")
        healthy.hub.run_until(lambda: seen.js(timing) > 0, WAIT_S, "the list")
        rows["usable"].values.append(seen.js(timing))
        rows["list"].values.append(len(page(port).encode()))
    for number in range(looks):
        group = f"healthy-{number:03d}"
        seen.open(f"http://127.0.0.1:{port}/group?name={group}")
        seen.driver.execute_script(LONG)
        seen.driver.execute_script(MARKS)
        seen.shows("#connection", "live")
        healthy.turn, since_ms = number - 1, wall_ms()
        healthy.joins(1)
        ended = partial(rebalance_since, coordinator, group, since_ms)
        healthy.hub.run_until(ended, WAIT_S, "the end of its rebalance")
        at_ms, generation = ended() or (0, 0)
        text = f"rebalance {generation}"
        healthy.hub.run_until(lambda text=text: shown_at(seen, text), WAIT_S, "its mark")
        rows["mark"].values.append(max(0.0, shown_at(seen, text) - at_ms))
        rows["update"].values.append(max([0.0, *seen.js("window.tasks")]))
        rows["group"].values.append(len(page(port, f"/group?name={group}").encode()))


def shown_at(seen: Any, text: str) -> float:
    """When the page first had it (ms since 1970); 0: it has not yet."""
    return next((at_ms for at_ms, shown in seen.js("window.marks") if text in shown), 0.0)


def rebalance_since(coordinator: Coordinator, group: str, since_ms: int) -> tuple[int, int] | None:
    """When the first one of a group ended that ended since then (ms), and its generation; None:
    none has. (Those before have their marks already: how long ago they were says nothing.)
    """
    for path in journal_files(coordinator.journal):
        for line in path.read_text().split("\n")[:-1]:
            record = json.loads(line)
            if (
                record["kind"] == "rebalance"
                and record["group"] == group
                and record["t"] >= since_ms
            ):
                return record["t"], record["generation"]
    return None


def run(plan: Plan, folder: Path, report: Path) -> int:
    """Measure, print, write; the exit status."""
    from tests.console.browser import MISSING

    rig = Rig(folder, say)
    measures = {"joins": joins, "browser": browser}

    def served(name: str) -> Part:
        def within(sections: list[Section]) -> None:
            with rig.running():
                measures[name](rig, plan, sections)

        return within

    wanted = [name for name in plan.only if name != "browser" or not MISSING]
    sections = measure_all({name: served(name) for name in PARTS}, wanted)
    status = conclude(sections, asdict(plan), str(rig.java.major), report, "bench-console")
    if len(wanted) < len(plan.only):
        say(f"no browser to look with: {', '.join(MISSING)} missing")
        return status or NO_BROWSER
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.console", description="What open pages cost, and show."
    )
    parser.add_argument("--quick", action="store_true", help="fewer groups, fewer joins")
    parser.add_argument("--part", choices=PARTS, help="only this part")
    args = parser.parse_args(arguments)
    only = (args.part,) if args.part else PARTS
    plan = Plan(only, QUICK_GROUPS, QUICK_BLOCKS, QUICK_LOOKS) if args.quick else Plan(only)
    return measured_in_a_folder(
        lambda folder: run(plan, folder, report_named("bench-console", only, PARTS))
    )


if __name__ == "__main__":
    raise SystemExit(main())
