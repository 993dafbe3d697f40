"""How to reach an ensemble: checked when it is built, so that nothing wrong waits for the first
reconnect to show.

Everything that can be known without the network is checked here and refused with one sentence
(`ConfigurationError`). Secrets (`password`, `key_password`) are left out of `repr`; nothing here or
below logs them, and a list of servers with an `@` in it is not quoted in its refusal: what stands
before that is often a password. TLS always verifies the server's certificate and its host name,
which must be among the certificate's alternative names: there is no option to switch that off.
"""

from __future__ import annotations

import importlib.util
import ssl
from dataclasses import dataclass, field

from kazoo.security import make_digest_acl_credential

from zkcoord.errors import ConfigurationError
from zkcoord.tls import names_only
from zkcoord.zk.acl.table import Principal, Roles
from zkcoord.zk.port import OPEN_ACL, AclEntry
from zkcoord.znodes.names import is_port

DEFAULT_PORT = 2181
HOSTS_MAX = 64
SESSION_TIMEOUT_MIN_MS = 100
SESSION_TIMEOUT_MAX_MS = 3_600_000
SASL_MECHANISMS = ("DIGEST-MD5", "GSSAPI")

NO_AUTHORITIES = "give a file of certificates in PEM form"
TLS_FILES = ("the TLS file of authorities", "the TLS certificate file", "the TLS key file")

Server = tuple[str, int]


@dataclass(frozen=True)
class Digest:
    """ZooKeeper's digest scheme: a name and a password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Sasl:
    """SASL, which needs the `pure-sasl` package. DIGEST-MD5 takes a name and a password, GSSAPI the
    ticket cache of the process.
    """

    mechanism: str = "DIGEST-MD5"
    username: str = ""
    password: str = field(default="", repr=False)
    service: str = "zookeeper"

    def arguments(self) -> dict[str, str]:
        """What pure-sasl's client takes."""
        ticket = {"mechanism": self.mechanism, "service": self.service}
        return (
            ticket
            if self.mechanism == "GSSAPI"
            else {**ticket, "username": self.username, "password": self.password}
        )


