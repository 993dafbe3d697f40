"""The hand-over: what a guarded process tells its guardian, one line per message.

A message is one line of ASCII: a verb, then `name=value` words. Values that may hold any byte
(passwords, paths) are hexadecimal.

    watch key=1 session=100012ab0000003 password=<32 hex digits> timeout_ms=6000
        server=10.0.0.1:2181 server=10.0.0.2:2181 ...
    forget key=1
    stop

`watch` replaces an earlier one of the same key; a key is one session of the process (a process may
hold several). A message is at most `MESSAGE_BYTES_MAX` long, which is what a pipe takes in one
piece: so a message is either there or not, also when its writer is killed in the middle of
everything. Servers that do not fit are left out from the end of the list.

Nothing here raises on bad bytes: `parse` answers `MalformedLine`, and the reader goes on with the
next line. No dataclasses and no `typing` at run time: this module is loaded by the companion, whose
size is counted.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_BYTES_MAX = 4096
INBOX_BYTES_MAX = 1 << 20
SESSIONS_MAX = 8_192
PASSWORD_BYTES_MAX = 256
SESSION_ID_MASK = (1 << 64) - 1
TIMEOUT_MS_MAX = (1 << 31) - 1


class TlsOptions:
    """TLS to ZooKeeper: PEM files (None = not given) and what is verified.

    `ca_file` None means the system's authorities. `verify` False accepts any certificate;
    `check_hostname` compares the name in the server list.
    """

    __slots__ = ("ca_file", "cert_file", "check_hostname", "key_file", "key_password", "verify")

    def __init__(
        self,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        key_password: str | None = None,
        verify: bool = True,
        check_hostname: bool = True,
    ) -> None:
        self.ca_file = ca_file
        self.cert_file = cert_file
        self.key_file = key_file
        self.key_password = key_password
        self.verify = verify
        self.check_hostname = check_hostname and verify

    def files(self) -> tuple[str, ...]:
        """The files that are named."""
        return tuple(
            path for path in (self.ca_file, self.cert_file, self.key_file) if path is not None
        )

    def key(self) -> tuple[str | bool | None, ...]:
        """Equal for equal options."""
        return (
            self.ca_file,
            self.cert_file,
            self.key_file,
            self.key_password,
            self.verify,
            self.check_hostname,
        )

    def absolute(self) -> TlsOptions:
        """The same with absolute paths: a guardian works elsewhere."""
        ca_file, cert_file, key_file = (
            os.path.abspath(path) if path is not None else None
            for path in (self.ca_file, self.cert_file, self.key_file)
        )
        return TlsOptions(
            ca_file, cert_file, key_file, self.key_password, self.verify, self.check_hostname
        )

    def __repr__(self) -> str:
        return (
            f"TlsOptions(ca_file={self.ca_file!r}, cert_file={self.cert_file!r},"
            f" verify={self.verify}, check_hostname={self.check_hostname})"
        )


class Handover:
    """One session to close should its process die: id (unsigned 64 bit), password, negotiated
    timeout in ms, servers to try in this order.
    """

    __slots__ = ("password", "report_path", "servers", "session_id", "timeout_ms", "tls")

    def __init__(
        self,
        session_id: int,
        password: bytes,
        timeout_ms: int,
        servers: Sequence[tuple[str, int]],
        tls: TlsOptions | None = None,
        report_path: str | None = None,
    ) -> None:
        self.session_id = session_id & SESSION_ID_MASK
        self.password = password
        self.timeout_ms = timeout_ms
        self.servers = list(servers)
        self.tls = tls
        self.report_path = report_path

    def __repr__(self) -> str:  # never the password: this is what ends in a log
        return (
            f"Handover(session=0x{self.session_id:x}, timeout_ms={self.timeout_ms},"
            f" servers={self.servers})"
        )


class Watch:
    """Guard this session of the process from now on."""

    __slots__ = ("handover", "key")

    def __init__(self, key: int, handover: Handover) -> None:
        self.key = key
        self.handover = handover


class Forget:
    """The session of this key is closed, or about to be: nothing to do for it when the process
    ends.
    """

    __slots__ = ("key",)

    def __init__(self, key: int) -> None:
        self.key = key


class Stop:
    """The process does without its guardian from now on."""

    __slots__ = ()


class MalformedLine:
    """A line that is no message, and why."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def _hex(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").hex()


