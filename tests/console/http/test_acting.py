"""Addresses at which readers act: who may, from where, and what is done, once. The commands are
told, not run; `tests/console/test_acting.py` runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.console.http.acting_here import COOKIE, EVIL, FORM, TOKEN, Here, field
from tests.console.http.served import PATIENCE_S, rest, served
from tests.console.pictures import ToldPages, line, snapshot
from tests.harness.wait import wait_until
from zkcoord.console.acting.desk import TICKET_MS
from zkcoord.console.acting.running import BusyError, CommandResult
from zkcoord.console.http import acting as module
from zkcoord.console.http.serving import CONNECTIONS_MAX


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    found = Here(tmp_path)
    pages = ToldPages([line("billing")], [snapshot("billing", {"m": {"a": [0]}})], may_act=True)
    with served(pages, acting=found.acting) as found.served:
        yield found


def test_what_is_shown_first_is_done_once(here: Here) -> None:
    here.sign_in()
    page = here.look(fresh="on")
    assert here.told.ran == [["ann", "groups", "describe", "--", "billing"]]
    assert "zkcoord groups rebalance --fresh -- billing" in page
    assert EVIL not in page and "&lt;script&gt;" in page
    said = {"do": "rebalance", "name": "billing", "proof": field(page, "proof")}
    said["ticket"] = field(page, "ticket")
    page = here.post("/act", said)[2]
    assert here.told.ran[1:] == [["ann", "groups", "rebalance", "--fresh", "--", "billing"]]
    assert "Done." in page and not field(page, "ticket")
    page = here.post("/act", said)[2]
    assert "done already" in page and len(here.told.ran) == 2
    signed, begins, ended = here.told_of()
    assert signed["what"] == "signed in" and signed["who"] == "ann"
    assert begins["what"] == "begins" and begins["who"] == "ann" and begins["group"] == "billing"
    assert begins["command"] == "zkcoord groups rebalance --fresh -- billing"
    assert ended["what"] == "ended" and ended["status"] == 0 and ended["ticket"] == begins["ticket"]


def test_what_is_done_is_what_was_shown(here: Here) -> None:
    """Whatever else the second form says."""
    here.sign_in()
    page = here.look()
    ticket = field(page, "ticket")
    here.look(ticket=ticket, name="other", do="delete", fresh="on")
    assert here.told.ran[-1] == ["ann", "groups", "rebalance", "--", "billing"]


def test_what_is_written_down_is_what_was_done(here: Here) -> None:
    here.sign_in()
    ticket = field(here.look(), "ticket")
    page = here.look(ticket=ticket, name="other", do="delete")
    assert "Rebalance" in page and "other" not in page
    for one in here.told_of()[-2:]:
        assert (one["action"], one["group"]) == ("rebalance", "billing")


def test_what_was_shown_long_ago_is_to_be_looked_at_again(here: Here) -> None:
    here.sign_in()
    ticket = field(here.look(), "ticket")
    here.clock.more_ms = TICKET_MS
    assert "too long ago" in here.look(ticket=ticket)
    assert [one[2] for one in here.told.ran] == ["describe"]


def test_the_group_links_to_them_and_an_action_leads_by_the_sign_in(here: Here) -> None:
    page = here.get("/group?name=billing")[2]
    assert 'href="act?do=rebalance&amp;name=billing"' in page
    assert 'href="act?do=step-down"' in here.get("/coordinator")[2]
    status, headers, _ = here.get("/act?do=reset&name=billing")
    assert (status, headers["location"]) == (303, "sign-in?do=reset&name=billing")
    page = here.get(f"/{headers['location']}")[2]
    assert 'type="password"' in page and field(page, "do") == "reset"
    status, headers, _ = here.post(
        "/sign-in", {"token": TOKEN, "do": "reset", "name": "billing", "next": "//evil"}
    )
    assert (status, headers["location"]) == (303, "act?do=reset&name=billing")
    said = headers["set-cookie"].lower()
    assert "httponly" in said and "samesite=strict" in said and "path" not in said
    assert "secure" not in said
    assert (
        "secure"
        in here.post("/sign-in", {"token": TOKEN}, X_Forwarded_Proto="https")[1][
            "set-cookie"
        ].lower()
    )


def test_without_a_token_nothing_is_done(here: Here) -> None:
    for said in ({}, {"ticket": "x"}, {"proof": ""}):
        status, headers, _ = here.post("/act", {"do": "rebalance", "name": "billing", **said})
        assert status == 303 and headers["location"].startswith("sign-in")
    status, headers, page = here.post("/sign-in", {"token": "wrong"})
    assert status == 403 and "nobody" in page and "set-cookie" not in headers
    here.cookie = f"{COOKIE}=nothing"
    assert here.post("/act", {"do": "rebalance", "name": "billing"})[0] == 303
    assert here.told.ran == [] and here.told_of()[0]["what"] == "refused"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_a_form_of_another_place_is_refused(here: Here, headers: dict[str, str]) -> None:
    here.sign_in()
    said = {"do": "rebalance", "name": "billing", "proof": here.proof()}
    assert here.post("/act", said, **headers)[0] == 403
    assert here.post("/sign-in", {"token": TOKEN}, **headers)[0] == 403
    assert here.post("/sign-out", {"proof": said["proof"]}, **headers)[0] == 403
    assert here.told.ran == []
    assert here.post("/act", said, Origin=f"http://127.0.0.1:{here.served.port}")[0] == 200


def test_a_browser_knows_the_proxys_name_and_we_our_own(here: Here) -> None:
    """As with the nginx of docs/console.md, which sends our address as Host."""
    at = {"Origin": "https://zk.example", "Sec_Fetch_Site": "same-origin"}
    status, headers, _ = here.post("/sign-in", {"token": TOKEN}, **at)
    assert status == 303
    here.cookie = headers["set-cookie"].split(";")[0]
    said = {"do": "rebalance", "name": "billing", "proof": here.proof()}
    assert here.post("/act", said, **at)[0] == 200
    assert here.post("/act", said, Origin="https://zk.example")[0] == 403


@pytest.mark.parametrize(
    "head",
    ["Origin: null", "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site",
     "Origin: http://a\r\nOrigin: http://b", "Origin: //[", "Sec-Fetch-Site: ", "Origin: "],
)  # fmt: skip
def test_who_names_no_host_comes_from_nowhere(here: Here, head: str) -> None:
    form = f"token={TOKEN}"
    said = f"POST /sign-in HTTP/1.0\r\n{head}\r\nContent-Type: {FORM}\r\n"
    said += f"Content-Length: {len(form)}\r\n\r\n{form}"
    assert here.served.raw(said.encode()).split(b" ", 2)[1] == b"403"


@pytest.mark.parametrize("proof", ["", "x", "\u00fc", None])
def test_a_form_without_its_readers_word_is_refused(here: Here, proof: str | None) -> None:
    here.sign_in()
    said = {"do": "rebalance", "name": "billing"} | ({} if proof is None else {"proof": proof})
    assert here.post("/act", said)[0] == 403
    assert here.post("/sign-out", said)[0] == 403
    assert here.told.ran == []


def test_anothers_ticket_is_worth_nothing(here: Here) -> None:
    here.sign_in()
    ticket = field(here.look(), "ticket")
    here.sign_in()  # another session
    assert "done already" in here.look(ticket=ticket)
    assert len(here.told.ran) == 1


def test_a_session_can_be_ended(here: Here) -> None:
    here.sign_in()
    status, headers, _ = here.post("/sign-out", {"proof": here.proof()})
    assert (status, headers["location"]) == (303, ".")
    assert here.get("/act?do=rebalance&name=billing")[0] == 303


def test_who_is_struck_off_is_out_and_a_broken_file_lets_nobody_in(here: Here) -> None:
    here.sign_in()
    proof = here.proof()
    here.path.write_text("ann\n")
    status, _, page = here.post("/act", {"do": "rebalance", "name": "billing", "proof": proof})
    assert status == 503 and "line 1 of the token file" in page
    here.path.write_text(f"bob {'b' * 32}\n")
    assert here.post("/act", {"do": "rebalance", "name": "billing", "proof": proof})[0] == 303
    assert here.told.ran == []


@pytest.mark.parametrize(
    "query",
    [
        "",
        "do=rebalance",
        "do=rebalance&name=a/b",
        "do=rebalance&name=%00",
        "do=nothing&name=billing",
        "do=step-down&name=billing",
        f"do={'x' * 500}&name=billing",
    ],
)
def test_there_is_no_such_action(here: Here, query: str) -> None:
    here.sign_in()
    status, _, page = here.get(f"/act?{query}")
    assert status == 404 and "no such action" in page


def test_what_fails_is_said_and_not_offered(here: Here) -> None:
    here.sign_in()
    here.told.result = CommandResult(1, "zkcoord groups: nobody leads\n")
    page = here.look()
    assert "nobody leads" in page and not field(page, "ticket")
    here.told.result = CommandResult(None, "")
    assert "too long" in here.look()
    here.told.error = BusyError("others are under way")
    assert "others are under way" in here.look()
    here.told.error = OSError(12, "Cannot allocate memory")
    assert "Cannot allocate memory" in here.look()
    page = here.look(do="reset", to="offset")
    assert "the value of offset is missing" in page and field(page, "proof")
    here.told.error, here.told.result = None, CommandResult(0, "")
    page = here.look()
    here.told.result = CommandResult(1, "a\nzkcoord groups: it was not taken up\n")
    page = here.look(ticket=field(page, "ticket"))
    assert "it was not taken up" in page and "Done." not in page
    assert here.told_of()[-1]["status"] == 1


def test_what_cannot_be_written_down_is_not_done(here: Here) -> None:
    here.sign_in()
    ticket = field(here.look(), "ticket")
    here.audit.close()
    page = here.look(ticket=ticket)
    assert "cannot be written" in page and "Done." not in page
    assert [one[2] for one in here.told.ran] == ["describe"]


def test_forms_are_bounded(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.sign_in()
    said = {"do": "rebalance", "name": "billing", "proof": here.proof()}
    assert here.post("/act", said | {"x": "x" * 20_000})[0] == 400
    assert here.post("/act", said | {f"x{number}": "" for number in range(60)})[0] == 400
    assert here.post("/act", said, Content_Type="application/json")[0] == 400
    assert here.post("/act", said, Content_Type="multipart/form-data; boundary=x")[0] == 400
    monkeypatch.setattr(module, "BODY_S", 0.2)
    slow = f"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM}\r\n"
    slow += f"Cookie: {here.cookie}\r\nContent-Length: 100\r\nConnection: close\r\n\r\ndo="
    with here.served.connect() as client:
        client.sendall(slow.encode())
        assert rest(client).startswith(b"HTTP/1.1 400 ")
    assert here.told.ran == []


def test_slow_forms_keep_no_reader_out(here: Here) -> None:
    here.sign_in()
    slow = f"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM}\r\n"
    slow += "Content-Length: 100\r\nConnection: close\r\n\r\ndo="
    with ExitStack() as stack:
        strangers = []
        for _ in range(CONNECTIONS_MAX + 88):
            strangers.append(stack.enter_context(here.served.connect()))
            strangers[-1].sendall(slow.encode())

        def reads() -> bool:
            try:
                return here.get("/")[0] == 200 and bool(field(here.look(), "ticket"))
            except ConnectionError:  # a busy machine has not yet told the first of them to go
                return False

        wait_until(reads, PATIENCE_S, "the page, and that a form that comes at once is taken")
        assert rest(strangers[0]).startswith(b"HTTP/1.1 400 "), "who was slow longest has gone"


@pytest.mark.parametrize("path", ["/", "/group", "/live/overview", "/static/console.css", "/acts"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_addresses_take_none(here: Here, path: str, method: str) -> None:
    assert here.served.ask(path, method)[0] == 405
    assert here.served.ask("/act", "PUT")[0] == 405


def test_where_nobody_may_act_there_is_nothing_of_it() -> None:
    with served(ToldPages([line("billing")])) as plain:
        for path in ("/act?do=rebalance&name=billing", "/sign-in", "/sign-out"):
            assert plain.ask(path)[0] == 404
            assert plain.ask(path, "POST", "x=y", Content_Type=FORM)[0] == 405


def test_whom_the_proxy_names(tmp_path: Path) -> None:
    found = Here(tmp_path, header="x-forwarded-user")
    with served(ToldPages([line("billing")], may_act=True), acting=found.acting) as found.served:
        status, _, page = found.get("/act?do=rebalance&name=billing")
        assert status == 403 and "the proxy in front" in page
        assert found.get("/sign-in")[0] == 404
        page = found.get("/act?do=rebalance&name=billing", X_Forwarded_User="carol")[2]
        assert "You are carol" in page and "Sign out" not in page
        said = {"do": "rebalance", "name": "billing", "proof": field(page, "proof")}
        assert found.post("/act", said, X_Forwarded_User="dave")[0] == 403
        assert found.post("/act", said, X_Forwarded_User="carol")[0] == 200
        assert found.told.ran == [["carol", "groups", "describe", "--", "billing"]]
