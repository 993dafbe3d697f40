"""Who a reader is: somebody with a token of a file, for whom a session begins, or whom a proxy
names that has asked for a password itself.

The file has a line for each reader, `NAME TOKEN`, and is its user's alone; it is read again each
time, and a session ends when its reader's line is gone or says otherwise, or others may read it.
Tokens are long, so nobody guesses one. A proxy's word counts only on connections from its own
address. Each reader has a word of its own (`reader.proof`) that stands in forms: a page of another
place cannot know it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass

from zkcoord.errors import ConfigurationError

TOKEN_CHARS_MIN = 20
NAME_CHARS_MAX = 100
FILE_BYTES_MAX = 64 * 1024
READERS_MAX = 200
SESSION_MS = 8 * 3_600_000
SESSIONS_MAX = 1_000
SESSIONS_OF_ONE_MAX = 20
"""Of one reader, so that nobody ends those of others."""


@dataclass(frozen=True)
class ActingReader:
    """Somebody who may act. `proof` is told to its own pages alone."""

    name: str
    proof: str


@dataclass(frozen=True)
class ReaderSession:
    """That of a reader who has signed in, until then (ms of the clock)."""

    name: str
    token: str
    until_ms: int


class Readers:
    """See the module. `token_file` ("": none), or `header` (lower case), which `proxies` send (one
    address each). `clock` in ms. Raises `ConfigurationError` for a file that cannot be used.
    """

    def __init__(
        self,
        token_file: str,
        header: str,
        proxies: frozenset[str],
        clock: Callable[[], int],
    ) -> None:
        self._token_file = token_file
        self.header = header
        self._proxies = frozenset(map(plain_address, proxies))
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._sessions: dict[str, ReaderSession] = {}
        if token_file:
            tokens_of(token_file)

    @property
    def has_tokens(self) -> bool:
        """Whether readers sign in here."""
        return bool(self._token_file)

    def sign_in(self, token: str) -> tuple[str, str] | None:
        """Name and session of whose token this is; None: nobody's. Raises `ConfigurationError`."""
        if not self._token_file:
            return None
        found = ""
        for name, one in tokens_of(self._token_file).items():
            if hmac.compare_digest(one.encode(), token.encode("utf-8", "replace")):
                found = name
        if not found:
            return None
        session, now_ms = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            for old in [k for k, one in self._sessions.items() if one.until_ms <= now_ms]:
                del self._sessions[old]
            own = [k for k, one in self._sessions.items() if one.name == found]
            for old in own[: max(0, len(own) + 1 - SESSIONS_OF_ONE_MAX)]:
                del self._sessions[old]
            while len(self._sessions) >= SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[session] = ReaderSession(found, token, now_ms + SESSION_MS)
        return found, session

    def sign_out(self, session: str) -> None:
        """It ends."""
        with self._lock:
            self._sessions.pop(session, None)

    def of_session(self, session: str) -> ActingReader | None:
        """Whose it is, where that may still be. Raises `ConfigurationError`."""
        with self._lock:
            found = self._sessions.get(session)
        if found is None or found.until_ms <= self._clock():
            return None
        if tokens_of(self._token_file).get(found.name) != found.token:
            return None
        return ActingReader(found.name, self._proof(session))

    def of_proxy(self, address: str, names: list[str]) -> ActingReader | None:
        """Whom a proxy at this address names; one that names nobody, or two, names none."""
        if not self.header or not self._is_proxy(address) or len(names) != 1:
            return None
        name = names[0].strip()
        if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
            return None
        return ActingReader(name, self._proof(f"proxy {name}"))

    def _is_proxy(self, address: str) -> bool:
        try:
            return plain_address(address) in self._proxies
        except ValueError:
            return False

    def _proof(self, of: str) -> str:
        return hmac.new(self._secret, of.encode(), hashlib.sha256).hexdigest()


def plain_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """As it is compared: one of IPv4 that a socket of IPv6 tells (::ffff:127.0.0.1) is that of
    IPv4. Raises `ValueError`.
    """
    found = ipaddress.ip_address(text)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


def tokens_of(path: str) -> dict[str, str]:
    """Readers' tokens, by their names. Raises `ConfigurationError`, also for a file that others may
    read or write.
    """
    try:
        data = _private(path)
        text = data.decode("utf-8")
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise ConfigurationError(
            f"the token file {path} cannot be read ({why}): correct --actions-token-file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the token file {path} is not UTF-8: write it anew") from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigurationError(f"the token file {path} is larger than {FILE_BYTES_MAX} bytes")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, token = line.strip().partition(" ")
        token = token.strip()
        if len(token) < TOKEN_CHARS_MIN or not token.isascii() or " " in token:
            raise ConfigurationError(
                f"line {number} of the token file {path} is not NAME TOKEN with a token of"
                f" {TOKEN_CHARS_MIN} characters or more: write NAME and what openssl rand -hex 32"
                " prints"
            )
        if name in found or len(name) > NAME_CHARS_MAX or not name.isprintable():
            raise ConfigurationError(
                f"line {number} of the token file {path} names somebody twice, or by what is no"
                " name: correct it"
            )
        found[name] = token
    if not found or len(found) > READERS_MAX:
        raise ConfigurationError(
            f"the token file {path} has {len(found)} readers: write 1 to {READERS_MAX} lines of"
            " NAME TOKEN"
        )
    return found


def _private(path: str) -> bytes:
    """The file's first bytes. Raises `OSError`; `ConfigurationError` where it is no file (a pipe
    can be read once only), or not its user's alone: what is open is looked at, not what has its
    name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            raise ConfigurationError(
                f"the token file {path} is no file, and is read again each time: write one"
            )
        if seen.st_mode & 0o077:
            raise ConfigurationError(
                f"the token file {path} may be read by others (mode {seen.st_mode & 0o777:o}):"
                " chmod 600 it"
            )
        if seen.st_uid not in (0, os.geteuid()):
            raise ConfigurationError(
                f"the token file {path} is another user's, who can write into it: chown it to who"
                " runs the console"
            )
        return file.read(FILE_BYTES_MAX + 1)