def _unhex(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-8", "surrogateescape")


def encode_watch(key: int, handover: Handover) -> bytes:
    """The `watch` line, at most MESSAGE_BYTES_MAX bytes; servers beyond that are left out (at least
    one always fits).
    """
    words = [
        (
            f"watch key={key} session={handover.session_id:x} password={handover.password.hex()}"
            f" timeout_ms={handover.timeout_ms}"
        )
    ]
    if handover.report_path is not None:
        words.append(f"report={_hex(handover.report_path)}")
    tls = handover.tls
    if tls is not None:
        words.append(f"tls={int(tls.verify)}{int(tls.check_hostname)}")
        for name in ("ca_file", "cert_file", "key_file", "key_password"):
            value = getattr(tls, name)
            if value is not None:
                words.append(f"tls_{name}={_hex(value)}")
    size = sum(len(word) + 1 for word in words)
    for host, port in handover.servers:
        word = f"server={host}:{port}"
        if size + len(word) + 1 > MESSAGE_BYTES_MAX:
            break
        words.append(word)
        size += len(word) + 1
    return (" ".join(words) + "\n").encode("ascii", "backslashreplace")


def encode_forget(key: int) -> bytes:
    """The `forget` line."""
    return f"forget key={key}\n".encode("ascii")


def encode_stop() -> bytes:
    """The `stop` line."""
    return b"stop\n"


def parse(line: bytes) -> Watch | Forget | Stop | MalformedLine:
    """One line (without its end) to a message; never raises."""
    try:
        verb, *words = line.decode("ascii").split()
        pairs = [word.partition("=")[::2] for word in words]
        fields = dict(pairs)
        if verb == "stop":
            return Stop()
        if verb == "forget":
            return Forget(int(fields["key"]))
        if verb == "watch":
            return _parse_watch(fields, [value for name, value in pairs if name == "server"])
        return MalformedLine("unknown verb")
    except (ValueError, KeyError) as error:
        return MalformedLine(type(error).__name__)


def _parse_watch(fields: dict[str, str], server_words: list[str]) -> Watch | MalformedLine:
    servers = []
    for word in server_words:
        host, _, port = word.rpartition(":")
        if not host or not 0 < int(port) < 65536:
            return MalformedLine("a server needs a host and a port")
        servers.append((host, int(port)))
    timeout_ms = int(fields["timeout_ms"])
    password = bytes.fromhex(fields["password"])
    if (
        not servers
        or not 0 < timeout_ms <= TIMEOUT_MS_MAX
        or not 0 < len(password) <= PASSWORD_BYTES_MAX
    ):
        return MalformedLine("no server, or a timeout or password out of range")
    session_id = int(fields["session"], 16)
    if not 0 < session_id <= SESSION_ID_MASK:
        return MalformedLine("a session id is a positive 64-bit number")
    tls = None
    if "tls" in fields:
        if fields["tls"] not in ("00", "01", "10", "11"):
            return MalformedLine("tls says 0 or 1 of two checks")
        files = {
            name: _unhex(fields[f"tls_{name}"]) if f"tls_{name}" in fields else None
            for name in ("ca_file", "cert_file", "key_file", "key_password")
        }
        tls = TlsOptions(
            **files, verify=fields["tls"][0] == "1", check_hostname=fields["tls"][1] == "1"
        )
    report_path = _unhex(fields["report"]) if "report" in fields else None
    return Watch(
        int(fields["key"]), Handover(session_id, password, timeout_ms, servers, tls, report_path)
    )


class Inbox:
    """The sessions of one process as its messages leave them: bytes in, current watches out."""

    __slots__ = ("_rest", "malformed", "sessions", "stopped")

    def __init__(self) -> None:
        self.sessions: dict[int, Handover] = {}
        self.stopped = False
        self.malformed = 0
        self._rest = b""

    def feed(self, data: bytes) -> list[Handover]:
        """Take bytes as they came; returns the sessions that are new in them (an unfinished line
        waits for its end).
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > INBOX_BYTES_MAX:  # a writer that never ends its line
            self._rest = b""
            self.malformed += 1
        new = []
        for line in lines:
            message = parse(line)
            if isinstance(message, Watch):
                if message.key in self.sessions or len(self.sessions) < SESSIONS_MAX:
                    self.sessions[message.key] = message.handover
                    new.append(message.handover)
            elif isinstance(message, Forget):
                self.sessions.pop(message.key, None)
            elif isinstance(message, Stop):
                self.stopped = True
            else:
                self.malformed += 1
        return new
