"""From resolved values to typed options: what belongs together is checked together here, and
contradictions are refused in one sentence.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zkcoord.assignors.pool import AssignorOptions
from zkcoord.config.files import read_file, refuse_pipe
from zkcoord.config.kafka_security import PROTOCOL, listed_servers, security_options
from zkcoord.config.options import core_options
from zkcoord.config.sources import Settings
from zkcoord.core.assignment import ASSIGNORS
from zkcoord.core.options import CoordinatorOptions
from zkcoord.errors import ConfigurationError
from zkcoord.topics.options import TopicOptions, TopicSourceKind
from zkcoord.zk.acl.table import Roles, roles
from zkcoord.zk.acl.text import acl_entries
from zkcoord.zk.listeners import PLAINTEXT
from zkcoord.zk.options import Digest, Sasl, Tls, ZkOptions, principal_of
from zkcoord.zk.port import OPEN_ACL, AclEntry
from zkcoord.znodes.names import shown
from zkcoord.znodes.paths import Layout, layout_named

PASSWORD_BYTES_MAX = 4_096
TLS_FILES = ("tls_ca_file", "tls_cert_file", "tls_key_file")
TLS_PARTS = (*TLS_FILES, "tls_key_password")
ROLES = ("acl_coordinators", "acl_members", "acl_readers")
HTTP_PARTS = ("http_host", "http_port", "http_names")
JOURNAL_PARTS = (
    "journal_dir",
    "journal_file_bytes_max",
    "journal_files_max",
    "journal_inputs",
    "journal_inputs_bytes_max",
    "journal_inputs_terms_max",
)
INPUTS_PARTS = ("journal_inputs_bytes_max", "journal_inputs_terms_max")


@dataclass(frozen=True)
class JournalOptions:
    """Where the journal is and how large it grows: at most about `file_bytes_max` times
    `files_max`.
    """

    dir: Path
    file_bytes_max: int
    files_max: int


@dataclass(frozen=True)
class InputsOptions:
    """Where the core's inputs are kept, how large one term's file grows, and of how many terms."""

    dir: Path
    bytes_max: int
    terms_max: int


@dataclass(frozen=True)
class HttpOptions:
    """Where HTTP is served; port 0: any free one. `names`: what clients may call it, beside its
    address and this host's name.
    """

    host: str
    port: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogOptions:
    """`level` and `format` as in the table; `same_per_minute_max` lines of one message."""

    level: str = "info"
    format: str = "text"
    same_per_minute_max: int = 20


@dataclass(frozen=True)
class ClusterOptions:
    """Where topics come from: `servers` to begin with, and kafka-python's options of security."""

    topics: TopicOptions = field(default_factory=TopicOptions)
    servers: tuple[str, ...] = ()
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class CoordinatorSettings:
    """All that `zkcoord coordinator` works with. `journal`, `inputs` and `http` None: switched
    off.
    """

    zk: ZkOptions
    layout: Layout
    core: CoordinatorOptions
    assignors: AssignorOptions
    broker_id: int | None
    host: str
    guardian: bool
    guardian_report_path: str | None
    journal: JournalOptions | None
    inputs: InputsOptions | None
    http: HttpOptions | None
    logs: LogOptions
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    secure: bool = False
    notes: tuple[str, ...] = ()


def coordinator_settings(
    settings: Settings, assignors: tuple[str, ...], environment: Mapping[str, str]
) -> CoordinatorSettings:
    """Raises `ConfigurationError`. `assignors` are the names that there are; those that are not
    built in are run in processes of their own.
    """
    zk = zk_options(settings)
    _is_coordinator(settings, zk)
    assignor = settings.text("assignor")
    if assignor not in assignors:
        raise ConfigurationError(
            f"{settings.where('assignor')} is {shown(assignor)}, which no assignor is called: write"
            f" {' or '.join(assignors)}"
        )
    for small, large in (
        ("debounce_ms", "debounce_storm_ms"),
        ("debounce_storm_ms", "debounce_max_ms"),
    ):
        if settings.number(small) > settings.number(large):
            raise ConfigurationError(
                f"{settings.where(small)} ({settings.number(small)}) is more than {large}"
                f" ({settings.number(large)}): make {small} smaller or {large} larger"
            )
    needs(settings, "journal", JOURNAL_PARTS)
    needs(settings, "journal_inputs", INPUTS_PARTS)
    needs(settings, "guardian", ("guardian_report_path",))
    broker = settings.values["broker_id"]
    return CoordinatorSettings(
        zk=zk,
        layout=layout_named(settings.text("layout")),
        core=replace(
            core_options(settings.values.__getitem__),
            external_assignors=tuple(name for name in assignors if name not in ASSIGNORS),
        ),
        assignors=AssignorOptions(
            settings.number("assignor_processes_max"),
            settings.number("assignor_deadline_ms"),
            settings.number("assignor_memory_mb"),
        ),
        broker_id=broker if isinstance(broker, int) else None,
        host=settings.text("host") or socket.gethostname(),
        guardian=settings.switch("guardian"),
        guardian_report_path=settings.optional("guardian_report_path"),
        journal=journal_options(settings, environment) if settings.switch("journal") else None,
        inputs=(
            _inputs_options(settings, environment)
            if settings.switch("journal") and settings.switch("journal_inputs")
            else None
        ),
        http=http_options(settings),
        logs=log_options(settings),
        cluster=_cluster(settings),
        secure=_secure(settings, zk),
        notes=(*settings.notes, *open_notes(settings, zk)),
    )


