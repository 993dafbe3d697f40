"""Addresses: pages, files, what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, urljoin

import pytest

from tests.console.http.served import Served, served
from tests.console.pictures import HOSTILE, ToldPages, line, snapshot
from zkcoord.errors import UnavailableError


@pytest.fixture(scope="module")
def here() -> Iterator[Served]:
    lines = [line(name) for name in HOSTILE if "/" not in name]
    groups = [snapshot(one.name, {"m": {"a": [0]}}) for one in lines]
    with served(ToldPages(lines, groups)) as found:
        yield found


def test_each_link_of_the_list_leads_to_its_group(here: Served) -> None:
    _, headers, page = here.ask("/")
    assert headers["content-type"] == "text/html; charset=utf-8"
    links = re.findall(r'href="(group\?[^"]*)"', page)
    assert len(links) == len(here.told.picture.lines)
    for address in links:
        status, _, body = here.ask("/" + address.replace("&amp;", "&"))
        assert status == 200 and "<h1>" in body


@pytest.mark.parametrize(
    "path",
    [
        "/static/../http/web.py", "/static/..%2fpages.py", "/static/%2e%2e/pages.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd", "/static//etc/passwd",
        "/static/..\\pages.py", "/static/%00", "/static/" + "a" * 1_000, "/static/.",
        "/../etc/passwd", "//etc/passwd",
        "/templates/base.html", "/%2e%2e", "/live/..%2f..", "/group%2f", "/%ff%fe", "/overview",
    ],
)  # fmt: skip
def test_no_other_file_is_served(here: Served, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = here.raw(request.encode())
    assert answer.split(b" ", 2)[1] == b"404", answer[:200]
    assert b"import" not in answer and b"root:" not in answer and b"Traceback" not in answer


@pytest.mark.parametrize("base", ["http://h/", "http://h/x/y/"])
@pytest.mark.parametrize("path", ["none", "group/", "a/b/c", "a%2Fb", "a%2Fb/c"])
def test_what_is_not_there_leads_back_and_not_further(here: Served, path: str, base: str) -> None:
    status, _, page = here.ask("/" + path)
    found = re.search(r'<a class="brand" href="([^"]*)"', page)
    style = re.search(r'<link rel="stylesheet" href="([^"]*)"', page)
    assert status == 404 and found is not None and style is not None
    assert urljoin(base + path, found[1]) == base
    assert urljoin(base + path, style[1]) == base + "static/console.css"


def test_what_is_said_twice_counts_once(here: Served) -> None:
    status, _, page = here.ask("/?find=drop&find=nothing&page=%ff&%00=%00")
    assert status == 200 and "1 group" in page


@pytest.mark.parametrize("name", ["\u202e", "a/b", "ids", "", "x" * 300, "\x00", "\x1b[2J"])
def test_names_that_cannot_be(here: Served, name: str) -> None:
    for page in ("group", "rebalance"):
        status, _, body = here.ask(f"/{page}?name={quote(name)}")
        assert status == 404 and "\u202e" not in body and "Not there" in body


def test_what_cannot_be_asked_is_said_on_the_page() -> None:
    told = ToldPages([line("billing")])
    told.asker.error = UnavailableError("no server <answers>")
    with served(told) as here:
        status, _, page = here.ask("/group?name=billing")
        assert status == 200 and "no server &lt;answers&gt;" in page