@dataclass(frozen=True)
class Tls:
    """PEM files. `ca` None: the system's authorities. `cert` and `key` are for mutual TLS; `key`
    may be in the file of `cert`.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def context(self, names: tuple[str, str, str] = TLS_FILES) -> ssl.SSLContext:
        """A context that verifies certificate and host name. `names` are what the user calls the
        three files. Raises `ConfigurationError` that names the one that cannot be used.
        """
        if self.key and not self.cert:
            raise ConfigurationError(
                "a TLS key is given without a certificate: give the certificate (PEM) that belongs"
                " to it as well"
            )
        self._look(names)
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.ca)
        except (OSError, ValueError) as e:
            raise _unfit(names[0], self.ca, e, NO_AUTHORITIES) from e
        if self.cert:
            self._load_own(context, self.cert, names)
        context.check_hostname = True
        context.verify_mode = ssl.CERT_REQUIRED
        return names_only(context)

    def server_context(
        self, cert: str, names: tuple[str, str, str], required: bool
    ) -> ssl.SSLContext:
        """A context for whom others connect to, with `cert`, TLS 1.2 or newer. Where there are
        authorities, clients are asked for a certificate of theirs: all of them (`required`), or
        whoever has one. Raises `ConfigurationError` as `context` does.
        """
        self._look(names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        self._load_own(context, cert, names)
        if self.ca:
            try:
                context.load_verify_locations(self.ca)
            except (OSError, ValueError) as e:
                raise _unfit(names[0], self.ca, e, NO_AUTHORITIES) from e
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        return context

    def _look(self, names: tuple[str, str, str]) -> None:
        for name, path in zip(names, (self.ca, self.cert, self.key), strict=True):
            _readable(name, path)

    def _load_own(self, context: ssl.SSLContext, cert: str, names: tuple[str, str, str]) -> None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cert)
        except (OSError, ValueError) as e:
            raise _unfit(names[1], cert, e, "give a file with a certificate in PEM form") from e
        try:
            context.load_cert_chain(cert, self.key, self.key_password or (lambda: ""))
        except (OSError, ValueError) as e:
            name, path = (names[2], self.key) if self.key else (names[1], cert)
            raise _unfit(
                name,
                path,
                e,
                "give the file with the private key (PEM) of that certificate, and the key's"
                " password if it has one",
            ) from e


def _readable(name: str, path: str | None) -> None:
    try:
        if path:
            with open(path, "rb") as file:
                file.read(1)
    except OSError as e:
        raise _unfit(name, path, e.strerror or e, "give a file that can be read") from e


def _unfit(name: str, path: str | None, why: object, what_to_do: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is {path!r}, which cannot be used ({why}): {what_to_do}")


@dataclass(frozen=True)
class ZkOptions:
    """Options of one ensemble.

    `hosts` is "host:port,host:port/chroot". `session_timeout_ms` is asked for; the server's limits
    decide. `connect_timeout_ms` bounds only the first connection of a `KazooEnsemble` (0: keep
    trying for ever). `request_deadline_ms`: a call without an answer for so long ends `Unanswered`
    and takes the connection with it (0: half of the negotiated session timeout).
    `close_deadline_ms`: `Closed` follows `close()` within it. `acl` is what callers put on the
    nodes they create. With `roles` each node gets the ACL of its place instead, whatever the caller
    says, and `acl` is only one of the same size, for whoever counts bytes.
    """

    hosts: str
    session_timeout_ms: int = 18_000
    connect_timeout_ms: int = 10_000
    request_deadline_ms: int = 0
    close_deadline_ms: int = 2_000
    digest: Digest | None = None
    sasl: Sasl | None = None
    tls: Tls | None = None
    acl: tuple[AclEntry, ...] = OPEN_ACL
    roles: Roles | None = None
    servers: tuple[Server, ...] = field(init=False)
    chroot: str = field(init=False)

    def __post_init__(self) -> None:
        servers, chroot = parse_hosts(self.hosts)
        object.__setattr__(self, "servers", servers)
        object.__setattr__(self, "chroot", chroot)
        if not SESSION_TIMEOUT_MIN_MS <= self.session_timeout_ms <= SESSION_TIMEOUT_MAX_MS:
            raise ConfigurationError(
                f"a session timeout of {self.session_timeout_ms} ms cannot be used: give one"
                f" between {SESSION_TIMEOUT_MIN_MS} and {SESSION_TIMEOUT_MAX_MS} ms (18000 is"
                " usual)"
            )
        for name in ("connect_timeout_ms", "request_deadline_ms"):
            if getattr(self, name) < 0:
                raise ConfigurationError(
                    f"{name} is {getattr(self, name)}: give a number of milliseconds, or 0 for the"
                    " default behaviour"
                )
        if self.close_deadline_ms <= 0:
            raise ConfigurationError(
                f"close_deadline_ms is {self.close_deadline_ms}: give a number of milliseconds"
                " above 0"
            )
        if not self.acl:
            raise ConfigurationError(
                "the ACL for created nodes is empty: give at least one entry, for example"
                " world:anyone with all permissions"
            )
        if self.digest is not None and (not self.digest.username or ":" in self.digest.username):
            raise ConfigurationError(
                "a digest user name must not be empty or contain a colon: give name and password"
                " separately"
            )
        if self.sasl is not None:
            _check_sasl(self.sasl)
        if self.roles is not None:
            self._check_roles(self.roles)
            object.__setattr__(self, "acl", self.roles.widest)

    def _check_roles(self, roles: Roles) -> None:
        """That what is created can be used again by whoever created it, as far as that can be told
        without the server.
        """
        if self.digest is not None:
            mine = principal_of(self.digest, None)
            if mine not in roles.all and not self.may_be_known_otherwise(roles):
                raise ConfigurationError(
                    "none of the principals that are given access is the digest user"
                    f" {self.digest.username!r} with this password: correct the hash"
                    " (docs/security.md says how it is made), or the password"
                )
        elif self.sasl is None and not self.may_be_known_otherwise(roles):
            raise ConfigurationError(
                "access is given to certain principals, and this client has no credentials to be"
                " one of them: give it a user and a password, SASL, or a TLS certificate"
            )

    def may_be_known_otherwise(self, roles: Roles) -> bool:
        """Whether ZooKeeper may take this client for somebody beside whom it says that it is."""
        return bool(self.tls and self.tls.cert) or any(
            p.scheme not in ("digest", "sasl", "x509") for p in roles.all
        )

    @property
    def address(self) -> str:
        """The servers and the chroot as one text, for messages."""
        return (
            ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.servers)
            + self.chroot
        )


def principal_of(digest: Digest | None, sasl: Sasl | None) -> Principal | None:
    """Whom ZooKeeper takes a client with these credentials for; None: that is not known here."""
    if digest is not None:
        return Principal("digest", make_digest_acl_credential(digest.username, digest.password))
    if sasl is not None and sasl.mechanism == "DIGEST-MD5":
        return Principal("sasl", sasl.username)
    return None


def _check_sasl(sasl: Sasl) -> None:
    if sasl.mechanism not in SASL_MECHANISMS:
        raise ConfigurationError(
            f"the SASL mechanism {sasl.mechanism!r} is not known: use one of"
            f" {', '.join(SASL_MECHANISMS)}"
        )
    if sasl.mechanism == "DIGEST-MD5" and not (sasl.username and sasl.password):
        raise ConfigurationError("SASL with DIGEST-MD5 needs a user name and a password: give both")
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigurationError(
            "SASL needs the Python package pure-sasl, which is not installed: install it (pip"
            " install pure-sasl) or use digest or TLS"
        )


def parse_hosts(text: str) -> tuple[tuple[Server, ...], str]:
    """Servers and chroot ("" or "/a/b") of "host:port,host:port/chroot"; the port may be left out
    (2181), IPv6 addresses stand in brackets. Raises `ConfigurationError`.
    """
    try:
        return _parsed(text)
    except ConfigurationError:
        if "@" not in text:
            raise
        raise ConfigurationError(
            "the list of ZooKeeper servers has an @ in it (it is not shown, because there may be a"
            " password): write host:port,host:port/chroot, and give user and password as options of"
            " their own"
        ) from None


def _parsed(text: str) -> tuple[tuple[Server, ...], str]:
    scheme, colon, _ = text.strip().partition("://")
    if colon:
        raise ConfigurationError(
            f"the connect string begins with {scheme + colon!r}, and no scheme belongs there: write"
            " host:port,host:port/chroot"
        )
    hosts, slash, rest = text.strip().partition("/")
    servers: list[Server] = []
    for part in hosts.split(","):
        if not part.strip():
            continue
        server = _server(part.strip(), text)
        if server not in servers:
            servers.append(server)
    if not servers:
        raise ConfigurationError(
            f"no ZooKeeper server in {text!r}: write host:port,host:port and, where there is a"
            " chroot, /chroot after the last one"
        )
    if len(servers) > HOSTS_MAX:
        raise ConfigurationError(
            f"{len(servers)} ZooKeeper servers are more than {HOSTS_MAX}: name the members of one"
            " ensemble only"
        )
    return tuple(servers), _chroot(slash + rest, text)


def _server(part: str, text: str) -> Server:
    if part.startswith("["):
        host, bracket, tail = part[1:].partition("]")
        port = tail[1:] if tail.startswith(":") else ""
        good = bool(bracket) and (not tail or tail.startswith(":"))
    else:
        host, _, port = part.partition(":")
        good = ":" not in port
    if (
        not good
        or not host
        or any(c.isspace() or not c.isprintable() or c in "@?#\\[]" for c in host)
    ):
        raise ConfigurationError(
            f"{part!r} in {text!r} is not a server: write host:port, and an IPv6 address as"
            " [address]:port"
        )
    if not port:
        return host, DEFAULT_PORT
    if not is_port(port):
        raise ConfigurationError(
            f"{port!r} in {text!r} is not a port: write a number from 1 to 65535 after the host"
        )
    return host, int(port)


def _chroot(path: str, text: str) -> str:
    if path in ("", "/"):
        return ""
    if "," in path or ":" in path:
        raise ConfigurationError(
            f"the chroot {path!r} in {text!r} stands before the last server: write it once, after"
            " the last host:port"
        )
    path = path[:-1] if path.endswith("/") else path
    parts = path[1:].split("/")
    if any(not p or p in (".", "..") or not p.isprintable() for p in parts):
        raise ConfigurationError(
            f"{path!r} in {text!r} is not a chroot: write an absolute path such as /kafka, without"
            " empty parts"
        )
    return path
