"""What open pages are told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.console.http import served as harness
from tests.console.http.served import PATIENCE_S, Served, Stream, counting_pages, served
from tests.console.pictures import ToldPages, line, snapshot
from tests.harness.wait import wait_until
from zkcoord.console.http import live, web

READERS = 20


@pytest.fixture
def here() -> Iterator[Served]:
    told = ToldPages()
    with served(told, counting_pages(told)) as found:
        yield found


def say(here: Served, text: str) -> None:
    """Something is new, on this thread, which is not the loop's."""
    here.addresses._pages.text = text  # type: ignore[attr-defined]
    here.newsroom.tell()


def test_only_parts_that_changed_are_sent(here: Served) -> None:
    with Stream(here.port, "/live/overview") as stream:
        kind = stream.answer.headers
        assert kind["Content-Type"].startswith("text/event-stream")
        assert kind["X-Accel-Buffering"] == "no" and "no-store" in kind["Cache-Control"]
        assert stream.next() == {"n": "0", "same": "always"}
        here.newsroom.tell()  # of nothing that is on this page
        say(here, "1")
        assert stream.next() == {"n": "1"}


def test_one_rendering_for_many_readers(here: Served) -> None:
    pages = here.addresses._pages
    with ExitStack() as stack:
        streams = [stack.enter_context(Stream(here.port, "/live/overview")) for _ in range(READERS)]
        assert all(stream.next() for stream in streams)
        before = pages.rendered  # type: ignore[attr-defined]
        say(here, "1")
        assert all(stream.next() == {"n": "1"} for stream in streams)
        # those that an idle page has by and by may come between
        assert pages.rendered - before < READERS / 2  # type: ignore[attr-defined]


def test_news_on_many_threads_lose_nothing(here: Served) -> None:
    with Stream(here.port, "/live/overview") as stream:
        stream.next()
        threads = [threading.Thread(target=here.newsroom.tell) for _ in range(50)]
        for thread in threads:
            thread.start()
        say(here, "last")
        for thread in threads:
            thread.join(PATIENCE_S)
        assert stream.next() == {"n": "last"} and here.newsroom.number == 51


def test_how_old_a_page_is_changes_without_news(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "COMMENT_S", 0.05)
    monkeypatch.setattr(live, "FRESH_S", 0.01)
    with Stream(here.port, "/live/overview") as stream:
        stream.next()
        here.addresses._pages.text = "older"  # type: ignore[attr-defined]
        assert stream.next() == {"n": "older"}


def test_streams_end_when_they_are_told_to(here: Served) -> None:
    with Stream(here.port, "/live/overview") as one, Stream(here.port, "/live/group?name=x") as two:
        assert one.next() and two.next()
        here.addresses.end()
        assert one.next() is None and two.next() is None
    wait_until(lambda: here.addresses._open == 0, PATIENCE_S, "that nobody is counted")


def test_a_reader_that_went_is_not_counted(here: Served) -> None:
    with Stream(here.port, "/live/overview") as stream:
        stream.next()
        assert here.addresses._open == 1

    def is_gone() -> bool:
        here.newsroom.tell()
        return here.addresses._open == 0

    wait_until(is_gone, PATIENCE_S, "the reader's end")


def test_there_is_a_limit_of_open_pages(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "OPEN_PAGES_MAX", 1)
    with Stream(here.port, "/live/overview") as stream:
        stream.next()
        assert here.ask("/live/overview")[0] == 503 and here.ask("/")[0] == 200


def test_head_opens_no_stream(here: Served) -> None:
    status, headers, body = here.ask("/live/overview", "HEAD")
    assert (status, body) == (200, "") and headers["content-type"].startswith("text/event-stream")


def test_a_real_page_and_its_end() -> None:
    told = ToldPages([line("billing")], [snapshot("billing", {"m": {"a": [0]}})])
    with served(told) as here, Stream(here.port, "/live/group?name=billing") as stream:
        first = stream.next()
        assert first and set(first) == {
            "notice", "status", "trouble", "head", "chart", "partitions", "members", "events",
        }  # fmt: skip
        told.asker.groups = {"billing": snapshot("billing", {"m2": {"a": [0]}})}
        here.newsroom.tell()
        news = stream.next()
        assert news and "m2" in news["partitions"] and "head" not in news
        told.asker.groups, told.picture = {}, type(told.picture)()
        here.newsroom.tell()
        gone = stream.next()
        assert gone and gone["notice"] == "there is no group billing"


def test_a_page_that_is_not_there_may_come() -> None:
    told = ToldPages()
    with served(told) as here, Stream(here.port, "/live/group?name=new") as stream:
        assert stream.next() == {"notice": "there is no group new"}
        told.asker.groups["new"] = snapshot("new", {"m": {"a": [0]}})
        here.newsroom.tell()
        news = stream.next()
        assert news and news["notice"] == "" and "head" in news


def test_waiting_without_a_loop_loses_nothing() -> None:
    room = live.Newsroom()
    room.tell()
    assert room.number == 1, "before it is open"
    assert harness.PATIENCE_S > live.COMMENT_S > live.FRESH_S


def test_a_page_of_one_group_has_its_own_news(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happens to others renders it not at all; a look at all groups does."""
    monkeypatch.setattr(live, "COMMENT_S", 3_600)
    pages = here.addresses._pages
    with (
        Stream(here.port, "/live/group?name=x") as stream,
        Stream(here.port, "/live/overview") as other,
    ):
        assert stream.next() and other.next()
        rendered = pages.rendered  # type: ignore[attr-defined]
        pages.text = "1"  # type: ignore[attr-defined]
        here.newsroom.tell(frozenset({"y"}))
        assert other.next() == {"n": "1"}
        assert pages.rendered == rendered + 1  # type: ignore[attr-defined]
        pages.text = "2"  # type: ignore[attr-defined]
        here.newsroom.tell(frozenset({"x", "y"}))
        assert stream.next() == {"n": "2"} == other.next()
        say(here, "3")
        assert stream.next() == {"n": "3"} == other.next()


def test_of_more_groups_than_are_kept_all_have_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SUBJECTS_MAX", 2)
    room = live.Newsroom()
    room.tell(frozenset({"a"}))
    assert [room.number_of(one) for one in ("a", "b", None)] == [1, 0, 1]
    room.tell(frozenset({"b"}))
    room.tell(frozenset({"c"}))
    assert [room.number_of(one) for one in ("a", "b", "c", "d")] == [1, 2, 3, 1]
    room.tell()
    assert {room.number_of(one) for one in ("a", "b", "c", "d", None)} == {4}


def test_a_page_takes_a_part_of_the_time() -> None:
    """However often it is asked for."""
    took: list[float] = []

    def render() -> dict[str, str]:
        began = time.monotonic()
        while time.monotonic() - began < 0.01:
            pass
        return {}

    async def look() -> None:
        room = live.Newsroom()
        room.open()
        clock = asyncio.get_running_loop().time
        began = clock()
        await room.rest("page")
        await room.parts("page", render, None)
        rendered = room._rendered["page"]
        await room.rest("page")
        took.extend((clock() - began, rendered.took))

    asyncio.run(look())
    assert took[0] >= min(live.WORK_PART * took[1], live.REST_S_MAX) and took[1] >= 0.01