def _cluster(settings: Settings) -> ClusterOptions:
    security = security_options(settings.text("kafka_config"))
    topics = TopicOptions(
        TopicSourceKind(settings.text("topic_source")),
        settings.number("topic_refresh_ms"),
        str(security.get(PROTOCOL, PLAINTEXT)),
    )
    servers = listed_servers(settings)
    if topics.source is TopicSourceKind.ZOOKEEPER:
        given = next((n for n in ("bootstrap_servers", "kafka_config") if settings.given(n)), None)
        if given is not None:
            raise ConfigurationError(
                f"{settings.where(given)} is given, but topics come from ZooKeeper, so that no"
                " broker is asked: leave one of them out"
            )
    return ClusterOptions(topics, servers, security)


def http_options(settings: Settings) -> HttpOptions | None:
    """Where HTTP is served; None: nowhere. Raises `ConfigurationError`."""
    needs(settings, "http", HTTP_PARTS)
    if not settings.switch("http"):
        return None
    names = (settings.optional("http_names") or "").split(",")
    return HttpOptions(
        settings.text("http_host"),
        settings.number("http_port"),
        tuple(filter(None, map(str.strip, names))),
    )


def log_options(settings: Settings) -> LogOptions:
    """How to log."""
    return LogOptions(
        settings.text("log_level"),
        settings.text("log_format"),
        settings.number("log_same_per_minute_max"),
    )


def journal_options(settings: Settings, environment: Mapping[str, str]) -> JournalOptions:
    """The journal of a coordinator."""
    return JournalOptions(
        journal_dir(settings, environment),
        settings.number("journal_file_bytes_max"),
        settings.number("journal_files_max"),
    )


def _inputs_options(settings: Settings, environment: Mapping[str, str]) -> InputsOptions:
    return InputsOptions(
        journal_dir(settings, environment),
        settings.number("journal_inputs_bytes_max"),
        settings.number("journal_inputs_terms_max"),
    )


