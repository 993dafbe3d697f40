"""The hand-over format: what goes in comes out, and no bytes raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkcoord.guardian import handover
from zkcoord.guardian.handover import (
    Forget,
    Handover,
    Inbox,
    MalformedLine,
    Stop,
    TlsOptions,
    Watch,
)

HOSTS = st.one_of(st.just("127.0.0.1"), st.just("::1"), st.from_regex(r"\A[a-z][a-z0-9.-]{0,60}\Z"))
SERVERS = st.lists(st.tuples(HOSTS, st.integers(1, 65535)), min_size=1, max_size=9)
PATHS = st.none() | st.text(min_size=1, max_size=60).filter(lambda text: "\0" not in text)
SESSIONS = st.builds(
    Handover,
    session_id=st.integers(1, 2**64 - 1),
    password=st.binary(min_size=1, max_size=64),
    timeout_ms=st.integers(1, 10**9),
    servers=SERVERS,
    tls=st.none() | st.builds(TlsOptions, PATHS, PATHS, PATHS, PATHS, st.booleans(), st.booleans()),
    report_path=PATHS,
)


def fields(session: Handover) -> tuple[object, ...]:
    return (
        session.session_id,
        session.password,
        session.timeout_ms,
        session.servers,
        session.tls and session.tls.key(),
        session.report_path,
    )


@given(st.integers(0, 10**6), SESSIONS)
def test_a_watch_comes_out_as_it_went_in(key: int, session: Handover) -> None:
    message = handover.parse(handover.encode_watch(key, session).rstrip(b"\n"))
    assert isinstance(message, Watch)
    assert message.key == key
    assert fields(message.handover) == fields(session)


@given(st.binary(max_size=300))
def test_no_line_raises(line: bytes) -> None:
    assert isinstance(handover.parse(line), (Watch, Forget, Stop, MalformedLine))


@given(
    st.lists(
        st.sampled_from(
            [
                "watch",
                "stop",
                "forget",
                "key=1",
                "key=",
                "session=1",
                "session=zz",
                "password=00",
                "password=0",
                "timeout_ms=1",
                "timeout_ms=99999999999",
                "server=a:1",
                "server=a:0",
                "server=:1",
                "tls=",
                "tls=1",
                "tls_ca_file=ff",
                "report=x",
            ]
        )
    )
)
def test_no_mixture_of_words_raises(words: list[str]) -> None:
    assert isinstance(
        handover.parse(" ".join(words).encode()), (Watch, Forget, Stop, MalformedLine)
    )


@pytest.mark.parametrize("said", ["", "1", "2", "111", "no"])
def test_checks_of_tls_that_are_no_two_are_malformed(said: str) -> None:
    """A guardian that serves several processes would end for all of them."""
    session = Handover(1, b"p", 1000, [("h", 1)], TlsOptions())
    line = handover.encode_watch(1, session).rstrip(b"\n")
    assert line.count(b" tls=11") == 1
    assert isinstance(handover.parse(line), Watch)
    wrong = line.replace(b" tls=11", f" tls={said}".encode())
    assert isinstance(handover.parse(wrong), MalformedLine)


@given(SESSIONS, st.lists(st.integers(1, 200), max_size=30))
def test_pieces_make_the_same_as_the_whole(session: Handover, sizes: list[int]) -> None:
    stream = (
        handover.encode_watch(1, session)
        + handover.encode_watch(2, session)
        + handover.encode_forget(1)
        + b"what?\n"
    )
    inbox, new = Inbox(), []
    for size in [*sizes, len(stream)]:
        new += inbox.feed(stream[:size])
        stream = stream[size:]
    assert len(new) == 2
    assert list(inbox.sessions) == [2]
    assert fields(inbox.sessions[2]) == fields(session)
    assert inbox.malformed == 1


def test_a_session_id_that_kazoo_gives_as_negative() -> None:
    message = handover.parse(handover.encode_watch(1, Handover(-5, b"p", 1000, [("h", 1)])))
    assert isinstance(message, Watch)
    assert message.handover.session_id == 2**64 - 5


def test_a_message_fits_the_pipe_and_keeps_the_first_servers() -> None:
    servers = [(f"zookeeper-{number}.example.org", 2181) for number in range(500)]
    line = handover.encode_watch(1, Handover(1, b"p" * 16, 1000, servers))
    assert len(line) <= handover.MESSAGE_BYTES_MAX
    message = handover.parse(line)
    assert isinstance(message, Watch)
    assert message.handover.servers == servers[: len(message.handover.servers)] != []


def test_the_last_watch_of_a_key_counts_and_stop_is_remembered() -> None:
    inbox = Inbox()
    inbox.feed(
        handover.encode_watch(7, Handover(1, b"p", 1000, [("h", 1)]))
        + handover.encode_watch(7, Handover(2, b"p", 1000, [("h", 1)]))
    )
    assert [session.session_id for session in inbox.sessions.values()] == [2]
    inbox.feed(handover.encode_stop())
    assert inbox.stopped


def test_sessions_and_unended_lines_have_a_limit() -> None:
    inbox = Inbox()
    for key in range(handover.SESSIONS_MAX + 5):
        inbox.feed(handover.encode_watch(key, Handover(1, b"p", 1000, [("h", 1)])))
    assert len(inbox.sessions) == handover.SESSIONS_MAX
    inbox.feed(b"x" * (handover.INBOX_BYTES_MAX + 1))
    assert inbox.malformed == 1
    inbox.feed(handover.encode_forget(0))
    assert 0 not in inbox.sessions


def test_no_password_in_what_ends_in_a_log() -> None:
    session = Handover(
        1, b"secret-password!", 1000, [("h", 1)], TlsOptions(key_password="tell-nobody")
    )
    shown = repr(session) + repr(session.tls)
    assert "secret" not in shown
    assert b"secret-password!".hex() not in shown
    assert "tell-nobody" not in shown
