"""Nobody stays who does not log in where brokers demand it, and until then nobody sends much."""

from __future__ import annotations

import asyncio
import struct

import pytest

from consumer.gateway.frames import SASL_AUTHENTICATE, SASL_HANDSHAKE
from consumer.gateway.relay import login
from consumer.gateway.relay.login import LOGIN_BYTES_MAX
from tests.consumer.gateway.relay.scenes import (
    FETCH,
    WAIT_S,
    Relay,
    Sides,
    frame_of,
    request,
    stage,
)

OK, FAILED = 0, 58


def outcome(code: int, token: bytes, version: int = 0) -> bytes:
    """A SaslAuthenticate whose answer by the echoing broker says this."""
    if version < 2:
        body = struct.pack(">hhi", code, -1, len(token)) + token
        body += struct.pack(">q", 0) if version == 1 else b""
    else:
        body = b"\0" + struct.pack(">hbb", code, 0, len(token) + 1) + token
        body += struct.pack(">q", 0) + b"\0"
    return request(SASL_AUTHENTICATE, 1, body, version)


def stays(
    monkeypatch: pytest.MonkeyPatch, *sent: bytes, demands: bool = True, limit_s: float = -1.0
) -> bool:
    """Whether a client that has sent these is still served when its time is over."""
    monkeypatch.setattr(login, "LOGIN_S", limit_s)

    async def run() -> bool:
        _, relay = await stage(Sides.NONE)
        relay.demands_login = demands
        return await asyncio.wait_for(_stays(relay, sent), WAIT_S)

    return asyncio.run(run())


async def _stays(relay: Relay, sent: tuple[bytes, ...]) -> bool:
    reader, writer = await relay.client()
    try:
        for data in sent:
            writer.write(data)
            await frame_of(reader)
        while relay.accepted == 0:
            await asyncio.sleep(0)
        relay.connection.drop_if_slow()
        writer.write(request(FETCH, 9))
        return (await frame_of(reader))[0] == 9
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    finally:
        writer.close()


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("answers", "known"),
    [
        ([(OK, b"")], True),  # PLAIN, OAUTHBEARER
        ([(OK, b"r=abc,s=abc,i=4096"), (OK, b"v=abc")], True),  # SCRAM
        ([(OK, b"r=abc,s=abc,i=4096")], False),
        ([(OK, b"r=abc,s=abc,i=4096"), (FAILED, b"")], False),
        ([(FAILED, b"")], False),
        ([(OK, b'{"status":"invalid_token"}')], False),  # OAUTHBEARER, before its error
        ([(OK, b"\x60\x81")], True),  # what nobody here reads: GSSAPI
        ([], False),
    ],
)
def test_who_is_known_by_its_broker_stays(
    monkeypatch: pytest.MonkeyPatch, version: int, answers: list[tuple[int, bytes]], known: bool
) -> None:
    first = request(FETCH, 5)  # the time is not that of a first request
    sent = [outcome(code, token, version) for code, token in answers]
    assert stays(monkeypatch, first, *sent) == known


def test_who_has_time_left_or_needs_no_login_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stays(monkeypatch, request(FETCH, 5), limit_s=login.LOGIN_S)
    assert stays(monkeypatch, request(FETCH, 5), demands=False)


def test_an_answer_that_cannot_be_read_passes_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not stays(monkeypatch, request(SASL_AUTHENTICATE, 1, b"\0"))


def test_who_is_not_known_yet_sends_no_large_request(monkeypatch: pytest.MonkeyPatch) -> None:
    large = request(FETCH, 5, bytes(LOGIN_BYTES_MAX))
    time = login.LOGIN_S
    assert not stays(monkeypatch, large, limit_s=time)
    assert stays(monkeypatch, request(FETCH, 5, bytes(LOGIN_BYTES_MAX - 100)), limit_s=time)
    assert stays(monkeypatch, outcome(OK, b""), large, limit_s=time)
    assert stays(monkeypatch, large, demands=False)


@pytest.mark.parametrize(("version", "is_closed"), [(0, True), (1, False)])
def test_tokens_that_are_no_requests_do_not_come(version: int, is_closed: bool) -> None:
    """Behind the first version of SaslHandshake: some have no answer, so that answers to later
    requests would be taken for one another's.
    """

    async def run() -> None:
        broker, relay = await stage(Sides.NONE)
        reader, writer = await relay.client()
        writer.write(request(SASL_HANDSHAKE, 1, b"", version))
        if is_closed:
            assert await reader.read() == b"" and broker.got == []
        else:
            assert await frame_of(reader) == (1, b"")
        writer.close()

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