def journal_dir(settings: Settings, environment: Mapping[str, str]) -> Path:
    """The journal's folder: as given, else where state of a user's programs belongs."""
    given = settings.text("journal_dir")
    state = environment.get("XDG_STATE_HOME", "")
    try:
        if given:
            return Path(given).expanduser()
        return (
            (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state")
            / "zkcoord"
            / "journal"
        )
    except RuntimeError as error:  # this user has no home
        raise ConfigurationError(
            "the journal's folder cannot be told, because this user has no home: give --journal-dir"
            " with an absolute path"
        ) from error


def zk_options(settings: Settings) -> ZkOptions:
    """How to reach the ensemble. Raises `ConfigurationError`."""
    if not settings.text("zookeeper"):
        raise ConfigurationError(
            "no ZooKeeper is named: write --zookeeper HOST:PORT[,HOST:PORT...][/CHROOT], or set"
            " ZKCOORD_ZOOKEEPER"
        )
    needs(settings, "tls", TLS_PARTS)
    digest, sasl = _credentials(settings)
    tls = None
    if settings.switch("tls"):
        tls = Tls(
            settings.optional("tls_ca_file"),
            settings.optional("tls_cert_file"),
            settings.optional("tls_key_file"),
            settings.optional("tls_key_password"),
        )
        for name in TLS_FILES:
            try:
                refuse_pipe(settings.text(name))
            except OSError as error:
                raise ConfigurationError(
                    f"{settings.where(name)} is {shown(settings.text(name))}, which cannot be used"
                    f" ({error.strerror}): give a file that can be read"
                ) from error
        tls.context()  # an unusable file is said here, not at the first connection
    return ZkOptions(
        hosts=settings.text("zookeeper"),
        session_timeout_ms=settings.number("session_timeout_ms"),
        connect_timeout_ms=settings.number("connect_timeout_ms"),
        digest=digest,
        sasl=sasl,
        tls=tls,
        acl=(
            _acl(settings, authenticated=bool(digest or sasl))
            if "acl" in settings.values
            else OPEN_ACL
        ),
        roles=_roles(settings),
    )


def needs(settings: Settings, switch: str, parts: tuple[str, ...]) -> None:
    """Refuse parts of something that is switched off. Raises `ConfigurationError`."""
    if settings.switch(switch):
        return
    given = next((part for part in parts if settings.given(part)), None)
    if given is not None:
        where = settings.where(switch)
        off = f"but {where} switches it off" if settings.given(switch) else f"but {switch} is off"
        raise ConfigurationError(
            f"{settings.where(given)} is given, {off}: leave one of them out"
            + ("" if settings.given(switch) else f", or add --{switch.replace('_', '-')}")
        )


def _credentials(settings: Settings) -> tuple[Digest | None, Sasl | None]:
    user, mechanism = settings.text("zookeeper_user"), settings.text("sasl_mechanism")
    password = _password(settings)
    if mechanism == "GSSAPI":
        if user or password:
            raise ConfigurationError(
                "GSSAPI takes the user from the ticket cache: leave zookeeper_user and the"
                " password out"
            )
        return None, Sasl(mechanism)
    if bool(user) != bool(password):
        missing = "zookeeper_password (or zookeeper_password_file)" if user else "zookeeper_user"
        raise ConfigurationError(
            f"a ZooKeeper {'user' if user else 'password'} is given alone: give {missing} as well"
        )
    if mechanism:
        return None, Sasl(mechanism, user, password)
    return (Digest(user, password) if user else None), None


def _password(settings: Settings) -> str:
    path, password = settings.text("zookeeper_password_file"), settings.text("zookeeper_password")
    if not path:
        return password
    if password:
        raise ConfigurationError(
            "zookeeper_password and zookeeper_password_file are both given: leave one of them out"
        )
    try:
        text = read_file(path, PASSWORD_BYTES_MAX).decode("utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"the password file {path} cannot be read ({error.strerror}): correct"
            f" {settings.where('zookeeper_password_file')}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"the password file {path} is not UTF-8: write the password as text on its first line"
        ) from error
    first = text.partition("\n")[0].rstrip("\r")
    if not first:
        raise ConfigurationError(
            f"the password file {path} has an empty first line: write the password there"
        )
    return first


def _roles(settings: Settings) -> Roles | None:
    """Who may what, where that is said."""
    given = [name for name in ROLES if settings.given(name)]
    if not given:
        return None
    if settings.given("acl"):
        raise ConfigurationError(
            f"{settings.where('acl')} and {settings.where(given[0])} are both given: leave acl out,"
            " since the other says who may do what with each node"
        )
    coordinators, members, readers = ROLES
    return roles(
        settings.text(coordinators),
        settings.text(members),
        settings.text(readers),
        (settings.where(coordinators), settings.where(members), settings.where(readers)),
    )


def _is_coordinator(settings: Settings, zk: ZkOptions) -> None:
    """Refuse a coordinator that is a member or reader only: it may not use what it makes."""
    if zk.roles is None or zk.may_be_known_otherwise(zk.roles):
        return
    mine = principal_of(zk.digest, zk.sasl)
    if mine in zk.roles.all and mine not in zk.roles.coordinators:
        coordinators, members, _ = (settings.where(name) for name in ROLES)
        raise ConfigurationError(
            f"this coordinator has the credentials of {shown(str(mine))}, which {coordinators}"
            f" does not name: give it a coordinator's credentials, and see that {coordinators} and"
            f" {members} are not exchanged"
        )


def _secure(settings: Settings, zk: ZkOptions) -> bool:
    if settings.switch("secure") and zk.roles is None:
        raise ConfigurationError(
            f"{settings.where('secure')} is on, and nothing says who may do what: give"
            " acl_coordinators and acl_members as well"
        )
    return settings.switch("secure")


def open_notes(settings: Settings, zk: ZkOptions) -> tuple[str, ...]:
    """Credentials that protect nothing are worth a word."""
    if (
        (zk.digest is None and zk.sasl is None and not (zk.tls and zk.tls.cert))
        or zk.roles is not None
        or settings.given("acl")
    ):
        return ()
    return (
        (
            "there are credentials, and yet every node is created open to everybody: say who may do"
            " what with acl_coordinators and acl_members, or acl=open to leave it so"
        ),
    )


def _acl(settings: Settings, authenticated: bool) -> tuple[AclEntry, ...]:
    """See `acl_entries`."""
    where = settings.where("acl")
    try:
        entries = acl_entries(settings.text("acl"))
    except ValueError as error:
        raise ConfigurationError(
            f"{error} in {where} is not an ACL entry: write SCHEME:ID:PERMISSIONS with"
            " permissions of the letters cdrwa, for example world:anyone:r"
        ) from None
    if not authenticated and any(entry.scheme == "auth" for entry in entries):
        raise ConfigurationError(
            f"{where} names the scheme auth, which is the user of this connection, but there is"
            " none: give zookeeper_user, or SASL, or another scheme"
        )
    return entries
